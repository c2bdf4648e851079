"""Logs in the data directory of a member that are of no replica it has: what was decided while it was away."""

from __future__ import annotations

import errno

import pytest

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.message import Message
from barnabas.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import ME, MemberBroker, broker, registration, topic
from tests.support.core_broker import DATA, START_MS, batch
from tests.support.sole_replica import append

FLIGHTS, OTHERS = bytes(15) + b"\x01", bytes(15) + b"\x02"
FLIGHT = TopicPartition("flights", 0)


def left_behind() -> MemoryFileSystem:
    """The disk of a member that was killed; it had the only replica of a partition."""
    found = MemberBroker({}, *topic("flights", FLIGHTS, [ME]))
    partition = found.state.replica_manager.used_partition(*FLIGHT)
    assert partition is not None
    append(partition.log, batch(b"old"), now_ms=START_MS)
    found.filesystem.crash()
    return found.filesystem


def again(disk: MemoryFileSystem, *records: Message, **more: bool) -> MemberBroker:
    found = MemberBroker({}, *records, filesystem=disk, **more)
    found.advance(1)
    return found


def strays(disk: MemoryFileSystem) -> list[str]:
    return [entry.name for entry in disk.list_directory(DATA) if entry.name.endswith("-stray")]


def end(found: MemberBroker) -> int:
    partition = found.state.replica_manager.used_partition(*FLIGHT)
    assert partition is not None
    return partition.log.log_end_offset


def test_the_log_of_a_topic_that_was_deleted_is_kept_as_a_stray() -> None:
    disk = left_behind()
    found = again(disk)
    assert len(strays(disk)) == 1
    assert not disk.exists(f"{DATA}/flights-0")
    assert [text for text in found.warnings if "no topic of this cluster has its id" in text and "-stray" in text]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_topic_that_was_created_again_begins_empty(when: str) -> None:
    """It is another one, whatever its name: what the old one had is in none of its other replicas."""
    disk = left_behind()
    records = topic("flights", OTHERS, [ME])
    found = again(disk, *records) if when == "before" else again(disk)
    if when == "after":
        found.tell(*records)
    assert end(found) == 0
    assert len(strays(disk)) == 1
    found.filesystem.crash()
    assert end(again(disk, *records)) == 0


def test_a_replica_that_was_moved_away_is_kept_as_a_stray() -> None:
    disk = left_behind()
    found = again(disk, *broker(1, host="one"), *topic("flights", FLIGHTS, [1]))
    assert len(strays(disk)) == 1
    assert [text for text in found.warnings if "was moved to other brokers" in text]


def test_nothing_is_a_stray_by_metadata_that_do_not_have_this_life_yet() -> None:
    """They may be of a controller that others have replaced, and be older than the replica."""
    disk = left_behind()
    found = again(disk, registers=False)
    found.advance(60)
    assert strays(disk) == []
    found.tell(*topic("flights", FLIGHTS, [ME]))
    found.answer("heartbeat", BrokerRegistrationResponse(broker_epoch=30))
    found.tell(registration(ME, "127.0.0.1", 9092))
    assert end(found) == 1, "it goes on with its log"
    assert strays(disk) == []


def test_no_log_is_made_where_a_stray_cannot_be_renamed_and_it_is_tried_again() -> None:
    disk = left_behind()
    disk.fail = lambda operation, path: OSError(errno.EIO, "broken", path) if operation == "rename" else None
    found = again(disk)
    assert strays(disk) == []
    found.tell(*topic("flights", OTHERS, [ME]))
    assert found.member.failed_roles.keys() == {FLIGHT}
    disk.fail = None
    found.advance(60)
    assert end(found) == 0
    assert len(strays(disk)) == 1
