"""Serializers for Avro, Protobuf and msgpack where both sides know the schema; each needs the extra of its name.

With a schema registry the serializers of `confluent_kafka.schema_registry` serve as they are
(docs/guide/serializers.md).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.errors import ConfigError, SerializationError

if TYPE_CHECKING:
    from types import ModuleType

    from google.protobuf.message import Message

    M = TypeVar("M", bound=Message)
else:
    M = TypeVar("M")


def _needed(module: str, extra: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise ConfigError(f"this serializer needs {module}: pip install barnabas[{extra}]") from None


class _Avro:
    def __init__(self, schema: str | Mapping[str, Any] | list[Any]) -> None:
        self._fastavro = _needed("fastavro", "avro")
        try:
            parsed = json.loads(schema) if isinstance(schema, str) and schema.strip()[:1] in ("{", "[") else schema
            self._schema = self._fastavro.parse_schema(parsed)
        except Exception as error:
            raise ConfigError(f"the Avro schema cannot be read: {type(error).__name__}: {error}") from error


class AvroSerializer(_Avro):
    """Avro's binary encoding of one schema (JSON text or what it stands for), with nothing in front.

    Raises `ConfigError` for a schema that is none.
    """

    def __call__(self, data: Any) -> bytes:
        """Write the value, which must be what the schema says and no more."""
        out = io.BytesIO()
        self._fastavro.schemaless_writer(out, self._schema, data, strict=True)
        return out.getvalue()


class AvroDeserializer(_Avro):
    """Back from `AvroSerializer`; `reader_schema` is what the program wants to see, by Avro's rules of resolution."""

    def __init__(
        self,
        schema: str | Mapping[str, Any] | list[Any],
        reader_schema: str | Mapping[str, Any] | list[Any] | None = None,
    ) -> None:
        super().__init__(schema)
        self._reader_schema = None if reader_schema is None else _Avro(reader_schema)._schema

    def __call__(self, data: bytes) -> Any:
        """Read the value; bytes behind it mean that it was written with another schema."""
        source = io.BytesIO(data)
        value = self._fastavro.schemaless_reader(source, self._schema, self._reader_schema)
        rest = len(data) - source.tell()
        if rest:
            raise SerializationError(f"{rest} bytes are left behind the Avro value: it has another schema")
        return value


class ProtobufSerializer(Generic[M]):
    """The message's bytes, with nothing in front; equal messages give equal bytes, as keys need."""

    def __init__(self, message_type: type[M]) -> None:
        self._type = message_type

    def __call__(self, data: M) -> bytes:
        """Write the message."""
        if not isinstance(data, self._type):
            raise SerializationError(f"a {self._type.__name__} is needed, not {type(data).__name__}")
        return data.SerializeToString(deterministic=True)


class ProtobufDeserializer(Generic[M]):
    """Back from `ProtobufSerializer`."""

    def __init__(self, message_type: type[M]) -> None:
        self._type = message_type

    def __call__(self, data: bytes) -> M:
        """Read the message."""
        return self._type.FromString(data)


class MsgpackSerializer:
    """msgpack; datetimes with a time zone become its timestamps."""

    def __init__(self) -> None:
        self._msgpack = _needed("msgpack", "msgpack")

    def __call__(self, data: Any) -> bytes:
        """Write the value."""
        packed: bytes = self._msgpack.packb(data, datetime=True)
        return packed


class MsgpackDeserializer:
    """Back from `MsgpackSerializer`; timestamps become datetimes in UTC."""

    def __init__(self) -> None:
        self._msgpack = _needed("msgpack", "msgpack")

    def __call__(self, data: bytes) -> Any:
        """Read the value."""
        return self._msgpack.unpackb(data, timestamp=3, strict_map_key=False)
