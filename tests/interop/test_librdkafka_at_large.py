"""What confluent-kafka can ask of a broker beyond the everyday: records of all shapes, many of everything, admin."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from barnabas import Broker
from tests.contract.waiting import eventually
from tests.interop.three_brokers import count_of

NewName = Callable[[str], str]


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def only(futures: dict[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    return future.result(20)


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    only(admin.create_topics([NewTopic(topic, partitions, config=settings)]))


def send(broker: Broker, topic: str, records: list[dict[str, Any]], **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    failures: list[KafkaError] = []
    for record in records:
        producer.produce(topic, **record, on_delivery=lambda error, _: error and failures.append(error))
    assert producer.flush(20) == 0
    assert failures == []


def read(broker: Broker, topic: str, count: int, partitions: int = 1, **settings: Any) -> list[Message]:
    reader = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", **settings})
    with closing(reader):
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
        found: list[Message] = []
        end = time.monotonic() + 20
        while len(found) < count and time.monotonic() < end:
            found += reader.consume(1000, 0.1)
    assert [message.error() for message in found if message.error()] == []
    return found


def test_keys_values_and_headers_of_all_shapes_come_back_as_they_went(
    broker: Broker, admin: AdminClient, new_name: NewName
) -> None:
    topic = new_name("shapes")
    create(admin, topic)
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("", b"nameless"), ("ü", b"\x00\xff")]
    shapes = [(None, None), (b"", b""), (b"k", None), (None, b"v"), (b"\x00" * 300, b"\xff" * 3000)]
    send(broker, topic, [{"key": key, "value": value, "headers": headers} for key, value in shapes])
    found = read(broker, topic, len(shapes))
    assert [(message.key(), message.value()) for message in found] == shapes
    assert all(message.headers() == headers for message in found)


def test_log_append_time_is_the_brokers(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("append-time")
    create(admin, topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    send(broker, topic, [{"value": b"v", "timestamp": 1_000_000}] * 5, **{"compression.type": "lz4"})
    for message in read(broker, topic, 5):
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before <= timestamp <= time.time() * 1000


def test_large_messages(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("large")
    create(admin, topic, max_message_bytes="20000000")
    large = b"0123456789" * 1_000_000
    send(broker, topic, [{"value": large}, {"value": b"small"}], **{"message.max.bytes": 20_000_000})
    limits = {"fetch.message.max.bytes": 1000, "fetch.max.bytes": 1_000_000, "message.max.bytes": 1_000_000}
    assert [message.value() for message in read(broker, topic, 2, **limits)] == [large, b"small"]


def test_a_message_above_the_topics_limit_is_refused(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("limited")
    create(admin, topic, max_message_bytes="2000")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    errors: list[KafkaError | None] = []
    for size in (5000, 500):
        producer.produce(topic, b"x" * size, on_delivery=lambda error, _: errors.append(error))
        producer.flush(20)
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert errors[1] is None


def test_two_hundred_partitions(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("wide")
    create(admin, topic, 200)
    send(broker, topic, [{"value": b"%d" % n, "partition": n % 200} for n in range(2000)])
    found = read(broker, topic, 2000, 200)
    assert sorted(int(message.value()) for message in found) == list(range(2000))
    for partition in range(200):
        values = [int(message.value()) for message in found if message.partition() == partition]
        assert values == list(range(partition, 2000, 200))


@pytest.fixture
def crowd(broker: Broker) -> Iterator[list[Consumer]]:
    members = [Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "crowd"}) for _ in range(200)]
    yield members
    for member in members:
        member.close()


def test_two_hundred_clients_at_once(
    broker: Broker, admin: AdminClient, new_name: NewName, crowd: list[Consumer]
) -> None:
    topic = new_name("crowd")
    create(admin, topic)
    for member in crowd:
        member.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    send(broker, topic, [{"value": b"v"}])
    assert [message.value() for member in crowd if (message := member.poll(20)) is not None] == [b"v"] * 200


def test_a_static_member_comes_back_without_a_rebalance(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic, group = new_name("static"), new_name("group")
    create(admin, topic, 4)
    rebalances: list[str] = []

    def member(name: str) -> Consumer:
        settings = {"group.instance.id": name, "session.timeout.ms": 30000, "heartbeat.interval.ms": 100}
        found = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, **settings})
        found.subscribe([topic], on_revoke=lambda *_: rebalances.append(name))
        return found

    def settle(*members: Consumer) -> None:
        end = time.monotonic() + 20
        while [len(member.assignment()) for member in members] != [2, 2] and time.monotonic() < end:
            for each in members:
                each.poll(0.05)
        assert [len(member.assignment()) for member in members] == [2, 2]

    first, second = member("a"), member("b")
    settle(first, second)
    had = {partition.partition for partition in second.assignment()}
    second.close()  # a static member does not leave
    rebalances.clear()
    second = member("b")
    settle(first, second)
    assert first.consume(1, 0.5) == []  # some heartbeats later
    assert {partition.partition for partition in second.assignment()} == had
    assert rebalances == []
    (described,) = [only(admin.describe_consumer_groups([group]))]
    assert {found.group_instance_id for found in described.members} == {"a", "b"}
    second.close()
    first.close()


def test_configs_are_altered_one_by_one_and_all_at_once(admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("configs")
    create(admin, topic, retention_ms="1000000")

    def value(name: str) -> tuple[str, bool]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        entry = only(admin.describe_configs([resource]))[name]
        return entry.value, entry.is_default

    def alter(name: str, new: str | None, operation: AlterConfigOpType) -> None:
        entry = ConfigEntry(name, new, incremental_operation=operation)
        changed = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        only(admin.incremental_alter_configs([changed]))

    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND)
    eventually(lambda: sorted(value("cleanup.policy")[0].split(",")) == ["compact", "delete"])
    alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)
    eventually(lambda: value("cleanup.policy") == ("compact", False))
    alter("cleanup.policy", None, AlterConfigOpType.DELETE)
    eventually(lambda: value("cleanup.policy") == ("delete", True))
    with pytest.raises(KafkaException, match="retention"):
        alter("retention.ms", "soon", AlterConfigOpType.SET)
    assert value("retention.ms") == ("1000000", False)


def test_offsets_of_every_kind(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("offsets")
    create(admin, topic)
    start = int(time.time() * 1000) - 60_000
    send(broker, topic, [{"value": b"v", "timestamp": start + n * 1000} for n in (0, 1, 9, 3, 4)])
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        found = only(admin.list_offsets({partition: spec}, isolation_level=IsolationLevel.READ_COMMITTED))
        return int(found.offset)

    kinds = [
        OffsetSpec.earliest(),
        OffsetSpec.latest(),
        OffsetSpec.max_timestamp(),
        OffsetSpec.for_timestamp(start + 1),
    ]
    assert [offset(spec) for spec in kinds] == [0, 5, 2, 1]
    assert only(admin.delete_records([TopicPartition(topic, 0, 3)])).low_watermark == 3
    assert offset(OffsetSpec.earliest()) == 3
    assert [message.offset() for message in read(broker, topic, 2)] == [3, 4]


def test_committed_offsets_are_listed_altered_and_deleted_with_their_group(
    admin: AdminClient, new_name: NewName
) -> None:
    topic, group = new_name("committed"), new_name("group")
    create(admin, topic, 2)
    wanted = [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 7)]
    only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
    listed = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])).topic_partitions
    assert sorted((found.partition, found.offset) for found in listed) == [(0, 0), (1, 7)]
    assert only(admin.describe_consumer_groups([group])).members == []
    only(admin.delete_consumer_groups([group]))
    with pytest.raises(KafkaException, match="GROUP_ID_NOT_FOUND"):
        only(admin.delete_consumer_groups([group]))


def test_topics_and_the_cluster_are_described(broker: Broker, admin: AdminClient, new_name: NewName) -> None:
    topic = new_name("described")
    create(admin, topic, 2)
    only(admin.create_partitions([NewPartitions(topic, 3)]))
    brokers = set(range(1, count_of(broker) + 1))

    def describe() -> Any:
        return only(admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True))

    eventually(lambda: len(describe().partitions) == 3)
    described = describe()
    assert all(partition.leader.id in brokers for partition in described.partitions)
    assert all({node.id for node in partition.isr} == brokers for partition in described.partitions)
    assert not described.is_internal
    cluster = admin.describe_cluster(include_authorized_operations=True).result(10)
    assert cluster.controller.id in brokers
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)]).result(10)
    assert [error.code() for error in elected.values()] == [KafkaError.ELECTION_NOT_NEEDED]
    with pytest.raises(KafkaException):
        only(admin.create_partitions([NewPartitions(topic, 2)]))


def test_a_user_that_does_not_exist_is_named(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as failure:
        only(admin.describe_user_scram_credentials(["somebody"]))
    assert failure.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND
    assert "somebody" in failure.value.args[0].str()
