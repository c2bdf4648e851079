"""The producer against a running broker, ours and Apache Kafka alike; an independent client reads what was stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas import Producer, errors
from tests.support.patience import PATIENCE

NewName = Callable[[str], str]


@pytest.fixture
def make_topic(bootstrap_servers: str, new_name: NewName) -> Callable[..., str]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def make(partitions: int = 1, **settings: str) -> str:
        name = new_name("topic")
        config = {key.replace("_", "."): value for key, value in settings.items()}
        for created in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
            created.result(30)
        return name

    return make


def read_all(bootstrap_servers: str, topic: str, partitions: int, count: int) -> list[Any]:
    """The first `count` records of a topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)])
        records: list[Any] = []
        deadline = time.monotonic() + PATIENCE
        while len(records) < count and time.monotonic() < deadline:
            records += [record for record in consumer.consume(count - len(records), 0.5) if record.error() is None]
        return sorted(records, key=lambda record: (record.partition(), record.offset()))
    finally:
        consumer.close()


@pytest.fixture
def producer(bootstrap_servers: str) -> Iterator[Producer[Any, Any]]:
    with Producer(bootstrap_servers=bootstrap_servers) as made:
        yield made


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_are_stored_as_they_were_sent(
    bootstrap_servers: str, make_topic: Callable[..., str], codec: str
) -> None:
    topic = make_topic()
    sent = [
        (b"k%d" % n if n % 3 else None, b"v%d" % n * n if n % 5 else None, [("h", b"%d" % n), ("none", None)])
        for n in range(200)
    ]

    with Producer(bootstrap_servers=bootstrap_servers, compression_type=codec) as producer:
        futures = [
            producer.send(topic, value, key, headers=headers, timestamp_ms=1_600_000_000_000 + n)
            for n, (key, value, headers) in enumerate(sent)
        ]
    stored = read_all(bootstrap_servers, topic, 1, len(sent))

    assert [(record.key(), record.value(), record.headers()) for record in stored] == sent
    assert [record.timestamp()[1] for record in stored] == [1_600_000_000_000 + n for n in range(200)]
    assert [future.result(0).offset for future in futures] == [record.offset() for record in stored]


def test_keys_go_where_javas_producer_puts_them(bootstrap_servers: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(6)
    keys = [b"key-%d" % n for n in range(100)]
    theirs = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "partitioner": "murmur2_random"})
    expected: dict[bytes, int] = {}
    for key in keys:
        theirs.produce(topic, b"v", key, on_delivery=lambda _, m: expected.__setitem__(m.key(), m.partition()))
    theirs.flush(30)

    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        chosen = {key: producer.send(topic, b"v", key).result(30).partition for key in keys}

    assert chosen == expected


def test_many_threads_lose_nothing_double_nothing_and_keep_their_order(
    bootstrap_servers: str, make_topic: Callable[..., str]
) -> None:
    topic, threads_count, each = make_topic(3), 4, 2500
    delivered = [0] * threads_count
    with Producer(bootstrap_servers=bootstrap_servers, batch_size=4096, linger_ms=1) as producer:

        def work(name: int) -> None:
            def on_delivery(_: object, error: BaseException | None) -> None:
                assert error is None
                delivered[name] += 1

            for number in range(each):
                producer.send(topic, b"%d" % number, b"thread-%d" % name, on_delivery=on_delivery)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(threads_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(60)
    stored = read_all(bootstrap_servers, topic, 3, threads_count * each)

    assert delivered == [each] * threads_count
    for name in range(threads_count):
        mine = [int(record.value()) for record in stored if record.key() == b"thread-%d" % name]
        assert mine == list(range(each))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_records(
    bootstrap_servers: str, make_topic: Callable[..., str], acks: str
) -> None:
    topic = make_topic()
    with Producer(bootstrap_servers=bootstrap_servers, acks=acks) as producer:
        offset = producer.send(topic, b"v").result(30).offset

    assert offset == (-1 if acks == "0" else 0)
    assert [record.value() for record in read_all(bootstrap_servers, topic, 1, 1)] == [b"v"]


def test_batches_that_the_topic_does_not_take_are_split(bootstrap_servers: str, make_topic: Callable[..., str]) -> None:
    topic = make_topic(max_message_bytes="2000")
    with Producer(bootstrap_servers=bootstrap_servers, linger_ms=50) as producer:
        futures = [producer.send(topic, b"%03d" % n + b"x" * 200) for n in range(60)]
        too_large = producer.send(topic, b"x" * 3000)
        producer.flush(60)
        splits = producer.metrics()["batch-split-total"]

    assert [future.result(0).offset for future in futures] == list(range(60))
    assert isinstance(too_large.exception(0), errors.RecordTooLargeError)
    assert splits >= 1
    assert [record.value()[:3] for record in read_all(bootstrap_servers, topic, 1, 60)] == [
        b"%03d" % n for n in range(60)
    ]


def test_an_invalid_topic_fails_the_record(producer: Producer[Any, Any]) -> None:
    assert isinstance(producer.send("not a topic!", b"v").exception(30), errors.InvalidTopicError)


def test_partitions_for_names_leader_and_replicas(producer: Producer[Any, Any], make_topic: Callable[..., str]) -> None:
    partitions = producer.partitions_for(make_topic(3))

    assert [info.partition for info in partitions] == [0, 1, 2]
    assert all(info.leader >= 0 and info.replicas for info in partitions)


def test_a_topic_that_is_new_can_be_sent_to_at_once(producer: Producer[Any, Any], new_name: NewName) -> None:
    assert producer.send(new_name("auto"), b"v").result(60).offset == 0
