"""Avro, Protobuf and msgpack with a schema that both sides know."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import pytest
from google.protobuf import struct_pb2, timestamp_pb2

from barnabas.client.format_serializers import (
    AvroDeserializer,
    AvroSerializer,
    MsgpackDeserializer,
    MsgpackSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
)
from barnabas.client.serializers import apply_serializer
from barnabas.errors import ConfigError, SerializationError

FLIGHT = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": ["null", "int"], "default": None}],
}
LATER = {**FLIGHT, "fields": [*FLIGHT["fields"], {"name": "gate", "type": "string", "default": "?"}]}


def test_avro_writes_the_bare_value() -> None:
    # The Avro specification, "Binary Encoding": a length and UTF-8, then the branch of the union and a zigzag number.
    assert AvroSerializer(FLIGHT)({"carrier": "UA", "delay": -3}) == b"\x04UA\x02\x05"
    assert AvroDeserializer(FLIGHT)(b"\x04UA\x02\x05") == {"carrier": "UA", "delay": -3}


def test_avro_takes_a_schema_as_text_and_reads_into_a_later_one() -> None:
    data = AvroSerializer('{"type": "string"}')("x")
    assert AvroDeserializer("string")(data) == "x"
    written = AvroSerializer(FLIGHT)({"carrier": "UA", "delay": None})
    assert AvroDeserializer(FLIGHT, LATER)(written) == {"carrier": "UA", "delay": None, "gate": "?"}


@pytest.mark.parametrize("value", [{"carrier": 3, "delay": 1}, {"delay": 1}, {"carrier": "UA", "delay": 1, "x": 2}])
def test_a_value_that_the_schema_does_not_allow_is_refused(value: Any) -> None:
    with pytest.raises(SerializationError, match="value_serializer AvroSerializer could not turn"):
        apply_serializer(AvroSerializer(FLIGHT), "flights", value, (), "value")


def test_bytes_of_another_schema_are_noticed() -> None:
    with pytest.raises(SerializationError, match="2 bytes are left"):
        AvroDeserializer("string")(b"\x04UA\x02\x05")


@pytest.mark.parametrize("schema", ["{", {"type": "nonsense"}, 3])
def test_a_schema_that_is_none_is_refused_when_the_serializer_is_made(schema: Any) -> None:
    with pytest.raises(ConfigError, match="the Avro schema cannot be read"):
        AvroSerializer(schema)


def test_protobuf_messages_travel_as_they_are() -> None:
    message = timestamp_pb2.Timestamp(seconds=3)
    data = ProtobufSerializer(timestamp_pb2.Timestamp)(message)
    assert data == b"\x08\x03"
    assert ProtobufDeserializer(timestamp_pb2.Timestamp)(data) == message


def test_equal_protobuf_messages_make_equal_keys() -> None:
    one, other = struct_pb2.Struct(), struct_pb2.Struct()
    one.update({"a": 1, "b": 2})
    other.update({"b": 2, "a": 1})
    assert ProtobufSerializer(struct_pb2.Struct)(one) == ProtobufSerializer(struct_pb2.Struct)(other)


def test_another_message_than_the_serializers_is_refused() -> None:
    with pytest.raises(SerializationError, match="a Struct is needed, not Timestamp"):
        ProtobufSerializer(struct_pb2.Struct)(timestamp_pb2.Timestamp())  # type: ignore[arg-type]  # that is the test


def test_msgpack_keeps_bytes_text_and_times_apart() -> None:
    value = {1: b"x", "t": datetime.datetime(2013, 1, 1, 5, tzinfo=datetime.UTC), "l": [None, 1.5, "é"]}
    assert MsgpackDeserializer()(MsgpackSerializer()(value)) == value
    assert MsgpackSerializer()({"a": 1}) == b"\x81\xa1a\x01"


@pytest.mark.parametrize(("make", "module"), [(MsgpackSerializer, "msgpack"), (lambda: AvroSerializer("int"), "avro")])
def test_a_missing_library_names_its_extra(make: Any, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(ConfigError, match=rf"pip install barnabas\[{module}\]"):
        make()
