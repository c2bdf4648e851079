"""Logs that are brought to another data directory while they are used (AlterReplicaLogDirs, KIP-113)."""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import errors
from barnabas.broker.log.future_log import FutureLog
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce
from tests.support.slow_storage import SlowStorage
from tests.unit.broker.log.test_log_directories import DIRECTORIES, start

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog

FIRST, SECOND = DIRECTORIES
NAME = TopicPartition("t", 0)


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem(random.Random(1))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def broker(filesystem: MemoryFileSystem, store: MemoryStore) -> CoreBroker:
    """A broker whose topic t has one partition with five records, in the first directory."""
    broker = start(filesystem, store)
    broker.connect().request(create("t"), 7)
    write(broker, *range(5))
    return broker


def write(broker: CoreBroker, *numbers: int, **kind: Any) -> None:
    for number in numbers:
        answer = broker.connect().request(produce("t", batch(b"%d" % number, **kind)), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def read(broker: CoreBroker, offset: int = 0) -> list[int]:
    found = broker.connect().request(fetch("t", offset), 12).responses[0].partitions[0]
    assert found.error_code == 0
    return [int(record.value) for one in read_batches(found.records) for record in one]


def move(broker: CoreBroker, path: str, topic: str = "t", index: int = 0) -> int:
    dirs = [AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[index])])]
    answer = broker.connect().request(AlterReplicaLogDirsRequest(dirs=dirs), 2)
    code: int = answer.results[0].partitions[0].error_code
    return code


def places(broker: CoreBroker) -> dict[str, list[tuple[bool, int]]]:
    """Directory → (is a future log, offset lag) of each log of t that lies there."""
    answer = broker.connect().request(DescribeLogDirsRequest(topics=None), 4)
    return {
        found.log_dir: [(p.is_future_key, p.offset_lag) for t in found.topics for p in t.partitions]
        for found in answer.results
    }


def test_a_log_is_copied_and_swapped(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    assert places(broker) == {FIRST: [(False, 0)], SECOND: []}
    assert move(broker, SECOND) == 0
    assert places(broker) == {FIRST: [(False, 0)], SECOND: [(True, 5)]}
    broker.advance(5)
    assert places(broker) == {FIRST: [], SECOND: [(False, 0)]}
    assert read(broker) == [0, 1, 2, 3, 4]
    write(broker, 5)
    assert read(broker) == [0, 1, 2, 3, 4, 5]
    broker.advance(120)
    assert [name for name in filesystem._names if name.startswith(f"{FIRST}/t-0")] == []


def test_it_is_there_after_a_restart(broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore) -> None:
    move(broker, SECOND)
    broker.advance(5)
    write(broker, 5)
    broker.stop()
    filesystem.crash()
    again = start(filesystem, store)
    assert read(again) == [0, 1, 2, 3, 4, 5]
    assert places(again) == {FIRST: [], SECOND: [(False, 0)]}


def test_what_is_written_and_deleted_meanwhile_is_followed(broker: CoreBroker) -> None:
    move(broker, SECOND)
    write(broker, 5)
    partition = DeleteRecordsPartition(partition_index=0, offset=3)
    topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
    broker.connect().request(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    broker.advance(5)
    assert places(broker) == {FIRST: [], SECOND: [(False, 0)]}
    log = broker.state.replica_manager.partition("t", 0).log
    assert (log.log_start_offset, log.log_end_offset, read(broker, 3)) == (3, 6, [3, 4, 5])


def test_producers_and_leader_epochs_come_along(broker: CoreBroker) -> None:
    write(broker, 5, producer=(7, 0, 0))
    move(broker, SECOND)
    broker.advance(5)
    write(broker, 5, producer=(7, 0, 0))
    assert read(broker) == [0, 1, 2, 3, 4, 5], "the repetition was known"
    log = broker.state.replica_manager.partition("t", 0).log
    assert log.leader_epochs.entries == ((0, 0),)


def test_a_consumer_that_waits_goes_on_waiting(broker: CoreBroker) -> None:
    move(broker, SECOND)
    client = broker.connect()
    assert client.request(fetch("t", 5, max_wait_ms=60_000), 12) is None
    broker.advance(5)
    write(broker, 5)
    assert len(client.responses[-1].responses[0].partitions[0].records)


def test_moving_it_back_ends_the_move(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    move(broker, SECOND)
    assert move(broker, FIRST) == 0
    broker.advance(120)
    assert places(broker) == {FIRST: [(False, 0)], SECOND: []}
    assert [name for name in filesystem._names if "-future" in name or "-delete" in name] == []


def test_a_log_that_is_not_made_yet_is_made_there(broker: CoreBroker) -> None:
    broker.connect().request(create("new"), 7)
    assert move(broker, FIRST, "new") == errors.ReplicaNotAvailableError.code
    broker.connect().request(produce("new", batch(b"a")), 9)
    assert broker.state.replica_manager.partition("new", 0).log.directory == f"{FIRST}/new-0"


@pytest.mark.parametrize(
    ("path", "topic", "code"),
    [
        ("/elsewhere", "t", errors.LogDirNotFoundError.code),
        (SECOND, "unknown", errors.UnknownTopicOrPartitionError.code),
    ],
)
def test_it_is_refused(broker: CoreBroker, path: str, topic: str, code: int) -> None:
    assert move(broker, path, topic) == code


def test_a_broker_with_one_directory_knows_only_that() -> None:
    broker = CoreBroker()
    broker.connect().request(create("t"), 7)
    write(broker, 1)
    assert [move(broker, path) for path in ("/data", SECOND)] == [0, errors.LogDirNotFoundError.code]


def test_a_target_whose_disk_fails_ends_the_move_and_nothing_else(
    broker: CoreBroker, filesystem: MemoryFileSystem
) -> None:
    move(broker, SECOND)
    filesystem.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith("/disk-2") else None
    broker.advance(5)
    filesystem.fail = None
    broker.advance(20)
    assert places(broker) == {FIRST: [(False, 0)], SECOND: []}
    assert read(broker) == [0, 1, 2, 3, 4]


def test_a_deleted_topic_takes_its_copy_along(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    move(broker, SECOND)
    broker.connect().request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    broker.advance(120)
    assert [name for name in filesystem._names if "/t-" in name] == []


def test_a_crash_leaves_the_log_where_it_was(
    broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore
) -> None:
    move(broker, SECOND)
    broker.node.metadata.close()
    filesystem.crash()
    again = start(filesystem, store)
    assert (read(again), places(again)) == ([0, 1, 2, 3, 4], {FIRST: [(False, 0)], SECOND: []})
    again.advance(120)
    assert [name for name in filesystem._names if "-future" in name or "-delete" in name] == []


@pytest.mark.parametrize("die_after", range(24))
def test_a_crash_anywhere_in_the_swap_loses_nothing(
    broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore, die_after: int
) -> None:
    from barnabas.broker.log.memory_filesystem import ProcessDiedError

    move(broker, SECOND)
    filesystem.die_after = die_after
    try:
        broker.advance(5)
    except ProcessDiedError:
        pass
    broker.node.metadata.close()
    filesystem.crash()
    again = start(filesystem, store)
    assert read(again) == [0, 1, 2, 3, 4]
    again.advance(60)
    write(again, 5)
    assert read(again) == [0, 1, 2, 3, 4, 5]


def test_a_log_that_is_flushed_is_swapped_when_the_copy_is_as_durable(
    filesystem: MemoryFileSystem, store: MemoryStore
) -> None:
    storage = SlowStorage()
    broker = CoreBroker(None, filesystem, store, storage=storage, directories=DIRECTORIES)
    client = broker.connect()
    client.send(create("t", flush_messages="1"), 7)
    storage.drain()
    broker.advance(0)
    broker.state.replica_manager.partition("t", 0)
    client.send(produce("t", batch(b"0")), 9)
    broker.node.core.settle(broker.instant)
    move(broker, SECOND)
    for _ in range(3):
        broker.advance(1)
    moving = broker.state.replica_manager.future_log(broker.state.replica_manager.partition("t", 0).log.topic_partition)
    assert isinstance(moving, FutureLog), "the log's own flush is in flight"
    for _ in range(4):
        storage.drain()
        broker.advance(1)
    log = broker.state.replica_manager.partition("t", 0).log
    assert (log.directory, log.recovery_point, log.high_watermark) == (f"{SECOND}/t-0", 1, 1)
    broker.node.core.settle(broker.instant)
    assert client.responses[-1].responses[0].partition_responses[0].error_code == 0


# -- the rate ----------------------------------------------------------------------------------------------------------

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def throttled(broker: CoreBroker, rate: int) -> None:
    configs = [AlterableConfig(name=RATE, config_operation=0, value=str(rate))]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=configs)
    answer = broker.connect().request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0


def test_logs_are_copied_at_the_rate_that_is_set(broker: CoreBroker) -> None:
    throttled(broker, 100)
    for number in range(30):
        write(broker, number)
    size = broker.state.replica_manager.partition("t", 0).log.size
    move(broker, SECOND)
    broker.advance(1)
    copied = broker.node.logs.future(NAME).copied
    assert copied < 1200, "ten seconds' worth, and a batch more"
    broker.advance(10)
    assert copied < broker.node.logs.future(NAME).copied <= copied + 1200
    throttled(broker, 1 << 30)
    broker.advance(5)
    assert (places(broker), size > 2000) == ({FIRST: [], SECOND: [(False, 0)]}, True)


def test_over_what_the_rate_is_measured_is_a_setting(filesystem: MemoryFileSystem, store: MemoryStore) -> None:
    windows = "alter.log.dirs.replication.quota.window."
    broker = start(filesystem, store, {f"{windows}num": 3, f"{windows}size.seconds": 4})
    throttled(broker, 100)
    assert broker.node.logs.moves.rate.left(50.0) == 100 * 2 * 4


@pytest.mark.parametrize("has_begun", [False, True], ids=["all epochs have records", "one has begun"])
def test_a_moved_log_knows_all_that_the_log_has_known(broker: CoreBroker, has_begun: bool) -> None:
    """Of an epoch in which nothing is written yet no batch tells: followers that ask for it must hear where it begins.

    Found by `./run sim --cluster quorum --seed 8 --faults "kill broker,lost disk,lost directory,isolate,cut nodes"`: a
    follower with an earlier epoch and no records of it was told nothing by its leader, and stood still.
    """
    write(broker, 5, producer=(7, 0, 0))
    log = broker.node.logs.get_log(NAME)
    assert log is not None
    log.leader_epochs.assign(3, log.log_end_offset)
    if not has_begun:
        log.append(bytearray(batch(b"6", producer=(7, 0, 1))), now_ms=broker.instant.now_ms, leader_epoch=3)
    expected = known(log)
    assert move(broker, SECOND) == 0
    broker.advance(5)
    moved = broker.node.logs.get_log(NAME)
    assert moved is not None
    assert moved is not log
    assert known(moved) == expected


def known(log: UnifiedLog) -> dict[str, object]:
    """What is told of a log by other than its records."""
    return {
        "epochs": log.leader_epochs.entries,
        "offsets": (log.log_start_offset, log.high_watermark, log.last_stable_offset, log.log_end_offset),
        "producers": {number: entry.last_sequence for number, entry in log.producer_state.producers.items()},
    }
