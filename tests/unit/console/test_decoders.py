"""What bytes are shown as, by what they look like or as they were asked for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.console.decoders import FORMS, Decoders
from barnabas.console.export import csv_lines
from barnabas.console.registry import Schema
from barnabas.errors import IllegalArgumentError
from barnabas.serializers import AvroSerializer, MsgpackSerializer

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]})


def flight_file() -> bytes:
    """The descriptors of a message of Protobuf in a message, made without protoc."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="test.console", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    outer = file.message_type.add(name="Outer")
    flight = outer.nested_type.add(name="Flight")
    flight.field.add(name="carrier_code", number=1, type=9, label=1)
    flight.field.add(name="left", number=2, type=11, type_name=".google.protobuf.Timestamp", label=1)
    return bytes(file.SerializeToString())


def registry(number: int) -> Schema:
    if number == 7:
        return Schema("AVRO", SCHEMA)
    if number == 8:
        return Schema("JSON", "{}")
    if number == 9:
        return Schema("PROTOBUF", "", (flight_file(),))
    if number == 10:
        return Schema("PROTOBUF", "", (b"\xff",))
    raise IllegalArgumentError(f"the registry has no schema {number}")


def avro(n: int, number: int = 7) -> bytes:
    return b"\0" + number.to_bytes(4) + AvroSerializer(SCHEMA)({"n": n})


@pytest.mark.parametrize(
    ("data", "form", "text"),
    [
        (None, "null", None),
        (b"", "text", ""),
        (b"plain", "text", "plain"),
        ("한국어".encode(), "text", "한국어"),
        (b'{"a": 1.10, "a": 2}', "json", '{"a": 1.10, "a": 2}'),
        (b"[1]", "json", "[1]"),
        (b"{broken", "text", "{broken"),
        (b"12345678901234567890", "text", "12345678901234567890"),
        (b"\x00\x00\x00\x05", "hex", "00000005"),
        (b"\xff\xfe", "hex", "fffe"),
        (MsgpackSerializer()({"a": b"\xff"}), "msgpack", '{"a": "/w=="}'),
        (b"\x05", "hex", "05"),
    ],
)
def test_bytes_are_known_by_what_they_look_like(data: bytes | None, form: str, text: str | None) -> None:
    shown = Decoders().shown(data, "auto", 1000)

    assert (shown["form"], shown["text"], shown["problem"]) == (form, text, None)


def test_avro_is_read_with_the_schema_of_its_id() -> None:
    decoders = Decoders(registry)

    assert decoders.shown(avro(5), "auto", 100)["text"] == '{"n": 5}'
    assert decoders.decode(avro(6), "avro").document == {"n": 6}
    assert decoders.decode(b"\0\0\0\0\x08[1]", "avro").document == [1]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (avro(5, 11), "no schema 11"),
        (b"\0\0\0\0\x07", "do not begin with"),
        (b"text", "do not begin with"),
        (avro(5) + b"x", "left behind"),
    ],
)
def test_what_cannot_be_read_is_shown_as_digits_with_the_reason(data: bytes, says: str) -> None:
    shown = Decoders(registry).shown(data, "avro", 1000)

    assert (shown["form"], shown["text"]) == ("hex", data.hex())
    assert says in (shown["problem"] or "")


def test_avro_without_a_registry_says_what_is_missing() -> None:
    assert "--schema-registry" in (Decoders().shown(avro(5), "avro", 100)["problem"] or "")


def test_protobuf_is_shown_by_the_numbers_of_its_fields() -> None:
    pytest.importorskip("google.protobuf")
    from google.protobuf.wrappers_pb2 import StringValue

    shown = Decoders().shown(StringValue(value="hi").SerializeToString(), "protobuf", 100)

    assert (shown["form"], shown["text"]) == ("protobuf", '{"1": ["hi"]}')
    assert Decoders().shown(b"\xff", "protobuf", 100)["form"] == "hex"


#: Zigzag varints: two indexes, the first message and the first one in it; then carrier_code "UA" and a time.
FLIGHT = b"\x04\0\0" + b"\x0a\x02UA" + b"\x12\x02\x08\x05"


@pytest.mark.parametrize("form", ["auto", "protobuf"])
def test_protobuf_is_read_by_name_with_the_descriptors_of_its_id(form: str) -> None:
    shown = Decoders(registry).shown(b"\0" + (9).to_bytes(4) + FLIGHT, form, 1000)

    assert shown["form"] == "protobuf"
    assert json.loads(shown["text"] or "") == {"carrier_code": "UA", "left": "1970-01-01T00:00:05Z"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ((9).to_bytes(4) + b"\x04\0\x08" + b"\x0a\x02UA", "no message at"),
        ((9).to_bytes(4) + b"\x04\0", "place of a message"),
        ((9).to_bytes(4) + b"\xff\xff\xff\xff\xff\xff", "place of a message"),
        ((9).to_bytes(4) + FLIGHT[:-1], "no Protobuf message"),
        ((10).to_bytes(4) + FLIGHT, "descriptors"),
        ((11).to_bytes(4) + FLIGHT, "no schema 11"),
    ],
)
def test_protobuf_that_does_not_fit_its_schema_is_shown_as_digits(data: bytes, says: str) -> None:
    shown = Decoders(registry).shown(b"\0" + data, "protobuf", 1000)

    assert (shown["form"], shown["text"]) == ("hex", (b"\0" + data).hex())
    assert says in (shown["problem"] or "")


def test_a_long_value_is_cut_and_says_its_size() -> None:
    shown = Decoders().shown(b"x" * 100, "auto", 10)

    assert (shown["text"], shown["bytes"], shown["isCut"]) == ("x" * 10, 100, True)


def test_a_form_that_there_is_not_is_refused() -> None:
    with pytest.raises(IllegalArgumentError, match="no form 'xml'; there are auto, text"):
        Decoders().decode(b"", "xml")


@given(st.binary(max_size=60), st.sampled_from(FORMS))
def test_no_bytes_are_an_error_in_any_form(data: bytes, form: str) -> None:
    shown = Decoders(registry).shown(data, form, 1000)

    assert shown["text"] is not None
    shown["text"].encode("utf-8")


@given(st.text(max_size=20))
def test_no_cell_of_a_csv_file_is_a_formula(text: str) -> None:
    cell = csv_lines([[text]]).decode("utf-8")

    assert not cell.lstrip('"').startswith(("=", "+", "-", "@"))
