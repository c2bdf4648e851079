"""A program of a user who runs mypy --strict; `test_typing.py` has it checked, nobody runs it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple, assert_type

import barnabas
from barnabas import (
    AdminClient,
    Consumer,
    ConsumerRecord,
    ConsumerRecords,
    Producer,
    ProducerRecord,
    ProducerSettings,
    RecordMetadata,
    aio,
)
from barnabas.partitioners import Cluster
from barnabas.serializers import LongDeserializer, LongSerializer, StringDeserializer, StringSerializer

WRONG = barnabas.Prodcuer  # type: ignore[attr-defined]  # a type checker sees a wrong name


class Order(NamedTuple):
    number: int
    price: float


def to_bytes(order: Order) -> bytes:
    return json.dumps(order).encode()


def from_bytes(data: bytes) -> Order:
    return Order(*json.loads(data))


def delivered(metadata: RecordMetadata, error: BaseException | None) -> None:
    assert_type((metadata.partition, error), tuple[int, BaseException | None])


class ByCountry:
    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        return len(key) % (cluster.partition_count_for_topic(topic) or 1)


class Stamping:
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        delivered(metadata, error)


def produce() -> None:
    producer = Producer(bootstrap_servers="b", key_serializer=StringSerializer, value_serializer=to_bytes)
    assert_type(producer, Producer[str, Order])
    metadata = producer.send("orders", Order(1, 2.0), "key").result()
    assert_type((metadata.topic, metadata.offset, metadata.timestamp), tuple[str, int, int])
    producer.send("orders", None, None)
    producer.send("orders", 3, "key")  # type: ignore[arg-type]  # a value of the wrong type
    producer.send("orders", Order(1, 2.0), b"key")  # type: ignore[arg-type]  # a key of the wrong type
    producer.send("orders", Order(1, 2.0), "key", on_delivery=delivered)
    assert_type(Producer(key_serializer=str.encode), Producer[str, Any])
    assert_type(Producer(key_serializer=str, value_serializer=LongSerializer), Producer[Any, int])
    Producer(partitioner_class=ByCountry, interceptor_classes=[Stamping])
    assert_type(Producer({"linger.ms": 5}), Producer[Any, Any])
    said: Producer[str, Order] = Producer({"key.serializer": "StringSerializer"}, value_serializer=to_bytes)
    said.close()


def price_of(record: ConsumerRecord[str, Order]) -> float:
    return 0.0 if record.value is None else record.value.price


def consume() -> None:
    consumer = Consumer("orders", key_deserializer=StringDeserializer, value_deserializer=from_bytes)
    assert_type(consumer, Consumer[str, Order])
    for record in consumer:
        assert_type(record.key, str | None)
        assert_type(record.value, Order | None)
        price_of(record)
    assert_type(consumer.poll(1.0), ConsumerRecords[str, Order])
    assert_type([price_of(record) for record in consumer.poll()], list[float])
    assert_type(Consumer("x", key_deserializer=str, value_deserializer=int), Consumer[str, int])
    assert_type(Consumer("x", key_deserializer=LongDeserializer()), Consumer[int, Any])
    with Consumer("x", value_deserializer=from_bytes) as other:
        assert_type(other, Consumer[Any, Order])
        record = other.poll().records("x")[0]
        price = record.value.price  # type: ignore[union-attr]  # it may be null
        assert_type(price, Any | float)


async def produce_in_a_loop() -> None:
    async with aio.Producer(key_serializer=StringSerializer, value_serializer=to_bytes) as producer:
        assert_type(producer, aio.Producer[str, Order])
        future = await producer.send("orders", Order(1, 2.0), "key")
        metadata = await future
        assert_type((metadata.topic, metadata.offset, metadata.timestamp), tuple[str, int, int])
        await producer.send("orders", 3, "key")  # type: ignore[arg-type]  # a value of the wrong type
    said: aio.Producer[str, Order] = aio.Producer({"key.serializer": "StringSerializer"}, value_serializer=to_bytes)
    await said.close()


async def consume_in_a_loop() -> None:
    async with aio.Consumer("x", key_deserializer=StringDeserializer, value_deserializer=from_bytes) as consumer:
        assert_type(consumer, aio.Consumer[str, Order])
        async for record in consumer:
            assert_type(record.key, str | None)
            assert_type(record.value, Order | None)
            price_of(record)
        assert_type(await consumer.poll(1.0), ConsumerRecords[str, Order])


def settings(servers: str, from_a_file: dict[str, str]) -> None:
    Producer(bootstrap_servers=servers, linger_ms=5, acks=1, enable_idempotence=False, compression_type="zstd")
    Producer(from_a_file, linger_ms=5)
    Producer(bootstrap_servers=servers, linger_msec=5)  # type: ignore[call-arg]  # no such setting
    Producer(bootstrap_servers=servers, linger_ms="soon")  # type: ignore[arg-type]  # a number of milliseconds
    Consumer("x", bootstrap_servers=[servers], group_id=None, max_poll_records=5, auto_offset_reset="earliest")
    Consumer("x", {"max.poll.records": "5"})
    Consumer("x", max_pol_records=5)  # type: ignore[call-arg]  # no such setting
    Consumer("x", enable_auto_commit="never")  # type: ignore[arg-type]  # a bool
    AdminClient(bootstrap_servers=servers, request_timeout_ms=100)
    AdminClient(bootstrap_servers=servers, linger_ms=5)  # type: ignore[call-arg]  # a setting of producers
    kept: ProducerSettings = {"linger_ms": 5, "acks": "all"}
    Producer(**kept)


async def settings_in_a_loop(servers: str) -> None:
    await aio.Producer(bootstrap_servers=servers, lingerms=5).close()  # type: ignore[call-arg]  # no such setting
    await aio.Consumer("x", bootstrap_servers=servers, check_crcs=1.5).close()  # type: ignore[arg-type]  # a bool
    await aio.AdminClient(bootstrap_servers=servers, retries="many").close()  # type: ignore[arg-type]  # a number
