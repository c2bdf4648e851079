"""A disk that fails at any operation of any kind, once or until it is mended: nothing acknowledged is lost, every
request is answered, the log has one line for each partition and state, and all comes back when the disk does."""

from __future__ import annotations

import errno
import logging
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas import errors
from barnabas.broker import handlers
from barnabas.broker.log.log_manager import MEND_INTERVAL_MS
from barnabas.broker.log.log_reopening import LONGEST_WAIT_MS
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.metrics.broker_metrics import BrokerMetrics
from barnabas.errors import KafkaStorageError
from barnabas.protocol.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from barnabas.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from barnabas.protocol.messages.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
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
from barnabas.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

SETTINGS = {
    "log.retention.check.interval.ms": 10_000,
    "log.flush.offset.checkpoint.interval.ms": 5_000,
    "log.cleaner.backoff.ms": 2_000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "delete.topic.enable": True,
}
KINDS = ("write", "sync", "read", "create", "rename", "remove", "open", "list", "truncate", "mkdir")
STORAGE = errors.KafkaStorageError.code
DELETED_UP_TO = 1
#: So many places of each kind are tried in the ordinary run, spread over the workload; all of them in the slow one.
PLACES = 6
#: Seconds after which a log that has failed for long is tried again, at the latest.
UNTIL_TRIED = (LONGEST_WAIT_MS + MEND_INTERVAL_MS) / 1000


class Faults:
    """Lets the n-th operation of a kind fail, or all from there on until `mended`."""

    def __init__(self, kind: str, at: int, *, lasting: bool, code: int = errno.EIO) -> None:
        self.kind, self.at, self.lasting, self.code = kind, at, lasting, code
        self.counts: Counter[str] = Counter()
        self.mended = False

    def __call__(self, operation: str, path: str) -> OSError | None:
        at = self.counts[operation]
        self.counts[operation] += 1
        if self.mended or operation != self.kind or not (at >= self.at if self.lasting else at == self.at):
            return None
        return OSError(self.code, errno.errorcode[self.code], path)


class Workload:
    """Requests of all kinds that use the disk; `acknowledged` is what has to be there afterwards."""

    def __init__(self, broker: CoreBroker) -> None:
        self.broker = broker
        self.client: CoreClient = broker.connect()
        self.acknowledged: dict[tuple[str, int], bytes] = {}
        self.start = 0

    def ask(self, message: Any, version: int) -> Any:
        response = self.client.request(message, version)
        if response is None:
            self.broker.advance(1)
            response = self.client.responses[-1]
        assert not self.client.closed, "a request was not answered"
        return response

    def send(self, topic: str, value: bytes, key_producer: tuple[int, int, int] | None = None) -> None:
        result = self.ask(produce(topic, batch(value, producer=key_producer)), 9).responses[0].partition_responses[0]
        if result.error_code == 0:
            self.acknowledged[topic, result.base_offset] = value

    def run(self) -> None:
        self.ask(create("t", segment_bytes=str(1 << 20), flush_messages="3"), 7)
        self.ask(create("c", cleanup_policy="compact", segment_bytes=str(1 << 20), min_cleanable_dirty_ratio="0.01"), 7)
        self.ask(create("gone"), 7)
        for number in range(4):
            self.send("t", b"%d" % number + bytes(400_000))
            self.send("c", b"c%d" % number + bytes(600_000))
            self.send("gone", b"g")
        producer = self.ask(InitProducerIdRequest(transactional_id=None), 4)
        for number in range(3):
            self.send("t", b"idempotent %d" % number, (max(producer.producer_id, 0), 0, number))
        self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        self.commit_offset()
        self.broker.advance(8)
        self.ask(fetch("t"), 11)
        self.delete_records(DELETED_UP_TO)
        self.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="c", count=2, assignments=None)]), 3)
        self.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")]), 6)
        self.broker.advance(90)
        self.send("t", b"last")

    def commit_offset(self) -> None:
        topic = OffsetCommitRequestTopic(
            name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )
        self.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 8)

    def delete_records(self, offset: int) -> None:
        partition = DeleteRecordsPartition(partition_index=0, offset=offset)
        topics = [DeleteRecordsTopic(name="t", partitions=[partition])]
        result = self.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2).topics[0].partitions[0]
        if result.error_code == 0:
            self.start = offset


def found(broker: CoreBroker, topic: str) -> dict[tuple[str, int], bytes]:
    """All records of partition 0 of a topic, as a consumer gets them."""
    client = broker.connect()
    records: dict[tuple[str, int], bytes] = {}
    offset = 0
    while True:
        got = client.request(fetch(topic, offset), 11).responses[0].partitions[0]
        if got.error_code == errors.OffsetOutOfRangeError.code and offset < DELETED_UP_TO:
            offset = DELETED_UP_TO
            continue
        assert got.error_code in (0, errors.UnknownTopicOrPartitionError.code), (topic, offset, got.error_code)
        if not got.records:
            return records
        for record in (record for found in read_batches(got.records) for record in found):
            records[topic, record.offset] = record.value
            offset = record.offset + 1


def check(broker: CoreBroker, work: Workload) -> None:
    there = found(broker, "t")
    if broker.state.metadata.topic("c") is not None:
        there |= found(broker, "c")
    for (topic, offset), value in work.acknowledged.items():
        # Compaction keeps the last record of each key, which all share.
        if (topic == "t" and offset >= work.start) or (topic == "c" and (topic, offset) in there):
            assert there.get((topic, offset)) == value, f"{topic} lacks offset {offset}"


def lines(caplog: pytest.LogCaptureFixture, broker: CoreBroker) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] + broker.warnings


def operations() -> Counter[str]:
    """How many operations of each kind the unharmed workload has."""
    counting = Faults("none", 0, lasting=False)
    broker = CoreBroker(SETTINGS)
    broker.filesystem.fail = counting
    Workload(broker).run()
    broker.stop()
    return counting.counts


def survive(kind: str, at: int, caplog: pytest.LogCaptureFixture, *, lasting: bool, code: int) -> None:
    caplog.clear()
    broker = CoreBroker(SETTINGS)
    faults = broker.filesystem.fail = Faults(kind, at, lasting=lasting, code=code)
    work = Workload(broker)

    work.run()

    said = Counter(lines(caplog, broker))
    assert not [line for line in said if "please report this" in line]
    repeated = {line: times for line, times in said.items() if times > 3}
    assert not repeated, f"the log is flooded: {repeated}"
    faults.mended = True
    broker.advance(UNTIL_TRIED)
    if any(log.is_offline for log in broker.node.logs):
        # A flush has failed: only a restart may trust the files again.
        broker = broker.crashed()
        broker.advance(15)
        work.broker = broker
    check(broker, work)
    metadata = broker.connect().request(MetadataRequest(topics=None), 12)
    assert not [p for topic in metadata.topics for p in topic.partitions if p.error_code]
    broker.stop()
    again = CoreBroker(SETTINGS, broker.filesystem, broker.store, seed=3)
    check(again, work)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until mended"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_operation_may_fail(kind: str, lasting: bool, caplog: pytest.LogCaptureFixture) -> None:
    times = operations()[kind]
    for at in range(0, times, max(1, times // PLACES)):
        survive(kind, at, caplog, lasting=lasting, code=errno.ENOSPC if at % 2 else errno.EIO)


@pytest.mark.slow
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "until mended"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_single_operation_may_fail(kind: str, lasting: bool, caplog: pytest.LogCaptureFixture) -> None:
    for at in range(operations()[kind]):
        for code in (errno.ENOSPC, errno.EIO):
            survive(kind, at, caplog, lasting=lasting, code=code)


class TestWhatIsOffline:
    """A partition whose log is offline is seen as such, and comes back without a restart."""

    @pytest.fixture
    def broken(self) -> CoreBroker:
        broker = CoreBroker(SETTINGS)
        client = broker.connect()
        client.request(create("t", 2), 7)
        for partition in (0, 1):
            client.request(produce("t", batch(b"before"), partition), 9)
        disk = broker.filesystem

        def fail(operation: str, path: str) -> OSError | None:
            if "/t-0" not in path or operation not in ("write", "truncate", "list"):
                return None
            if operation == "write":
                # In part; and it cannot be taken back, so only recovery can tell what is there.
                disk.inode(path).data.extend(b"part of a batch")
            return OSError(errno.ENOSPC, "no space left", path)

        disk.fail = fail
        assert self.send(broker) == STORAGE
        return broker

    def test_it_comes_back_although_the_clock_was_set_back(self, broken: CoreBroker) -> None:
        broken.advance(30)
        broken.filesystem.fail = None
        logs, now_ms = broken.node.logs, broken.now_ms - 3_600_000
        for _ in range(20):
            logs.step(64, now_ms)
            now_ms += 1000
        assert self.send(broken) == 0

    @staticmethod
    def send(broker: CoreBroker, partition: int = 0) -> int:
        result = broker.connect().request(produce("t", batch(b"more"), partition), 9)
        code: int = result.responses[0].partition_responses[0].error_code
        return code

    def test_in_metadata_it_has_no_leader(self, broken: CoreBroker) -> None:
        client = broken.connect()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        offline, online = client.request(request, 12).topics[0].partitions
        assert (offline.error_code, offline.leader_id) == (errors.LeaderNotAvailableError.code, -1)
        assert (offline.offline_replicas, offline.isr_nodes) == ([1], [1])
        assert (online.error_code, online.leader_id, online.offline_replicas) == (0, 1, [])
        asked = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")], response_partition_limit=10)
        offline, online = client.request(asked, 0).topics[0].partitions
        assert (offline.error_code, offline.leader_id, offline.offline_replicas) == (5, -1, [1])
        assert (online.error_code, online.leader_id, online.offline_replicas) == (0, 1, [])

    def test_in_log_directories_and_metrics_it_shows(self, broken: CoreBroker) -> None:
        described = broken.connect().request(DescribeLogDirsRequest(topics=None), 4)
        assert described.results[0].error_code == STORAGE
        metrics = BrokerMetrics(broken.node, lambda: broken.instant, lambda: 0.0).text().decode()
        assert "kafka_server_replicamanager_offlinereplicacount 1.0" in metrics
        assert "kafka_controller_kafkacontroller_offlinepartitionscount 1.0" in metrics

    def test_the_others_are_served_meanwhile(self, broken: CoreBroker) -> None:
        assert self.send(broken, 1) == 0
        assert self.send(broken, 0) in (STORAGE, errors.NotLeaderOrFollowerError.code)

    def test_it_comes_back_when_the_disk_does(self, broken: CoreBroker, caplog: pytest.LogCaptureFixture) -> None:
        broken.advance(60)
        assert broken.state.replica_manager.offline_count == 1
        broken.filesystem.fail = None
        broken.advance(UNTIL_TRIED)
        assert self.send(broken) == 0
        assert [value for _, value in sorted(found(broken, "t").items())] == [b"before", b"more"]
        partitions = broken.connect().request(MetadataRequest(topics=None), 12).topics[0].partitions
        assert [(p.error_code, p.leader_id, p.offline_replicas) for p in partitions] == [(0, 1, [])] * 2
        said = Counter(record.getMessage() for record in caplog.records)
        assert said["t-0 is served again"] == 1
        assert max(said.values()) == 1, said

    def test_a_log_that_can_be_read_is_read_while_nothing_can_be_written(self) -> None:
        broker = CoreBroker(SETTINGS)
        client = broker.connect()
        client.request(create("t"), 7)
        client.request(produce("t", batch(b"before")), 9)
        broker.filesystem.fail = lambda operation, path: (
            OSError(errno.ENOSPC, "no space left", path) if operation in ("write", "create") else None
        )
        assert self.send(broker) == STORAGE
        assert list(found(broker, "t").values()) == [b"before"]
        broker.stop()
        broker.filesystem.crash()
        again = CoreBroker(SETTINGS, broker.filesystem, broker.store, seed=3)
        assert list(found(again, "t").values()) == [b"before"]
        again.filesystem.fail = None
        assert self.send(again) == 0


class TestDeletedTopics:
    def test_a_directory_that_cannot_be_renamed_is_renamed_later(self, caplog: pytest.LogCaptureFixture) -> None:
        broker = CoreBroker(SETTINGS)
        client = broker.connect()
        client.request(create("t", 3), 7)
        for partition in range(3):
            client.request(produce("t", batch(b"old"), partition), 9)
        faults = broker.filesystem.fail = Faults("rename", 0, lasting=True)
        assert not client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6).responses[0].error_code
        client.request(create("t", 3), 7)
        assert client.request(produce("t", batch(b"new")), 9).responses[0].partition_responses[0].error_code == STORAGE
        faults.mended = True
        broker.advance(10)
        assert client.request(produce("t", batch(b"new")), 9).responses[0].partition_responses[0].error_code == 0
        assert list(found(broker, "t").values()) == [b"new"]
        broker.advance(90)
        assert not [entry for entry in broker.filesystem.list_directory("/data") if entry.name.endswith("-delete")]

    def test_on_a_full_disk_their_files_go_at_once(self) -> None:
        filesystem = MemoryFileSystem(Random(1), capacity=1 << 20)
        broker = CoreBroker(SETTINGS, filesystem)
        client = broker.connect()
        client.request(create("t"), 7)
        while not client.request(produce("t", batch(bytes(100_000))), 9).responses[0].partition_responses[0].error_code:
            continue
        assert not client.request(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]), 6).responses[0].error_code
        broker.advance(2)
        assert filesystem.disk_space("/data")[1] > 900_000


class FailingStore(MemoryStore):
    """A store that refuses changes while `problem` is set, but for those that make room if `keeps_reserve`."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: KafkaStorageError | None = None
        self.fail = lambda makes_room: self.problem


def alter_quota() -> AlterClientQuotasRequest:
    entity = EntityData(entity_type="client-id", entity_name="c")
    operation = OpData(key="producer_byte_rate", value=1000.0, remove=False)
    return AlterClientQuotasRequest(entries=[EntryData(entity=[entity], ops=[operation])])


def alter_config() -> IncrementalAlterConfigsRequest:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    resource = AlterConfigsResource(resource_type=2, resource_name="there", configs=[config])
    return IncrementalAlterConfigsRequest(resources=[resource])


def update_feature() -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=0, upgrade_type=2)
    return UpdateFeaturesRequest(feature_updates=[update])


#: Every request that changes the metadata, its version, and the error codes of its response.
CHANGES: dict[str, tuple[Any, int, Callable[[Any], list[int]]]] = {
    "CreateTopics": (create("new"), 7, lambda r: [topic.error_code for topic in r.topics]),
    "CreatePartitions": (
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="there", count=2, assignments=None)]),
        3,
        lambda r: [topic.error_code for topic in r.results],
    ),
    "DeleteTopics": (
        DeleteTopicsRequest(topics=[DeleteTopicState(name="there")]),
        6,
        lambda r: [topic.error_code for topic in r.responses],
    ),
    "IncrementalAlterConfigs": (alter_config(), 1, lambda r: [found.error_code for found in r.responses]),
    "AlterClientQuotas": (alter_quota(), 1, lambda r: [entry.error_code for entry in r.entries]),
    "AlterUserScramCredentials": (
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion("carol", 1, 4096, b"salt", b"salted")]),
        0,
        lambda r: [result.error_code for result in r.results],
    ),
    "UpdateFeatures": (update_feature(), 1, lambda r: [r.error_code]),
    "InitProducerId": (InitProducerIdRequest(transactional_id=None), 4, lambda r: [r.error_code]),
    "Metadata, creating a topic": (
        MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True),
        12,
        lambda r: [topic.error_code for topic in r.topics],
    ),
    "FindCoordinator, creating its topic": (
        FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]),
        4,
        lambda r: [coordinator.error_code for coordinator in r.coordinators],
    ),
    "FindCoordinator, creating that of transactions": (
        FindCoordinatorRequest(key_type=1, coordinator_keys=["t"]),
        4,
        lambda r: [coordinator.error_code for coordinator in r.coordinators],
    ),
}


@pytest.mark.parametrize("api", CHANGES)
def test_a_change_that_the_metadata_store_refuses_is_refused_and_may_be_made_later(api: str) -> None:
    request, version, codes = CHANGES[api]
    store = FailingStore()
    broker = CoreBroker(store=store)
    client = broker.connect()
    client.request(create("there"), 7)
    store.problem = KafkaStorageError("the metadata cannot be written: database or disk is full")
    before = store.read().changes
    expected = errors.CoordinatorNotAvailableError.code if api.startswith("FindCoordinator") else STORAGE

    for _ in range(3):
        assert codes(client.request(request, version)) == [expected]

    assert store.read().changes == before
    assert not client.closed
    assert len(broker.warnings) == 1, "one line for a state, however often it is met"
    assert "database or disk is full" in broker.warnings[0]
    store.problem = None
    assert codes(client.request(request, version)) == [0]
    assert broker.warnings[1:] == ["the metadata can be written again"]


def test_every_request_that_changes_the_metadata_is_among_those_tried() -> None:
    committing = {
        path.stem
        for path in Path(handlers.__file__).parent.glob("*.py")
        if re.search(
            r"\.commit\(|producer_id_manager|auto_create|config_admin\.(alter|change)|ensure_topic", path.read_text()
        )
    }
    tried = {name_of(request) for request, _, _ in CHANGES.values()} | {"alter_configs"}
    # Those of ACLs need an authorizer, those of tokens a login: see security/test_authorization.py, and
    # test_delegation_tokens.py.
    elsewhere = {"create_acls", "delete_acls", *(f"{verb}_delegation_token" for verb in ("create", "renew", "expire"))}
    assert committing <= tried | elsewhere | {"add_offsets_to_txn", "txn_offset_commit"}


def name_of(request: Any) -> str:
    name: str = type(request).__module__.rpartition(".")[2].removesuffix("_request")
    return name
