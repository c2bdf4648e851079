"""Protobuf: what a message type is in Arrow, and messages as values of it.

Needs protobuf, from the extra `protobuf`. Presence: https://protobuf.dev/programming-guides/field_presence/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.errors import IllegalArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufDecoder:
    """Reads messages of one type, found by its full name in a set of descriptors; picklable."""

    def __init__(self, descriptor_set: bytes, message: str) -> None:
        """`descriptor_set` is a serialized FileDescriptorSet, as of `protoc --descriptor_set_out --include_imports`."""
        self._descriptor_set = descriptor_set
        self._message = message
        self._class: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_class": None}

    def __call__(self, schema_id: int | None, data: bytes) -> Any:
        """Return the message as a dict; raises protobuf's DecodeError.

        The id is of no use: fields carry their numbers.
        """
        return _value_of(self._message_class().FromString(data))

    def arrow_type(self) -> pa.DataType:
        """Return the type of the values; raises IllegalArgumentError for recursive messages and unknown names."""
        return _struct(self._message_class().DESCRIPTOR, ())

    def _message_class(self) -> Any:
        if self._class is None:
            try:
                from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
            except ImportError:
                raise ImportError("Protobuf needs the package protobuf: pip install 'barnabas[protobuf]'") from None
            pool = descriptor_pool.DescriptorPool()
            for file in descriptor_pb2.FileDescriptorSet.FromString(self._descriptor_set).file:
                pool.Add(file)
            try:
                found = pool.FindMessageTypeByName(self._message)
            except KeyError:
                raise IllegalArgumentError(
                    f"the descriptor set has no message {self._message!r}: give its full name, with the package"
                ) from None
            self._class = message_factory.GetMessageClass(found)
        return self._class


def without_message_indexes(data: bytes) -> bytes:
    """Return what follows the message indexes that Schema Registry's framing has before a Protobuf message.

    A count and so many indexes, each a zigzag varint; a single 0 stands for [0]. The type is known by its name here.
    Raises ValueError where they are cut off.
    """
    position, left = 0, 1
    is_count = True
    while left:
        number, shift = 0, 0
        while True:
            if position >= len(data):
                raise ValueError("the message indexes are cut off")
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        left -= 1
        if is_count:
            left, is_count = (number >> 1) ^ -(number & 1), False
            if left < 0:
                raise ValueError(f"{left} message indexes")
    return data[position:]


def _struct(descriptor: Any, inside: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if descriptor.full_name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if descriptor.full_name in inside:
        raise IllegalArgumentError(
            f"the message {descriptor.full_name} holds itself ({' > '.join(inside)}): Spark has no recursive types"
        )
    return pa.struct([(field.name, _field_type(field, (*inside, descriptor.full_name))) for field in descriptor.fields])


def _field_type(field: Any, inside: tuple[str, ...]) -> pa.DataType:
    import pyarrow as pa

    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_field_type(key, inside), _field_type(value, inside))
    single = _struct(field.message_type, inside) if field.message_type is not None else _scalar(field)
    return pa.list_(single) if field.is_repeated else single


def _scalar(field: Any) -> pa.DataType:
    import pyarrow as pa

    types = {
        field.CPPTYPE_INT32: pa.int32(),
        field.CPPTYPE_INT64: pa.int64(),
        field.CPPTYPE_UINT32: pa.int64(),
        field.CPPTYPE_UINT64: pa.decimal128(20, 0),
        field.CPPTYPE_DOUBLE: pa.float64(),
        field.CPPTYPE_FLOAT: pa.float32(),
        field.CPPTYPE_BOOL: pa.bool_(),
        field.CPPTYPE_ENUM: pa.string(),
        field.CPPTYPE_STRING: pa.binary() if field.type == field.TYPE_BYTES else pa.string(),
    }
    return types[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _value_of(message: Any) -> Any:
    import datetime

    if message.DESCRIPTOR.full_name == TIMESTAMP:
        return message.ToDatetime(tzinfo=datetime.UTC)
    return {field.name: _field_value(message, field) for field in message.DESCRIPTOR.fields}


def _field_value(message: Any, field: Any) -> Any:
    """Null where a field that knows of its presence is absent; else its value or default."""
    if not field.is_repeated and field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if _is_map(field):
        of_value = field.message_type.fields_by_name["value"]
        return [(key, _single(value[key], of_value)) for key in value]
    return [_single(each, field) for each in value] if field.is_repeated else _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _value_of(value)
    if field.cpp_type == field.CPPTYPE_ENUM:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    if field.cpp_type == field.CPPTYPE_UINT64:
        from decimal import Decimal

        return Decimal(value)
    return value
