"""Protobuf values: with a registry's descriptors by name, without them by the numbers of their fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    from google.protobuf.message import Message as ProtobufMessage

#: What the package brings itself, dependencies first.
_WELL_KNOWN = (
    "any", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "wrappers", "type", "api",
)  # fmt: skip


def check_installed() -> None:
    """Raise `ImportError` that says what to install, where protobuf is missing."""
    try:
        import google.protobuf  # noqa: F401 - whether it is there
    except ImportError:
        raise ImportError("Protobuf needs the package protobuf: pip install 'barnabas[protobuf]'") from None


def fields_by_number(data: bytes) -> dict[str, list[Any]]:
    """Return a message's fields by number, as the bytes tell them without a schema."""
    check_installed()
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = _parsed(Empty(), data)
    fields: dict[str, list[Any]] = {}
    for field in cast("Any", UnknownFieldSet(message)):
        value = field.data
        if isinstance(value, bytes):
            value = value.decode("utf-8", "backslashreplace")
        elif not isinstance(value, int | float):
            value = "a group"
        fields.setdefault(str(field.field_number), []).append(value)
    return fields


def reader_of(files: Iterable[bytes]) -> Callable[[bytes], Any]:
    """Return what reads the bytes behind a schema's id: the message's place in the last file, and the message.

    `files` are serialized FileDescriptorProtos, dependencies first. Raises `IllegalArgumentError` where they do not
    fit together.
    """
    check_installed()
    from google.protobuf import descriptor_pool, json_format, message_factory

    file = _last_of(descriptor_pool.DescriptorPool(), files)

    def read(data: bytes) -> Any:
        place, start = _message_indexes(data)
        found, siblings = None, list(file.message_types_by_name.values())
        for index in place:
            if not 0 <= index < len(siblings):
                raise IllegalArgumentError(f"the schema has no message at {place}")
            found = siblings[index]
            siblings = list(found.nested_types)
        message = message_factory.GetMessageClass(cast("Any", found))()
        return json_format.MessageToDict(_parsed(message, data[start:]), preserving_proto_field_name=True)

    return read


def _last_of(pool: Any, files: Iterable[bytes]) -> Any:
    import importlib

    from google.protobuf import descriptor_pb2

    for name in _WELL_KNOWN:
        pool.AddSerializedFile(importlib.import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.serialized_pb)
    name = ""
    try:
        for data in files:
            pool.AddSerializedFile(data)
            name = descriptor_pb2.FileDescriptorProto.FromString(data).name
        return pool.FindFileByName(name)
    except Exception as problem:  # noqa: BLE001 - each implementation of protobuf has errors of its own
        raise IllegalArgumentError(f"the schema's descriptors do not fit together: {problem}") from None


def _parsed(message: ProtobufMessage, data: bytes) -> ProtobufMessage:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise IllegalArgumentError(f"this is no Protobuf message: {problem}") from None
    return message


def _message_indexes(data: bytes) -> tuple[list[int], int]:
    """Read Confluent's message indexes: zigzag varints, first how many there are; none stands for the first message."""
    count, at = _zigzag(data, 0)
    if count == 0:
        return [0], at
    if not 0 < count <= len(data):
        raise IllegalArgumentError("these bytes do not begin with the place of a message")
    place = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        place.append(index)
    return place, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise IllegalArgumentError("these bytes do not begin with the place of a message")
