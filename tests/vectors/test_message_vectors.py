"""Every message and version against the bytes of Kafka's own classes."""

from __future__ import annotations

from typing import Any

from barnabas.protocol import json_view
from barnabas.protocol.api import message_class
from barnabas.protocol.codec import Plan, blank
from barnabas.protocol.names import camel_case
from barnabas.protocol.plan import plan_of
from codegen.schema import read_messages
from tests.vectors.message_vectors import Vector, is_known, message_vectors, vectors_of


def without_tagged_defaults(plan: Plan, obj: dict[str, Any]) -> dict[str, Any]:
    """The JSON that the bytes can tell: a tagged field at its default is not written, so it cannot be read."""
    defaults = blank(plan)
    kept = {}
    for field in plan.present:
        name = camel_case(field.name)
        if name not in obj:
            continue
        value = obj[name]
        inner = field.plan
        if inner is not None and isinstance(value, list):
            value = [without_tagged_defaults(inner, element) for element in value]
        elif inner is not None and value is not None:
            value = without_tagged_defaults(inner, value)
        default = getattr(defaults, field.name)
        if field.tag >= 0 and json_view._value_out(field, default) == value:
            continue
        kept[name] = value
    return kept


def failures(check: Any) -> list[str]:
    return [f"{vector.message} version {vector.version}" for vector in message_vectors() if not check(vector)]


def test_every_message_and_every_version_has_vectors() -> None:
    seen = {(vector.message, vector.version) for vector in message_vectors()}
    classes = [message_class(message.name) for message in read_messages()]
    missing = {
        (cls.NAME, version)
        for cls in classes
        for version in range(cls.VALID_VERSIONS[0], cls.VALID_VERSIONS[1] + 1)
        if (cls.NAME, version) not in seen
    }

    assert len(classes) == 276
    assert missing == set()


def test_of_kafka_3_9_only_versions_that_4_0_dropped_are_left_aside() -> None:
    left = {(vector.message, vector.version) for vector in vectors_of("message-vectors-3.9") if not is_known(vector)}

    assert {f"{name} {version}" for name, version in left if "Request" in name} == {
        "AlterPartitionRequest 0", "AlterPartitionRequest 1", "FetchRequest 0", "FetchRequest 1", "FetchRequest 2",
        "FetchRequest 3", "ControlledShutdownRequest 0", "ListOffsetsRequest 0", "OffsetForLeaderEpochRequest 0",
        "OffsetForLeaderEpochRequest 1", "RequestHeader 0", "WriteTxnMarkersRequest 0",
    }  # fmt: skip


def test_decoding_and_encoding_gives_the_same_bytes() -> None:
    def survives(vector: Vector) -> bool:
        message = message_class(vector.message).decode(vector.data, vector.version)
        return message.encode(vector.version) == vector.data

    assert failures(survives) == []


def test_json_becomes_the_bytes_that_kafka_writes() -> None:
    def same_bytes(vector: Vector) -> bool:
        return json_view.to_bytes(vector.message, vector.version, vector.json) == vector.data

    assert failures(same_bytes) == []


def test_bytes_become_the_json_they_were_written_from() -> None:
    def same_json(vector: Vector) -> bool:
        plan = plan_of(message_class(vector.message), vector.version)
        expected = without_tagged_defaults(plan, vector.json)
        return json_view.from_bytes(vector.message, vector.version, vector.data) == expected

    assert failures(same_json) == []


def test_equal_bytes_decode_to_equal_messages_and_repr_shows_every_field() -> None:
    def consistent(vector: Vector) -> bool:
        cls = message_class(vector.message)
        one, other = cls.decode(vector.data, vector.version), cls.decode(vector.data, vector.version)
        return one == other and all(f"{name}=" in repr(one) for name in cls.__slots__)

    assert failures(consistent) == []
