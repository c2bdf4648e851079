"""What each API asks of the disk on the request loop, on a disk where every operation takes 50 ms (rule 5 of the room).

The clock is the count of operations: those on the loop are counted, those of the storage's threads are not. The broker
flushes after every record, its files are not in the system's cache, and no log is open.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.log.assigned_logs import AT_ONCE
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.broker.replica_manager import ReplicaManager
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_producers_request import DescribeProducersRequest
from barnabas.protocol.messages.describe_producers_request import TopicRequest as ProducersTopic
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from barnabas.protocol.messages.remove_topic_record import RemoveTopicRecord
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.cluster_member import MemberBroker, topic
from tests.support.cluster_member import broker as brokers
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce

PARTITIONS = 3
REPEATED = 4
OF_THE_CACHE = 10
SETTINGS = {"log.flush.interval.messages": 1, "offsets.topic.num.partitions": 1, "log.cleaner.enable": False}
SETTINGS["transaction.state.log.num.partitions"] = 1
#: The system's cache answers these, and brings what they change to the disk later; so many a partition and request.
QUICK = {"write", "open", "rename", "remove", "list", "read", "truncate", "create"}


class OneDisk:
    """Storage whose work is done when the test says so, and what the loop asks of the disk meanwhile."""

    def __init__(self) -> None:
        self.filesystem = MemoryFileSystem(random.Random(1))
        self.filesystem.fail = self._note
        self.waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.on_loop: Counter[str] = Counter()
        self._is_beside = False

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.waiting.append((work, done))

    def drain(self) -> None:
        while self.waiting:
            self.answer_one()

    def answer_one(self, index: int = 0) -> None:
        if self.waiting:
            work, done = self.waiting.pop(index)
            self._is_beside = True
            work()
            self._is_beside = False
            done()

    def _note(self, operation: str, path: str) -> None:
        if not self._is_beside:
            is_cold = operation == "read" and path in self.filesystem.cold
            self.on_loop[f"cold read of {path}" if is_cold else operation] += 1


def settled(broker: CoreBroker, disk: OneDisk, client: CoreClient, before: int) -> Any:
    for _ in range(100):
        broker.node.core.settle(broker.instant)
        disk.drain()
        broker.advance(0)
        if len(client.responses) > before:
            return client.responses[-1]
    raise AssertionError("no answer")


def ask(broker: CoreBroker, disk: OneDisk, client: CoreClient, message: Message, version: int) -> Any:
    before = len(client.responses)
    client.send(message, version)
    return settled(broker, disk, client, before)


@pytest.fixture
def disk() -> OneDisk:
    return OneDisk()


@pytest.fixture
def broker(disk: OneDisk) -> CoreBroker:
    """A broker that was started anew, with a topic of records in several segments, one that is new, and a group."""
    first = used(disk, SETTINGS)
    first.stop()
    return started_anew(first, disk)


@pytest.fixture
def crashed(disk: OneDisk) -> CoreBroker:
    """The same after a crash that has left the logs to be recovered."""
    return started_anew(used(disk, SETTINGS), disk)


def used(disk: OneDisk, settings: dict[str, Any]) -> CoreBroker:
    first = CoreBroker(settings, disk.filesystem, storage=disk)
    client = first.connect()
    ask(first, disk, client, create("old", PARTITIONS, index_interval_bytes="0"), 7)
    for number in range(12):
        records = batch(b"%d" % number + bytes(60), now_ms=START_MS + number)
        answer = ask(first, disk, client, produce("old", records, number % PARTITIONS), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        if number == 6:
            for index in range(PARTITIONS):
                first.state.replica_manager.partition("old", index).log.roll()
    ask(first, disk, client, create("new", PARTITIONS), 7)
    ask(first, disk, client, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    ask(first, disk, client, FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
    assert ask(first, disk, client, commit(), 8).topics[0].partitions[0].error_code == 0
    return first


def started_anew(first: CoreBroker, disk: OneDisk) -> CoreBroker:
    """Another broker on the files, of which nothing is in the cache."""
    first.node.metadata.close()
    disk.filesystem.crash()
    disk.filesystem.cold = set(disk.filesystem._names)
    broker = CoreBroker(SETTINGS, disk.filesystem, first.store, seed=2, storage=disk)
    disk.on_loop.clear()
    assert len(broker.node.logs.unopened) > PARTITIONS
    return broker


def commit() -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="old", partitions=[partition])])


def list_offsets(timestamp: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(PARTITIONS)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="old", partitions=partitions)])


EPOCHS = [OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(PARTITIONS)]
STARTS = [DeleteRecordsPartition(partition_index=index, offset=2) for index in range(PARTITIONS)]
REQUESTS: dict[str, tuple[Message, int]] = {
    "Produce": (produce("old", batch(b"a"), 1), 9),
    "Produce, the first record": (produce("new", batch(b"a"), 1), 9),
    "Fetch": (fetch("old", 1, 2), 12),
    "Fetch of a new log": (fetch("new", 0, 2), 12),
    "ListOffsets, latest": (list_offsets(-1), 8),
    "ListOffsets, earliest": (list_offsets(-2), 8),
    "ListOffsets, largest timestamp": (list_offsets(-3), 8),
    "ListOffsets, by time": (list_offsets(START_MS + 5), 8),
    "ListOffsets, behind the end": (list_offsets(START_MS + 1000), 8),
    "OffsetForLeaderEpoch": (OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic("old", EPOCHS)]), 3),
    "DeleteRecords": (DeleteRecordsRequest(topics=[DeleteRecordsTopic("old", STARTS)], timeout_ms=1000), 2),
    "DescribeProducers": (DescribeProducersRequest(topics=[ProducersTopic("old", [0, 1, 2])]), 0),
    "DescribeLogDirs": (DescribeLogDirsRequest(topics=None), 4),
    "Metadata": (MetadataRequest(topics=None), 12),
    "CreateTopics": (create("newer", 5), 7),
    "CreatePartitions": (CreatePartitionsRequest(topics=[CreatePartitionsTopic("new", 9)], timeout_ms=1000), 3),
    "DeleteTopics": (DeleteTopicsRequest(topics=[DeleteTopicState(name="old")]), 6),
    "OffsetCommit": (commit(), 8),
    "OffsetFetch": (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8),
    "InitProducerId": (InitProducerIdRequest(transactional_id=None), 4),
    "InitProducerId, transactional": (InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000), 4),
    "AlterPartitionReassignments": (AlterPartitionReassignmentsRequest(topics=[]), 0),
}


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_no_api_holds_the_loop_while_the_disk_works(name: str, broker: CoreBroker, disk: OneDisk) -> None:
    client = broker.connect()
    message, version = REQUESTS[name]
    # The first times a coordinator only says that it is loading.
    for _ in range(REPEATED):
        ask(broker, disk, client, message, version)
    unbound = set(disk.on_loop) - QUICK
    assert not unbound, "flushes, cold reads and new directories belong beside the loop"
    assert sum(disk.on_loop.values()) <= OF_THE_CACHE * PARTITIONS * REPEATED


def test_logs_that_no_request_needs_are_opened_without_holding_the_loop(broker: CoreBroker, disk: OneDisk) -> None:
    for _ in range(100):
        broker.advance(0.1)
        disk.drain()
    assert not broker.node.logs.unopened
    assert not set(disk.on_loop) - QUICK


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_no_api_holds_the_loop_while_logs_are_recovered_that_a_crash_left(
    name: str, crashed: CoreBroker, disk: OneDisk
) -> None:
    client = crashed.connect()
    message, version = REQUESTS[name]
    for _ in range(REPEATED):
        ask(crashed, disk, client, message, version)
    assert not set(disk.on_loop) - QUICK


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_who_waits_for_a_recovery_does_not_turn_until_the_disk_answers(
    name: str, crashed: CoreBroker, disk: OneDisk
) -> None:
    client = crashed.connect()
    message, version = REQUESTS[name]
    for _ in range(60):
        client.send(message, version)
        crashed.node.core.settle(crashed.instant)
        crashed.advance(0.01)
        # The newest first: the storage has several threads, and one may be slow.
        disk.answer_one(-1)
    opened(crashed, disk)


def opened(broker: CoreBroker, disk: OneDisk) -> CoreBroker:
    for _ in range(200):
        broker.advance(0.1)
        disk.drain()
    assert not broker.node.logs.unopened
    assert not broker.node.logs.unopened.failures
    return broker


def test_logs_that_a_crash_left_are_recovered_without_holding_the_loop(crashed: CoreBroker, disk: OneDisk) -> None:
    opened(crashed, disk)
    assert not set(disk.on_loop) - QUICK
    logs = crashed.node.logs.logs
    assert [logs["old", index].log_end_offset for index in range(PARTITIONS)] == [4, 4, 4]


def test_what_is_cut_of_a_damaged_log_is_brought_to_the_disk_beside_the_loop(disk: OneDisk) -> None:
    first = used(disk, {**SETTINGS, "log.flush.interval.messages": 1 << 60})
    first_segment = next(name for name in sorted(disk.filesystem._names) if "/old-1/" in name and name.endswith(".log"))
    inode = disk.filesystem._names[first_segment]
    assert inode is not None
    inode.data[-3:] = b"xyz"
    syncs = synced(disk)
    broker = opened(started_anew(first, disk), disk)
    assert not set(disk.on_loop) - QUICK
    assert broker.node.logs.logs["old", 1].log_end_offset == 1
    assert {first_segment, "/data/old-1"} <= set(syncs), "the cut, and the names of the segments behind it"


def synced(disk: OneDisk) -> list[str]:
    """The paths that are brought to the disk from now on."""
    found: list[str] = []
    note = disk.filesystem.fail
    assert note is not None

    def fail(operation: str, path: str) -> OSError | None:
        found.extend([path] * (operation == "sync"))
        return note(operation, path)

    disk.filesystem.fail = fail
    return found


def test_a_flush_that_fails_in_a_recovery_leaves_the_log_closed_until_the_disk_works(
    crashed: CoreBroker, disk: OneDisk
) -> None:
    note = disk.filesystem.fail
    broken = True

    def fail(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken") if broken and operation == "sync" and "/old-1" in path else None

    disk.filesystem.fail = fail
    for _ in range(20):
        crashed.advance(0.1)
        disk.drain()
    [name] = crashed.node.logs.unopened.failures
    assert name == ("old", 1)
    broken, disk.filesystem.fail = False, note
    assert opened(crashed, disk).node.logs.logs["old", 1].log_end_offset == 4


def test_a_topic_is_deleted_while_its_log_waits_for_the_disk(crashed: CoreBroker, disk: OneDisk) -> None:
    crashed.advance(0.1)
    while not crashed.node.logs.unopened.is_waiting(TopicPartition("old", 1)):
        disk.drain()
        crashed.advance(0.1)
    crashed.state.metadata.delete_topics(["old"])
    opened(crashed, disk)
    assert not [name for name in crashed.node.logs.logs if name.topic == "old"]


FLIGHTS = bytes(15) + b"\x01"


def member(disk: OneDisk, partitions: int) -> MemberBroker:
    """A member of a cluster, which leads the even partitions of a topic and follows the odd ones."""
    others = [*brokers(1, host="one"), *brokers(2, host="two"), *brokers(3, host="three")]
    replicas = [[3, 1] if index % 2 == 0 else [1, 3] for index in range(partitions)]
    return MemberBroker({}, *others, *topic("flights", FLIGHTS, *replicas), filesystem=disk.filesystem, storage=disk)


def work_off(found: MemberBroker, disk: OneDisk) -> None:
    for _ in range(20):
        found.advance(0)
        disk.drain()


@pytest.mark.parametrize("partitions", [2, 2 * AT_ONCE + 1])
def test_a_member_makes_the_logs_that_are_assigned_to_it_beside_the_loop(disk: OneDisk, partitions: int) -> None:
    found = member(disk, partitions)
    disk.on_loop.clear()
    assert not found.state.replica_manager.partitions(), "nothing is open before the disk has answered"
    work_off(found, disk)
    opened = {partition.index: partition for partition in found.state.replica_manager.partitions()}
    assert sorted(opened) == list(range(partitions))
    assert (opened[0].is_leader, opened[1].is_leader) == (True, False)
    assert not set(disk.on_loop) - QUICK


def test_a_role_is_tried_again_when_its_log_is_ready_and_not_with_that_of_every_other(
    disk: OneDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    apply_delta = ReplicaManager.apply_delta

    def counted(self: ReplicaManager, changed: Any, *others: Any) -> Any:
        tried.append(len(changed))
        return apply_delta(self, changed, *others)

    monkeypatch.setattr(ReplicaManager, "apply_delta", counted)
    partitions = 6 * AT_ONCE
    found = member(disk, partitions)
    work_off(found, disk)
    assert len(found.state.replica_manager.partitions()) == partitions
    assert sum(tried) <= 2 * partitions, "each once before its log is there, and once after"


def test_a_member_opens_the_logs_that_it_has_without_holding_the_loop(disk: OneDisk) -> None:
    first = member(disk, 4)
    work_off(first, disk)
    first.stop()
    disk.drain()
    disk.filesystem.crash()
    disk.filesystem.cold = set(disk.filesystem._names)
    found = member(disk, 4)
    disk.on_loop.clear()
    work_off(found, disk)
    assert len(found.state.replica_manager.partitions()) == 4
    assert not set(disk.on_loop) - QUICK


def test_a_log_that_cannot_be_made_is_told_and_made_when_the_disk_works_again(disk: OneDisk) -> None:
    def fail(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken") if operation == "mkdir" and "flights" in path else None

    disk.filesystem.fail = fail
    found = member(disk, 2)
    work_off(found, disk)
    assert found.member._publisher.failed.keys() == {("flights", 0), ("flights", 1)}
    assert {type(problem) for problem in found.member._publisher.failed.values()} == {errors.KafkaStorageError}
    disk.filesystem.fail = None
    found.advance(1)
    work_off(found, disk)
    assert len(found.state.replica_manager.partitions()) == 2


def test_a_coordinator_is_elected_while_the_disk_is_broken_under_another_partition(disk: OneDisk) -> None:
    def fail(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken") if operation == "mkdir" and "flights" in path else None

    disk.filesystem.fail = fail
    found = member(disk, 2)
    found.tell(*topic(TRANSACTION_STATE_TOPIC, bytes(15) + b"\x02", [3, 1]))
    work_off(found, disk)
    assert found.member._publisher.failed.keys() == {("flights", 0), ("flights", 1)}
    assert found.state.replica_manager.used_partition(TRANSACTION_STATE_TOPIC, 0) is not None
    assert found.state.transaction_coordinator._loader.epoch(0) == 0


def test_a_partition_may_be_deleted_while_its_files_are_made(disk: OneDisk) -> None:
    found = member(disk, 2)
    found.tell(RemoveTopicRecord(topic_id=FLIGHTS))
    work_off(found, disk)
    assert not found.state.replica_manager.partitions()
    assert not [name for name in disk.filesystem._names if "/flights" in name and "-delete" not in name]


def test_a_member_at_work_is_not_fenced_while_logs_of_another_topic_are_made(disk: OneDisk) -> None:
    found = member(disk, 2)
    work_off(found, disk)
    found.unfence()
    found.tell(*topic("more", bytes(15) + b"\x02", [3, 1]))
    assert len(found.state.replica_manager.partitions()) == 2
    found.advance(3)
    assert not found.asked("heartbeat").want_fence
    work_off(found, disk)
    assert len(found.state.replica_manager.partitions()) == 3
