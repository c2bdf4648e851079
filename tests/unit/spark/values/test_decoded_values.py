"""Avro and Protobuf values as Arrow, and what becomes of bytes that are none; no Spark is needed."""

from __future__ import annotations

import datetime
import io
import json
import pickle
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("fastavro")
pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")

import fastavro
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from barnabas.errors import IllegalArgumentError
from barnabas.spark.values.avro import AvroDecoder
from barnabas.spark.values.decoding import decoded_array
from barnabas.spark.values.protobuf import ProtobufDecoder, without_message_indexes
from barnabas.spark.values.schema_registry import SchemaRegistryError, SchemasById, unframed

FLIGHT = {
    "type": "record", "name": "Flight", "namespace": "air",
    "fields": [
        {"name": "carrier", "type": {"type": "enum", "name": "Carrier", "symbols": ["UA", "AA"]}},
        {"name": "delay", "type": ["null", "int"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "tail", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "legs", "type": {"type": "array", "items": {"type": "map", "values": ["int", "long"]}}},
        {"name": "next", "type": ["null", "Carrier"]},
    ],
}  # fmt: skip
VALUE = {
    "carrier": "UA", "delay": 7, "at": datetime.datetime(2013, 1, 1, 5, 17, tzinfo=datetime.UTC),
    "day": datetime.date(2013, 1, 1), "fare": Decimal("12.50"), "tail": "N14228", "legs": [{"a": 1}], "next": None,
}  # fmt: skip


def avro(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def test_an_avro_record_becomes_a_struct_of_sparks_types() -> None:
    plain = json.loads(json.dumps(FLIGHT).replace(', "logicalType": "uuid"', ""))
    decoder = pickle.loads(pickle.dumps(AvroDecoder(json.dumps(FLIGHT), None)))

    found = decoded_array(pa.array([avro(plain, VALUE), None]), decoder, decoder.arrow_type(), framed=False)

    assert found.to_pylist() == [
        {"value": {**VALUE, "legs": [[("a", 1)]]}, "error": None}, {"value": None, "error": None}
    ]  # fmt: skip
    assert decoder.arrow_type().field("legs").type == pa.list_(pa.map_(pa.string(), pa.int64()))


def test_a_value_is_resolved_from_its_writers_schema_and_an_unknown_id_is_the_records_error() -> None:
    old = {"type": "record", "name": "Flight", "fields": [{"name": "delay", "type": "int"}]}
    new = {
        "type": "record", "name": "Flight",
        "fields": [{"name": "delay", "type": "double"}, {"name": "carrier", "type": "string", "default": "?"}],
    }  # fmt: skip
    decoder = AvroDecoder(json.dumps(new), {7: json.dumps(old)}.__getitem__)
    values = [b"\0\0\0\0\x07" + avro(old, {"delay": 3}), b"\0\0\0\0\x08" + avro(old, {"delay": 3}), b'{"delay": 3}']

    good, unknown, unframed_value = decoded_array(
        pa.array(values), decoder, decoder.arrow_type(), framed=True
    ).to_pylist()

    assert good == {"value": {"delay": 3.0, "carrier": "?"}, "error": None}
    assert unknown == {"value": None, "error": "KeyError: 8"}
    assert unframed_value["error"].startswith("ValueError: no frame of the Schema Registry")


def test_bytes_that_are_no_avro_and_numbers_that_do_not_fit_are_errors_of_their_rows_only() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    decoder = AvroDecoder(json.dumps(schema), None)
    wide = avro({**schema, "fields": [{"name": "n", "type": "long"}]}, {"n": 1 << 40})

    found = decoded_array(
        pa.array([b"", avro(schema, {"n": 1}), wide]), decoder, decoder.arrow_type(), framed=False
    ).to_pylist()

    assert [row["value"] for row in found] == [None, {"n": 1}, None]
    assert [row["error"] is None for row in found] == [False, True, False]


def test_a_registry_that_fails_is_no_fault_of_the_record() -> None:
    decoder = AvroDecoder('"int"', SchemasById("http://user:secret@127.0.0.1:1", timeout=1))

    with pytest.raises(SchemaRegistryError, match="could not be asked") as raised:
        decoded_array(pa.array([b"\0\0\0\0\x01\x02"]), decoder, pa.int32(), framed=True)

    assert "secret" not in str(raised.value)
    assert "secret" not in repr(SchemasById("http://user:secret@127.0.0.1:1"))


def test_a_schema_that_refers_to_others_is_refused_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = SchemasById("http://localhost:1")
    answer = {"schema": '"Carrier"', "references": [{"name": "Carrier", "subject": "carrier", "version": 1}]}
    monkeypatch.setattr(schemas, "_get", lambda path: answer)

    for asked in (lambda: schemas(7), lambda: schemas.latest("flights")):
        with pytest.raises(SchemaRegistryError, match=r"refers to other schemas \(Carrier\)"):
            asked()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ('["string", "int"]', "has the union"),
        ('{"type":"record","name":"L","fields":[{"name":"next","type":["null","L"]}]}', "inside itself"),
    ],
)
def test_avro_schemas_that_no_column_can_hold_are_refused_with_the_place(schema: str, message: str) -> None:
    with pytest.raises(IllegalArgumentError, match=message):
        AvroDecoder(schema, None).arrow_type()


def descriptor_set() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="flight.proto", package="air", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    flight = file.message_type.add(name="Flight")
    entry = flight.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=9, label=1)
    flight.field.add(name="carrier", number=1, type=9, label=1)
    flight.field.add(name="delay", number=2, type=5, label=1, proto3_optional=True, oneof_index=0)
    flight.oneof_decl.add(name="_delay")
    flight.field.add(name="at", number=3, type=11, label=1, type_name=".google.protobuf.Timestamp")
    flight.field.add(name="stops", number=4, type=5, label=3)
    flight.field.add(name="notes", number=5, type=11, label=3, type_name=".air.Flight.NotesEntry")
    flight.field.add(name="seen", number=6, type=4, label=1)
    flight.field.add(name="raw", number=7, type=12, label=1)
    flight.field.add(name="status", number=8, type=14, label=1, type_name=".air.Status")
    status = file.enum_type.add(name="Status")
    status.value.add(name="UNKNOWN", number=0)
    status.value.add(name="LANDED", number=1)
    stamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(stamp)
    return descriptor_pb2.FileDescriptorSet(file=[stamp, file]).SerializeToString()


def flight_class() -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("air.Flight"))


def test_a_protobuf_message_becomes_a_struct_with_absent_fields_null_and_others_at_their_defaults() -> None:
    decoder = pickle.loads(pickle.dumps(ProtobufDecoder(descriptor_set(), "air.Flight")))
    flight = flight_class()(
        carrier="UA", delay=0, stops=[1, 2], notes={"a": "b"}, seen=(1 << 64) - 1, raw=b"\0", status=1
    )
    flight.at.FromMilliseconds(1_370_000_000_123)
    values = pa.array([flight.SerializeToString(), b"", b"\xff"])

    full, empty, bad = decoded_array(values, decoder, decoder.arrow_type(), framed=False).to_pylist()

    assert full["value"] == {
        "carrier": "UA", "delay": 0, "at": datetime.datetime(2013, 5, 31, 11, 33, 20, 123000, tzinfo=datetime.UTC),
        "stops": [1, 2], "notes": [("a", "b")], "seen": Decimal((1 << 64) - 1), "raw": b"\0", "status": "LANDED",
    }  # fmt: skip
    assert empty["value"] == {
        "carrier": "", "delay": None, "at": None, "stops": [], "notes": [], "seen": Decimal(0), "raw": b"",
        "status": "UNKNOWN",
    }  # fmt: skip
    assert bad["value"] is None
    assert "DecodeError" in bad["error"]


@pytest.mark.parametrize(
    ("indexes", "rest"), [(b"\0", b"x"), (b"\x02\x02", b"x"), (b"\x04\x02\x00", b""), (b"\x02\x80\x01", b"xyz")]
)
def test_message_indexes_are_passed_over(indexes: bytes, rest: bytes) -> None:
    assert without_message_indexes(indexes + rest) == rest


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\x80"])
def test_message_indexes_that_are_cut_off_or_negative_are_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="message indexes"):
        without_message_indexes(data)


def test_a_frame_is_a_zero_and_an_id() -> None:
    assert unframed(b"\0\0\0\1\2v") == (258, b"v")
    with pytest.raises(ValueError, match=r"it begins with \[7b 7d\]"):
        unframed(b"{}")
