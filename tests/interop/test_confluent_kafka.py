"""librdkafka, through confluent-kafka, against our broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic

from barnabas import Broker
from tests.contract.waiting import eventually
from tests.interop.three_brokers import count_of

NewName = Callable[[str], str]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def produce(broker: Broker, topic: str, count: int, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for number in range(count):
        producer.produce(topic, key=b"%d" % number, value=b"value %d" % number, on_delivery=on_delivery)
    assert producer.flush(15) == 0
    assert failures == []


def consumer(broker: Broker, group: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            **settings,
        }
    )


def poll(members: list[Consumer], count: int, seconds: float = 20.0) -> list[dict[bytes, bytes]]:
    """What each member got until there are `count` records in all."""
    found: list[dict[bytes, bytes]] = [{} for _ in members]
    end = time.monotonic() + seconds
    while sum(map(len, found)) < count and time.monotonic() < end:
        for got, member in zip(found, members, strict=True):
            for message in member.consume(500, 0.05):
                assert message.error() is None
                got[message.key()] = message.value()
    return found


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_is_produced_is_consumed(broker: Broker, new_name: NewName, codec: str, idempotent: bool) -> None:
    topic = new_name("codec")
    produce(broker, topic, 500, **{"compression.type": codec, "enable.idempotence": idempotent})
    reader = consumer(broker, new_name("group"))
    reader.subscribe([topic])
    (found,) = poll([reader], 500)
    reader.close()
    assert found == {b"%d" % n: b"value %d" % n for n in range(500)}


def test_acks_0(broker: Broker, new_name: NewName) -> None:
    topic = new_name("acks0")
    # A topic that is being created has no leader yet, and what comes then with acks=0 is lost.
    produce(broker, topic, 1)
    produce(broker, topic, 100, acks=0)
    reader = consumer(broker, new_name("group"))
    reader.subscribe([topic])
    (found,) = poll([reader], 100)
    reader.close()
    assert len(found) == 100


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_two_members_share_the_partitions_and_one_takes_over(broker: Broker, new_name: NewName, strategy: str) -> None:
    topic, group = new_name("shared"), new_name("group")
    produce(broker, topic, 10)
    members = [consumer(broker, group, **{"partition.assignment.strategy": strategy}) for _ in range(2)]
    for member in members:
        member.subscribe([topic])
    end = time.monotonic() + 20
    while sorted(len(member.assignment()) for member in members) != [1, 2] and time.monotonic() < end:
        for member in members:
            member.consume(1, 0.05)
    assert sorted(len(member.assignment()) for member in members) == [1, 2]
    members[0].close()
    while len(members[1].assignment()) != 3 and time.monotonic() < end:
        members[1].consume(1, 0.05)
    assert len(members[1].assignment()) == 3
    members[1].close()


def test_a_group_goes_on_where_it_committed(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("commit"), new_name("group")
    produce(broker, topic, 60)
    first = consumer(broker, group)
    first.subscribe([topic])
    poll([first], 60)
    first.commit(asynchronous=False)
    first.close()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, key=b"new", value=b"new")
    producer.flush(10)
    second = consumer(broker, group)
    second.subscribe([topic])
    (found,) = poll([second], 1)
    assert found == {b"new": b"new"}
    second.close()


def test_seeking_by_time_and_the_watermarks(broker: Broker, new_name: NewName) -> None:
    topic = new_name("time")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    start = int(time.time() * 1000) - 60_000
    for number in range(10):
        producer.produce(topic, value=b"%d" % number, partition=0, timestamp=start + number * 1000)
    producer.flush(10)
    reader = consumer(broker, new_name("group"))
    (found,) = reader.offsets_for_times([TopicPartition(topic, 0, start + 4500)], timeout=10)
    assert found.offset == 5
    assert reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) == (0, 10)
    reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    (message,) = reader.consume(1, 10)
    assert message.timestamp()[1] == start
    reader.close()


def test_administration(broker: Broker, new_name: NewName) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    topic = new_name("admin")
    admin.create_topics([NewTopic(topic, 2, config={"retention.ms": "12345"})])[topic].result(10)
    with pytest.raises(KafkaException, match="exists"):
        admin.create_topics([NewTopic(topic, 2)])[topic].result(10)
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    eventually(lambda: len(admin.list_topics(topic, 10).topics[topic].partitions) == 4)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(10)
    assert configs["retention.ms"].value == "12345"
    assert len(admin.describe_cluster().result(10).nodes) == count_of(broker)
    admin.delete_topics([topic])[topic].result(10)
    eventually(lambda: topic not in admin.list_topics(timeout=10).topics)


def test_groups_are_listed_described_and_deleted(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("described"), new_name("group")
    produce(broker, topic, 5)
    reader = consumer(broker, group)
    reader.subscribe([topic])
    poll([reader], 5)
    reader.commit(asynchronous=False)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    described = admin.describe_consumer_groups([group])[group].result(10)
    assert [len(member.assignment.topic_partitions) for member in described.members] == [3]
    assert group in [found.group_id for found in admin.list_consumer_groups().result(10).valid]
    reader.close()
    admin.delete_consumer_groups([group])[group].result(10)
    assert group not in [found.group_id for found in admin.list_consumer_groups().result(10).valid]
