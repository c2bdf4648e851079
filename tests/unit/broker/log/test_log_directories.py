"""Several data directories: which gets a log, what is told of them, and one that fails goes out of service alone."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.node import BrokerNode, Disk
from barnabas.errors import KafkaStorageError
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.core_broker import CoreBroker, batch, create, fetch, produce

DIRECTORIES = ["/disk-1/data", "/disk-2/data"]
PARTITIONS = 6


def start(filesystem: MemoryFileSystem, store: MemoryStore, settings: dict[str, Any] | None = None) -> CoreBroker:
    return CoreBroker(settings, filesystem, store, directories=DIRECTORIES)


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem(random.Random(1))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def broker(filesystem: MemoryFileSystem, store: MemoryStore) -> CoreBroker:
    """A broker with a topic of six partitions, one record each."""
    broker = start(filesystem, store)
    client = broker.connect()
    client.request(create("t", PARTITIONS, flush_messages="1"), 7)
    for index in range(PARTITIONS):
        assert code_of(broker, index) == 0
    return broker


def code_of(broker: CoreBroker, index: int, topic: str = "t") -> int:
    """The error code with which a record is answered."""
    answer = broker.connect().request(produce(topic, batch(b"%d" % index), index), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def described(broker: CoreBroker) -> dict[str, tuple[int, list[int]]]:
    """Directory → error code, partitions of t."""
    answer = broker.connect().request(DescribeLogDirsRequest(topics=None), 4)
    return {
        found.log_dir: (found.error_code, sorted(p.partition_index for t in found.topics for p in t.partitions))
        for found in answer.results
    }


def break_disk(filesystem: MemoryFileSystem, directory: str) -> None:
    filesystem.fail = lambda _, path: OSError(errno.EIO, "broken") if path.startswith(directory) else None


def test_each_log_is_made_where_the_fewest_are(broker: CoreBroker) -> None:
    assert described(broker) == {"/disk-1/data": (0, [0, 2, 4]), "/disk-2/data": (0, [1, 3, 5])}


def test_logs_are_found_again_where_they_are(
    broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore
) -> None:
    before = described(broker)
    broker.stop()
    filesystem.crash()
    again = start(filesystem, store)
    assert described(again) == before
    records = again.connect().request(fetch("t", 0, 5), 12).responses[0].partitions[0].records
    assert len(records)


def test_a_directory_whose_disk_fails_goes_out_of_service_alone(
    broker: CoreBroker, filesystem: MemoryFileSystem
) -> None:
    break_disk(filesystem, "/disk-2")
    assert code_of(broker, 1) == errors.KafkaStorageError.code
    broker.advance(12)
    filesystem.fail = None
    # Of the whole directory, until a restart: a controller that was told has other leaders by then.
    assert [code_of(broker, index) for index in range(PARTITIONS)] == [0, errors.KafkaStorageError.code] * 3
    assert described(broker) == {"/disk-1/data": (0, [0, 2, 4]), "/disk-2/data": (errors.KafkaStorageError.code, [])}
    [topic] = broker.connect().request(MetadataRequest(topics=None), 12).topics
    leaderless = sorted(found.partition_index for found in topic.partitions if found.leader_id < 0)
    assert leaderless == [1, 3, 5]


def test_a_failure_that_passes_costs_no_directory(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    break_disk(filesystem, "/disk-2")
    assert code_of(broker, 1) == errors.KafkaStorageError.code
    filesystem.fail = None
    broker.advance(12)
    assert [code_of(broker, index) for index in range(PARTITIONS)] == [0] * PARTITIONS


def test_new_logs_are_made_in_what_is_left(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    break_disk(filesystem, "/disk-2")
    code_of(broker, 1)
    broker.advance(12)
    broker.connect().request(create("new", 2), 7)
    assert [code_of(broker, index, "new") for index in range(2)] == [0, 0]


def test_a_directory_that_cannot_be_read_at_the_start_keeps_its_topics_from_being_made_anew(
    broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore
) -> None:
    broker.stop()
    filesystem.crash()
    break_disk(filesystem, "/disk-2")
    again = start(filesystem, store)
    assert [code_of(again, index) for index in range(PARTITIONS)] == [0, errors.KafkaStorageError.code] * 3
    again.connect().request(create("new"), 7)
    assert code_of(again, 0, "new") == 0
    again.stop()
    filesystem.crash()
    filesystem.fail = None
    healed = start(filesystem, store)
    assert [code_of(healed, index) for index in range(PARTITIONS)] == [0] * PARTITIONS


def test_a_broker_does_not_start_when_all_directories_fail(filesystem: MemoryFileSystem, store: MemoryStore) -> None:
    break_disk(filesystem, "/")
    with pytest.raises(KafkaStorageError, match=r"disk-1.*disk-2"):
        start(filesystem, store)


def test_a_directory_of_another_broker_is_no_failure_of_a_disk(
    broker: CoreBroker, filesystem: MemoryFileSystem
) -> None:
    node = BrokerNode(
        BrokerConfig({}), Disk(["/disk-3/data", *DIRECTORIES], filesystem), MemoryStore(), random.Random(1), print
    )
    with pytest.raises(KafkaStorageError, match="in use"):
        node.start(Instant(0.0, 0))
    assert "/disk-3/data/.lock" not in filesystem.locks


def test_a_deleted_topic_goes_from_all_directories(broker: CoreBroker, filesystem: MemoryFileSystem) -> None:
    broker.connect().request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6)
    broker.advance(120)
    assert [name for name in filesystem._names if "/t-" in name] == []


def test_a_log_that_lies_in_two_directories_is_served_from_one(
    broker: CoreBroker, filesystem: MemoryFileSystem, store: MemoryStore
) -> None:
    broker.stop()
    for name, inode in list(filesystem._names.items()):
        if name.startswith("/disk-1/data/t-0"):
            filesystem._names[name.replace("disk-1", "disk-2")] = inode
    filesystem.crash()
    again = start(filesystem, store)
    assert code_of(again, 0) == 0
    name = TopicPartition("t", 0)
    assert [state.manager.holds(name) for state in again.node.logs.directories] == [True, False]
    assert any("-stray" in path for path in filesystem._names)


def test_logs_that_are_made_together_are_spread(filesystem: MemoryFileSystem, store: MemoryStore) -> None:
    broker = start(filesystem, store)
    logs, names = broker.node.logs, [(TopicPartition("t", index), bytes(16)) for index in range(PARTITIONS)]
    logs.prepare(names, lambda: None)
    made = [sorted(name for name in filesystem._names if name.startswith(f"{path}/t-")) for path in DIRECTORIES]
    assert [sum(name.endswith(".metadata") for name in found) for found in made] == [PARTITIONS // 2, PARTITIONS // 2]
