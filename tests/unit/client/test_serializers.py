"""Between values and bytes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from barnabas import TopicPartition
from barnabas.client import serializers
from barnabas.client.consumer.fetching.completed_fetch import CompletedFetch
from barnabas.client.consumer.fetching.fetch_config import FetchConfig
from barnabas.client.consumer.fetching.fetch_metrics import FetchMetrics, FetchMetricsAggregator
from barnabas.client.serializers import apply_serializer, as_bytes, resolve_serializer
from barnabas.errors import ConfigError, SerializationError
from barnabas.protocol.messages.fetch_response import PartitionData
from barnabas.records import RecordBatchBuilder
from tests.unit.client.producer.storing_broker import StoringBroker, connect

SOME_UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")


@pytest.mark.parametrize(
    ("name", "value", "encoded"),
    [
        ("String", "héllo", "héllo".encode()),
        ("Short", -2, b"\xff\xfe"),
        ("Integer", 258, b"\0\0\1\2"),
        ("Long", -1, b"\xff" * 8),
        ("Float", 1.5, b"\x3f\xc0\0\0"),
        ("Double", -2.0, b"\xc0" + b"\0" * 7),
        ("UUID", SOME_UUID, b"12345678-1234-5678-1234-567812345678"),
        ("JSON", {"a": [1, None, "ü"]}, '{"a":[1,null,"ü"]}'.encode()),
    ],
)
def test_each_serializer_writes_kafkas_bytes_and_its_deserializer_reads_them(
    name: str, value: Any, encoded: bytes
) -> None:
    serializer = getattr(serializers, f"{name}Serializer")()
    deserializer = getattr(serializers, f"{name}Deserializer")()

    assert serializer(value) == encoded
    assert deserializer(encoded) == value


@pytest.mark.parametrize(
    "setting",
    [
        serializers.StringSerializer, serializers.StringSerializer(), str, str.encode, "StringSerializer",
        "org.apache.kafka.common.serialization.StringSerializer", "barnabas.client.serializers:StringSerializer",
    ],
)  # fmt: skip
def test_a_serializer_may_be_a_class_an_object_a_function_or_a_name(setting: Any) -> None:
    serializer = resolve_serializer(setting, "key.serializer")

    assert apply_serializer(serializer, "t", "k", (), "key") == b"k"


@pytest.mark.shows("S4.7", breaks="barnabas.client.serializers:apply_serializer")
def test_a_custom_serializer_for_an_own_type_sees_topic_and_headers() -> None:
    class Order:
        def __init__(self, number: int) -> None:
            self.number = number

    class OrderSerializer:
        def serialize(self, topic: str, order: Order, headers: Any) -> bytes:
            return f"{topic}/{order.number}/{len(headers)}".encode()

    serializer = resolve_serializer(OrderSerializer, "value.serializer")

    assert apply_serializer(serializer, "orders", Order(7), (("h", b""),), "value") == b"orders/7/1"


def test_none_stays_none() -> None:
    assert apply_serializer(serializers.LongSerializer(), "t", None, (), "value") is None


def test_text_without_a_serializer_names_the_setting_that_is_missing() -> None:
    with pytest.raises(SerializationError, match=r"key_serializer=str\.encode"):
        as_bytes("text", "key")
    with pytest.raises(SerializationError, match='value_serializer="LongSerializer"'):
        as_bytes(1, "value")


def test_what_a_serializer_raises_or_returns_wrongly_names_it() -> None:
    with pytest.raises(SerializationError, match=r"value_serializer .*lambda.* for topic 't'"):
        apply_serializer(lambda value: 1 / 0, "t", "v", (), "value")
    with pytest.raises(SerializationError, match="returned str"):
        apply_serializer(lambda value: "text", "t", "v", (), "value")
    with pytest.raises(SerializationError, match="IntegerSerializer cannot write 4294967296"):
        serializers.IntegerSerializer()(1 << 32)


def test_an_unknown_serializer_is_a_config_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"key\.serializer='NoSuch'.*StringSerializer"):
        resolve_serializer("NoSuch", "key.serializer")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        resolve_serializer("no.such.module:thing", "key.serializer")
    with pytest.raises(ConfigError, match="not int"):
        resolve_serializer(5, "value.serializer")


def test_a_serializer_may_add_headers_and_its_deserializer_reads_them() -> None:
    class Tagged:
        def serialize(self, topic: str, value: str, headers: Any) -> bytes:
            headers.append(("length", b"%d" % len(value)))
            return value.encode()

        def deserialize(self, topic: str, data: bytes, headers: Any) -> tuple[str, dict[str, bytes | None]]:
            return data.decode(), dict(headers)

    with (
        StoringBroker() as broker,
        connect(broker, key_serializer=str.encode, value_serializer=Tagged()) as producer,
    ):
        producer.send("one", "abc", "k", headers={"mine": b"1"}).result(20)
    ((_, stored),) = broker.records
    assert stored.headers == [("mine", b"1"), ("length", b"3")]

    builder = RecordBatchBuilder(1000)
    builder.try_append(0, stored.key, stored.value, stored.headers)
    data = PartitionData(partition_index=0, records=builder.close())
    config = FetchConfig(key_deserializer=bytes.decode, value_deserializer=Tagged())
    answer = FetchMetricsAggregator(FetchMetrics())
    (record,) = CompletedFetch(TopicPartition("one", 0), (0, 1), data, config, 1, answer).fetch_records(10)
    assert (record.key, record.value) == ("k", ("abc", {"mine": b"1", "length": b"3"}))
