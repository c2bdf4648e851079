"""What must be true of a cluster when all is well again: every replica in sync, and all replicas the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.log.log_file_utils import MARKED_DIR_SUFFIXES, parse_directory_name
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.broker.metadata.partition_registration import MIGRATING_DIRECTORY
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from barnabas.testing.simulator.workloads.shortened_topics import KeyedTopic

if TYPE_CHECKING:
    from barnabas.testing.simulator.cluster.cluster_partitions import Partitions
    from barnabas.testing.simulator.cluster.simulated_member import SimulatedMember

#: Their replicas are compacted, each at times of its own.
INTERNAL_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC)
#: Offset, leader epoch, key and value.
_Record = tuple[int, int, bytes | None, bytes | None]


def what_is_missing(
    partitions: Partitions | None, brokers: Sequence[SimulatedMember], *, only_isr: bool = False
) -> str:
    """Say what is not yet as it should be; nothing when every replica is in sync and has all that its leader has.

    With `only_isr` it is enough that all are in sync.
    """
    if partitions is None:
        return "there is not one active controller"
    away = [broker.name for broker in brokers if not broker.is_in_service]
    if away:
        return f"{', '.join(away)} not in service"
    for name, registration in partitions:
        if registration.is_reassigning:
            return f"{name} is being reassigned: {registration}"
        if set(registration.isr) != set(registration.replicas) or registration.leader < 0:
            return f"{name} has leader {registration.leader} and ISR {registration.isr} of {registration.replicas}"
        if only_isr:
            continue
        logs = [brokers[replica - 1].log(name) for replica in registration.replicas]
        ends = [None if log is None else log.log_end_offset for log in logs]
        marks = [None if log is None else log.high_watermark for log in logs]
        if None in ends or len({*ends, *marks}) != 1:
            return f"the replicas {registration.replicas} of {name} end at {ends}, with high watermarks {marks}"
    return "" if only_isr else _what_stays(partitions, brokers) or _lies_elsewhere(partitions, brokers)


def _what_stays(partitions: Partitions, brokers: Sequence[SimulatedMember]) -> str:
    """Say where a broker keeps a log that is of no replica it has, nor marked as a stray or to be deleted."""
    replicas = {name: registration.replicas for name, registration in partitions}
    for broker in brokers:
        for directory in broker.directories:
            for entry in broker.disk.list_directory(directory):
                name = parse_directory_name(entry.name) if entry.is_directory else None
                if name is None or entry.name.endswith(MARKED_DIR_SUFFIXES):
                    continue
                if broker.number not in replicas.get(name, ()):
                    return f"{broker.name} keeps {directory}/{entry.name}, whose replicas are {replicas.get(name)}"
    return ""


def _lies_elsewhere(partitions: Partitions, brokers: Sequence[SimulatedMember]) -> str:
    """Say where a quorum takes a replica to lie where it does not: it lets no such replica lead (KIP-858)."""
    for name, registration in partitions:
        for replica in registration.replicas if registration.directories else ():
            broker, known = brokers[replica - 1], registration.directory(replica)
            assert broker.node is not None, "all are in service"
            states = broker.node.logs.directories
            places = [state.manager.log_directory.directory_id for state in states if state.manager.holds(name)]
            if known not in places and not (len(states) == 1 and known == MIGRATING_DIRECTORY):
                return f"{name} lies in {places} of {broker.name}, and the controller takes it to lie in {known!r}"
    return ""


def replicas_agree(partitions: Partitions, brokers: Sequence[SimulatedMember]) -> Iterator[str]:
    """Yield where two replicas of a partition hold different records."""
    for name, registration in partitions:
        holds = _newest if name.topic in (*INTERNAL_TOPICS, KeyedTopic.TOPIC) else _records
        start = max(log.log_start_offset for one in registration.replicas if (log := brokers[one - 1].log(name)))
        first, *others = registration.replicas
        expected = holds(brokers[first - 1], name, start)
        for other in others:
            found = holds(brokers[other - 1], name, start)
            if found != expected:
                differs = next((pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]), None)
                yield f"the replicas of {name} at {first} and {other} differ: {differs!r:.300}"


def _records(broker: SimulatedMember, name: TopicPartition, start: int) -> list[_Record]:
    """Return what a replica has from an offset on: each takes what is too old at times of its own."""
    log = broker.log(name)
    assert log is not None, "every replica has its log"
    found: list[_Record] = []
    at = start
    while data := log.read(at, 1 << 20, isolation=LOG_END).records:
        assert isinstance(data, bytes), "a file in memory has no regions"
        for batch in read_batches(data):
            found += [
                (record.offset, batch.partition_leader_epoch, record.key, record.value)
                for record in batch
                if record.offset >= start
            ]
            at = batch.last_offset + 1
    return found


def _newest(broker: SimulatedMember, name: TopicPartition, start: int) -> list[_Record]:
    """Return the newest record of each key that is not deleted: replicas compact at times of their own."""
    newest: dict[bytes | None, _Record] = {}
    for record in _records(broker, name, start):
        newest.pop(record[2], None)
        if record[3] is not None and record[2] is not None:
            newest[record[2]] = record
    return list(newest.values())
