"""kafka-python against our broker."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import Broker

with warnings.catch_warnings():
    # It reads its schemas with a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import NewTopic

pytestmark = pytest.mark.filterwarnings("ignore:.*read_text is deprecated:DeprecationWarning")

NewName = Callable[[str], str]


def produce(broker: Broker, topic: str, count: int, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    sent = [producer.send(topic, key=b"%d" % n, value=b"value %d" % n) for n in range(count)]
    producer.flush(15)
    for future in sent:
        future.get(15)
    producer.close()


def consumer(broker: Broker, topic: str, group: str | None, **settings: Any) -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


def poll(members: list[KafkaConsumer], count: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    end = time.monotonic() + 20
    while len(found) < count and time.monotonic() < end:
        for member in members:
            for records in member.poll(timeout_ms=100).values():
                found.update((record.key, record.value) for record in records)
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_what_is_produced_is_consumed(broker: Broker, new_name: NewName, codec: str | None, idempotent: bool) -> None:
    topic = new_name("kp")
    produce(broker, topic, 300, compression_type=codec, enable_idempotence=idempotent)
    reader = consumer(broker, topic, new_name("group"))
    found = poll([reader], 300)
    reader.close()
    assert found == {b"%d" % n: b"value %d" % n for n in range(300)}


def test_two_members_share_the_partitions_and_one_takes_over(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("kp"), new_name("group")
    produce(broker, topic, 1)
    members = [consumer(broker, topic, group, heartbeat_interval_ms=100) for _ in range(2)]
    end = time.monotonic() + 30
    while sorted(len(member.assignment()) for member in members) != [1, 2] and time.monotonic() < end:
        for member in members:
            member.poll(timeout_ms=50)
    assert sorted(len(member.assignment()) for member in members) == [1, 2]
    members[0].close()
    while len(members[1].assignment()) != 3 and time.monotonic() < end:
        members[1].poll(timeout_ms=50)
    assert len(members[1].assignment()) == 3
    members[1].close()


def test_a_group_goes_on_where_it_committed(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("kp"), new_name("group")
    produce(broker, topic, 50)
    first = consumer(broker, topic, group)
    poll([first], 50)
    first.commit()
    first.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    producer.send(topic, key=b"new", value=b"new").get(10)
    producer.close()
    second = consumer(broker, topic, group)
    assert poll([second], 1) == {b"new": b"new"}
    second.close()


def test_offsets_by_time_and_seeking(broker: Broker, new_name: NewName) -> None:
    topic = new_name("kp")
    start = int(time.time() * 1000) - 60_000
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for number in range(10):
        producer.send(topic, b"%d" % number, partition=0, timestamp_ms=start + number * 1000).get(10)
    producer.close()
    partition = TopicPartition(topic, 0)
    reader = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    assert reader.offsets_for_times({partition: start + 4500})[partition].offset == 5
    assert reader.beginning_offsets([partition]) == {partition: 0}
    assert reader.end_offsets([partition]) == {partition: 10}
    reader.assign([partition])
    reader.seek(partition, 7)
    end = time.monotonic() + 10
    records: list[Any] = []
    while len(records) < 3 and time.monotonic() < end:
        records += reader.poll(timeout_ms=200).get(partition, [])
    reader.close()
    assert [record.value for record in records] == [b"7", b"8", b"9"]


def test_administration(broker: Broker, new_name: NewName) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    topic = new_name("kp")
    admin.create_topics([NewTopic(topic, 2, 1)])
    assert topic in admin.list_topics()
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 2
    assert admin.describe_cluster()["controller_id"] == 1
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()
