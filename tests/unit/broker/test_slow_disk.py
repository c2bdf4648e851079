"""While the disk works on a flush or a commit, who asked for it waits, and nobody else; what is answered is durable."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas import errors
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.storage_threads import StorageThreads
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce
from tests.support.slow_storage import SlowStorage, finish, work_off
from tests.unit.broker.test_failing_disk import CHANGES


@pytest.fixture
def storage() -> SlowStorage:
    return SlowStorage()


@pytest.fixture
def broker(storage: SlowStorage) -> CoreBroker:
    broker = CoreBroker(storage=storage)
    client = broker.connect()
    client.send(create("safe", 2, flush_messages="1"), 7)
    client.send(create("fast"), 7)
    finish(broker, storage)
    for topic, index in (("safe", 0), ("safe", 1), ("fast", 0)):
        broker.state.replica_manager.partition(topic, index)
    return broker


def result(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


def values(client: CoreClient, topic: str) -> list[bytes]:
    found = client.request(fetch(topic), 12).responses[0].partitions[0]
    return [record.value for got in read_batches(found.records) for record in got]


class TestFlushes:
    def test_the_producer_waits_and_nobody_else(self, broker: CoreBroker, storage: SlowStorage) -> None:
        waiting, other = broker.connect(), broker.connect()
        assert waiting.request(produce("safe", batch(b"a")), 9) is None
        assert result(other.request(produce("fast", batch(b"b")), 9)).error_code == 0
        assert other.request(MetadataRequest(topics=None), 12) is not None
        finish(broker, storage)
        assert (result(waiting.responses[-1]).error_code, result(waiting.responses[-1]).base_offset) == (0, 0)

    def test_nobody_reads_what_is_not_on_the_disk(self, broker: CoreBroker, storage: SlowStorage) -> None:
        broker.connect().request(produce("safe", batch(b"a")), 9)
        reader = broker.connect()
        assert values(reader, "safe") == []
        assert reader.request(fetch("safe", max_wait_ms=10_000), 12) is None
        finish(broker, storage)
        assert len(reader.responses[-1].responses[0].partitions[0].records)

    def test_one_flush_serves_all_that_came_while_the_last_was_in_flight(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        clients = [broker.connect() for _ in range(10)]
        for number, client in enumerate(clients):
            assert client.request(produce("safe", batch(b"%d" % number)), 9) is None
        assert len(storage.in_flight) == 1
        finish(broker, storage, 1)
        assert [len(client.responses) for client in clients] == [1] + [0] * 9
        assert len(storage.in_flight) == 1
        finish(broker, storage, 1)
        assert [result(client.responses[-1]).base_offset for client in clients] == list(range(10))
        assert not storage.in_flight

    def test_the_next_request_of_a_connection_waits_for_its_turn(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        client = broker.connect()
        client.send(produce("safe", batch(b"a")), 9)
        client.send(MetadataRequest(topics=[]), 12)
        assert client.responses == []
        finish(broker, storage)
        assert len(client.responses) == 2

    def test_a_repeated_batch_waits_for_the_flush_of_the_first(self, broker: CoreBroker, storage: SlowStorage) -> None:
        first, again = broker.connect(), broker.connect()
        sent = produce("safe", batch(b"a", producer=(1, 0, 0)))
        assert first.request(sent, 9) is None
        assert again.request(sent, 9) is None
        finish(broker, storage)
        assert [result(client.responses[-1]).base_offset for client in (first, again)] == [0, 0]

    def test_a_flush_that_fails_is_told_to_all_that_waited_for_it(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        clients = [broker.connect() for _ in range(3)]
        for client in clients:
            client.request(produce("safe", batch(b"a")), 9)
        broker.filesystem.fail = lambda operation, path: OSError(errno.EIO, "broken") if operation == "sync" else None
        finish(broker, storage)
        assert [result(client.responses[-1]).error_code for client in clients] == [errors.KafkaStorageError.code] * 3
        assert "broken" in result(clients[0].responses[-1]).error_message

    def test_a_topic_may_be_deleted_meanwhile(self, broker: CoreBroker, storage: SlowStorage) -> None:
        client, other = broker.connect(), broker.connect()
        client.request(produce("safe", batch(b"a")), 9)
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="safe")]), 6)
        # The commit is done before the flush.
        storage.in_flight.rotate(1)
        finish(broker, storage)
        assert result(client.responses[-1]).error_code == errors.UnknownTopicOrPartitionError.code
        assert other.responses[-1].responses[0].error_code == 0

    def test_a_client_that_goes_meanwhile_harms_nobody(self, broker: CoreBroker, storage: SlowStorage) -> None:
        client, other = broker.connect(), broker.connect()
        client.request(produce("safe", batch(b"a")), 9)
        client.lose()
        other.request(produce("safe", batch(b"b")), 9)
        finish(broker, storage)
        assert result(other.responses[-1]).base_offset == 1

    def test_stopping_waits_for_the_disk(self, broker: CoreBroker, storage: SlowStorage) -> None:
        broker.connect().request(produce("safe", batch(b"a")), 9)
        broker.stop()
        again = CoreBroker(broker.settings, broker.filesystem_after_crash(), broker.store, seed=2)
        assert values(again.connect(), "safe") == [b"a"]


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["produce", "produce", "disk"]), max_size=40))
def test_a_loss_of_power_takes_nothing_that_was_acknowledged(seed: int, steps: list[str]) -> None:
    storage = SlowStorage()
    broker = CoreBroker(filesystem=MemoryFileSystem(Random(seed)), storage=storage)
    admin = broker.connect()
    admin.send(create("safe", flush_messages="1"), 7)
    finish(broker, storage)
    broker.state.replica_manager.partition("safe", 0)
    clients: list[CoreClient] = []
    for number, step in enumerate(steps):
        if step == "produce":
            clients.append(broker.connect())
            clients[-1].request(produce("safe", batch(b"%d" % number)), 9)
        else:
            finish(broker, storage, 1)
    acknowledged = [result(client.responses[-1]).base_offset for client in clients if client.responses]

    broker.node.metadata.close()
    broker.filesystem.power_loss()

    again = CoreBroker(broker.settings, broker.filesystem, broker.store, seed=2)
    assert len(values(again.connect(), "safe")) > max(acknowledged, default=-1)


@given(st.integers(0, 2**32))
def test_what_a_crash_left_unflushed_is_on_the_disk_before_its_repetition_is_acknowledged(seed: int) -> None:
    storage = SlowStorage()
    broker = CoreBroker(filesystem=MemoryFileSystem(Random(seed)), storage=storage)
    client = broker.connect()
    client.send(create("safe", flush_messages="1"), 7)
    finish(broker, storage)
    broker.state.replica_manager.partition("safe", 0)
    sent = produce("safe", batch(b"a", producer=(1, 0, 0)))
    assert client.request(sent, 9) is None, "its flush is in flight"

    again = broker.crashed()
    repeated = again.connect()
    assert result(repeated.request(sent, 9)).error_code == 0
    again.node.metadata.close()
    again.filesystem.power_loss()

    last = CoreBroker(again.settings, again.filesystem, again.store, seed=3)
    assert values(last.connect(), "safe") == [b"a"]


class TestColdReads:
    @pytest.fixture
    def behind(self, broker: CoreBroker) -> CoreClient:
        """A client of a broker whose topic `fast` has two megabytes that are not in the cache."""
        client = broker.connect()
        for number in range(20):
            client.request(produce("fast", batch(b"%d" % number + bytes(100_000))), 9)
        (path,) = [name for name in broker.filesystem._names if name.endswith("fast-0/00000000000000000000.log")]
        broker.filesystem.cold.add(path)
        return client

    def test_who_reads_what_is_not_cached_waits_and_nobody_else(
        self, broker: CoreBroker, storage: SlowStorage, behind: CoreClient
    ) -> None:
        assert behind.request(fetch("fast"), 12) is None
        other = broker.connect()
        assert result(other.request(produce("fast", batch(b"b")), 9)).error_code == 0
        assert other.request(MetadataRequest(topics=None), 12) is not None
        finish(broker, storage)
        found = behind.responses[-1].responses[0].partitions[0]
        assert next(iter(next(iter(read_batches(found.records))))).value[:1] == b"0"
        assert not broker.filesystem.cold
        # What is in the cache now is read at once.
        assert behind.request(fetch("fast", offset=1), 12) is not None

    def test_the_end_of_a_log_is_read_at_once(self, broker: CoreBroker, behind: CoreClient) -> None:
        assert behind.request(fetch("fast", offset=19), 12) is not None
        assert broker.filesystem.cold

    def test_indexes_are_read_beside_the_loop_and_then_the_records(
        self, broker: CoreBroker, storage: SlowStorage, behind: CoreClient
    ) -> None:
        disk, log = broker.filesystem, broker.state.replica_manager.partition("fast", 0).log
        log.roll()
        old = log.local_log.segments.first
        for _ in range(3):
            behind.request(produce("fast", batch(b"new")), 9)
        old.release()
        indexes = {name for name in disk._names if name.startswith(f"/data/fast-0/{0:020}") and "index" in name}
        disk.cold |= indexes
        reads: list[str] = []
        disk.fail = lambda operation, path: reads.append(path) if operation == "read" else None

        assert behind.request(fetch("fast", offset=15), 12) is None
        assert [path for path in reads if path in indexes] == []
        finish(broker, storage, 1)
        assert disk.cold & indexes == set()
        finish(broker, storage)

        found = behind.responses[-1].responses[0].partitions[0]
        assert next(iter(next(iter(read_batches(found.records))))).value[:2] == b"15"
        assert not disk.cold

    def test_an_empty_cache_after_the_read_lets_the_loop_wait_and_not_the_client_for_ever(
        self, broker: CoreBroker, storage: SlowStorage, behind: CoreClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(broker.filesystem, "bring_in", lambda path, size, position: None)
        assert behind.request(fetch("fast"), 12) is None
        finish(broker, storage)
        assert len(behind.responses[-1].responses[0].partitions[0].records)

    def test_a_topic_may_be_deleted_and_a_client_may_go_meanwhile(
        self, broker: CoreBroker, storage: SlowStorage, behind: CoreClient
    ) -> None:
        gone, other = broker.connect(), broker.connect()
        assert behind.request(fetch("fast"), 12) is None
        assert gone.request(fetch("fast"), 12) is None
        gone.lose()
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="fast")]), 6)
        storage.in_flight.rotate(1)
        finish(broker, storage)
        found = behind.responses[-1].responses[0].partitions[0]
        assert found.error_code == errors.UnknownTopicOrPartitionError.code
        assert gone.responses == []


def test_the_system_tells_what_of_a_file_is_cached(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    path = str(tmp_path / "f")
    (tmp_path / "f").write_bytes(bytes(1 << 20))
    file = filesystem.open(path)
    file.sync()
    assert file.is_cached(1 << 20, 0)
    os.posix_fadvise(file.descriptor(), 0, 0, os.POSIX_FADV_DONTNEED)
    if file.is_cached(1 << 20, 0):
        pytest.skip("this file system keeps its files in memory, or does not tell")
    filesystem.bring_in(path, 1 << 20, 0)
    assert file.is_cached(1 << 20, 0)
    filesystem.bring_in(str(tmp_path / "missing"), 1 << 20, 0)


def create_code(client: CoreClient) -> int:
    code: int = client.responses[-1].topics[0].error_code
    return code


class TestCommits:
    def test_who_creates_a_topic_waits_and_nobody_else(self, broker: CoreBroker, storage: SlowStorage) -> None:
        waiting, other = broker.connect(), broker.connect()
        assert waiting.request(create("new"), 7) is None
        assert result(other.request(produce("fast", batch(b"b")), 9)).error_code == 0
        named = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=False)
        unknown = errors.UnknownTopicOrPartitionError.code
        assert other.request(named, 12).topics[0].error_code == unknown
        finish(broker, storage)
        assert create_code(waiting) == 0
        assert other.request(named, 12).topics[0].error_code == 0

    def test_changes_are_made_one_after_the_other(self, broker: CoreBroker, storage: SlowStorage) -> None:
        first, second, third = broker.connect(), broker.connect(), broker.connect()
        first.send(create("new"), 7)
        second.send(create("new"), 7)
        third.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="new")]), 6)
        assert len(storage.in_flight) == 1
        finish(broker, storage)
        assert [create_code(first), create_code(second)] == [0, errors.TopicExistsError.code]
        assert third.responses[-1].responses[0].error_code == 0
        assert broker.state.metadata.topic("new") is None

    def test_a_commit_that_fails_is_told_and_changes_nothing(self, broker: CoreBroker, storage: SlowStorage) -> None:
        first, second = broker.connect(), broker.connect()
        first.send(create("new"), 7)
        second.send(create("newer"), 7)
        broker.store.fail = lambda _: errors.KafkaStorageError("the disk is full")
        finish(broker, storage, 1)
        assert (create_code(first), first.responses[-1].topics[0].error_message) == (56, "the disk is full")
        assert broker.state.metadata.topic("new") is None
        broker.store.fail = None
        finish(broker, storage)
        assert create_code(second) == 0

    @pytest.mark.parametrize("api", CHANGES)
    def test_whoever_changes_the_metadata_waits_and_nobody_else(
        self, api: str, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        request, version, codes = CHANGES[api]
        waiting, other = broker.connect(), broker.connect()
        waiting.send(create("there"), 7)
        finish(broker, storage)
        assert waiting.request(request, version) is None
        for _ in range(3):
            broker.advance(1)
            assert result(other.request(produce("fast", batch(b"b")), 9)).error_code == 0
        work_off(broker, storage)
        assert codes(waiting.responses[-1]) == [0]
        assert not storage.in_flight

    @pytest.mark.parametrize("api", CHANGES)
    def test_a_change_waits_for_the_one_before(self, api: str, broker: CoreBroker, storage: SlowStorage) -> None:
        request, version, codes = CHANGES[api]
        first, second = broker.connect(), broker.connect()
        first.send(create("there"), 7)
        second.send(request, version)
        assert len(storage.in_flight) == 1
        finish(broker, storage, 1)
        broker.advance(0)
        work_off(broker, storage)
        assert create_code(first) == 0
        assert codes(second.responses[-1]) == [0]

    def test_a_topic_that_was_made_meanwhile_is_not_made_again(self, broker: CoreBroker, storage: SlowStorage) -> None:
        first, other = broker.connect(), broker.connect()
        first.send(create("new"), 7)
        auto = MetadataRequest(topics=[MetadataRequestTopic(name="new")], allow_auto_topic_creation=True)
        assert other.request(auto, 12) is None
        finish(broker, storage)
        broker.advance(0)
        assert create_code(first) == 0
        (topic,) = other.responses[-1].topics
        assert (topic.error_code, topic.topic_id) == (0, broker.state.metadata.topic("new").id)

    def test_settings_of_many_resources_are_changed_in_few_commits(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        client = broker.connect()
        for number in range(120):
            client.send(create(f"t{number}"), 7)
        finish(broker, storage)
        config = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
        resources = [
            AlterConfigsResource(resource_type=2, resource_name=f"t{number}", configs=[config]) for number in range(121)
        ]
        client.send(IncrementalAlterConfigsRequest(resources=resources), 1)
        commits = 0
        while storage.in_flight:
            finish(broker, storage, 1)
            broker.advance(0)
            commits += 1
        assert commits == 3
        found = [response.error_code for response in client.responses[-1].responses]
        assert found == [0] * 120 + [errors.UnknownTopicOrPartitionError.code]

    def test_producer_ids_never_run_out_while_the_disk_keeps_up(self, broker: CoreBroker, storage: SlowStorage) -> None:
        client = broker.connect()
        ids = []
        for _ in range(2500):
            response = client.request(InitProducerIdRequest(transactional_id=None), 4)
            if response is None:
                assert not ids, "only the first waits"
                finish(broker, storage)
                broker.advance(0)
                response = client.responses[-1]
            elif len(ids) % 1000 == 950:
                finish(broker, storage)
            assert response.error_code == 0
            ids.append(response.producer_id)
        assert ids == list(range(2500))

    def test_while_no_block_can_be_reserved_ids_are_refused_and_come_back(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        manager = broker.state.producer_id_manager
        with pytest.raises(errors.CoordinatorLoadInProgressError):
            manager.next()
        broker.store.fail = lambda _: errors.KafkaStorageError("the disk is full")
        finish(broker, storage)
        first, second = broker.connect(), broker.connect()
        first.send(InitProducerIdRequest(transactional_id=None), 4)
        second.send(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 4)
        finish(broker, storage)
        broker.advance(0)
        assert [client.responses[-1].error_code for client in (first, second)] == [errors.KafkaStorageError.code] * 2
        broker.store.fail = None
        assert first.request(InitProducerIdRequest(transactional_id=None), 4) is None
        finish(broker, storage)
        broker.advance(0)
        assert first.responses[-1].error_code == 0

    def test_a_client_that_goes_meanwhile_harms_nobody(self, broker: CoreBroker, storage: SlowStorage) -> None:
        first, gone, last = broker.connect(), broker.connect(), broker.connect()
        first.send(create("first"), 7)
        gone.send(create("gone"), 7)
        gone.lose()
        last.send(create("last"), 7)
        finish(broker, storage)
        assert [create_code(first), create_code(last)] == [0, 0]
        assert broker.state.metadata.topic("gone") is None


def test_threads_deliver_what_is_done_on_the_loop() -> None:
    storage = StorageThreads()
    told = threading.Event()
    storage.on_done = told.set
    order: list[str] = []
    release = threading.Event()
    storage.submit(release.wait, lambda: order.append("slow"))  # type: ignore[arg-type]  # its value is not used
    storage.submit(lambda: None, lambda: order.append("quick"))
    assert told.wait(10)
    storage.deliver()
    assert order == ["quick"]
    release.set()
    storage.drain()
    assert order == ["quick", "slow"]

    before = [thread for thread in threading.enumerate() if thread.name.startswith("storage-")]
    storage.close()
    for thread in before:
        thread.join(10)
    assert before
    assert not any(thread.is_alive() for thread in before)


def test_groups_are_loaded_from_a_cold_log_while_others_are_served(storage: SlowStorage) -> None:
    settings = {"offsets.topic.num.partitions": 1, "log.roll.ms": 1000, "log.cleaner.enable": False}
    before = CoreBroker(settings)
    client = before.connect()
    client.request(create("t"), 7)
    client.request(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
    for offset in range(3):
        assert commit(client, offset) == 0
        before.advance(2)
    before.stop()
    disk = before.filesystem
    disk.cold |= {path for path in disk._names if "__consumer_offsets" in path and path.endswith(".log")}
    disk.crash()
    broker = CoreBroker(settings, disk, before.store, storage=storage)
    broker.advance(2)
    client, other = broker.connect(), broker.connect()

    assert commit(client, 9) == errors.CoordinatorLoadInProgressError.code
    assert storage.in_flight
    assert other.request(MetadataRequest(topics=None), 12) is not None
    while storage.in_flight:
        storage.step()
        broker.advance(0)

    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    [topic] = client.request(asked, 8).groups[0].topics
    assert topic.partitions[0].committed_offset == 2


def commit(client: CoreClient, offset: int) -> int:
    code: int = client.request(commit_request(offset), 8).topics[0].partitions[0].error_code
    return code


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    return OffsetCommitRequest(group_id="g", topics=topics)


class TestCoordinators:
    @pytest.fixture
    def broker(self, storage: SlowStorage) -> CoreBroker:
        settings = {"offsets.topic.num.partitions": 1, "log.flush.interval.messages": 1}
        broker = CoreBroker(settings, storage=storage)
        client = broker.connect()
        client.send(create("t"), 7)
        finish(broker, storage)
        client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        work_off(broker, storage)
        return broker

    def test_who_commits_offsets_waits_for_the_flush_and_nobody_else(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        waiting, other = broker.connect(), broker.connect()
        waiting.send(commit_request(3), 8)
        broker.node.core.settle(broker.instant)
        assert (waiting.responses, len(storage.in_flight)) == ([], 1)
        assert other.request(MetadataRequest(topics=None), 12) is not None
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        assert other.request(asked, 8) is None, "what is read rests on the commit"
        finish(broker, storage)
        assert waiting.responses[-1].topics[0].partitions[0].error_code == 0
        [topic] = other.responses[-1].groups[0].topics
        assert topic.partitions[0].committed_offset == 3

    def test_a_flush_that_fails_is_told(self, broker: CoreBroker, storage: SlowStorage) -> None:
        client = broker.connect()
        client.send(commit_request(3), 8)
        broker.filesystem.fail = lambda operation, path: OSError(errno.EIO, "broken") if operation == "sync" else None
        finish(broker, storage)
        code = client.responses[-1].topics[0].partitions[0].error_code
        assert code == errors.CoordinatorNotAvailableError.code


class TestNewLogs:
    def test_a_topic_may_be_deleted_and_made_again_while_its_files_are_made(
        self, broker: CoreBroker, storage: SlowStorage
    ) -> None:
        client, other = broker.connect(), broker.connect()
        client.send(create("new"), 7)
        finish(broker, storage)
        assert client.request(produce("new", batch(b"a")), 9) is None
        other.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="new")]), 6)
        storage.in_flight.rotate(1)
        finish(broker, storage, 1)
        other.send(create("new"), 7)
        finish(broker, storage)
        broker.advance(0)
        finish(broker, storage)

        assert values(other, "new") in ([], [b"a"])
        log = broker.state.replica_manager.partition("new", 0).log
        assert log.topic_id == broker.state.metadata.topic("new").id

    def test_a_disk_that_cannot_make_them_is_told(self, broker: CoreBroker, storage: SlowStorage) -> None:
        client = broker.connect()
        client.send(create("new"), 7)
        finish(broker, storage)
        broker.filesystem.fail = lambda operation, path: OSError(errno.ENOSPC, "full") if "new" in path else None
        client.send(produce("new", batch(b"a")), 9)
        finish(broker, storage)
        broker.advance(0)
        assert result(client.responses[-1]).error_code == errors.KafkaStorageError.code
        broker.filesystem.fail = None
        client.send(produce("new", batch(b"a")), 9)
        finish(broker, storage)
        broker.advance(0)
        assert result(client.responses[-1]).base_offset == 0
