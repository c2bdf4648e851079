"""Serializers and deserializers: between a program's values and the bytes in a record.

A serializer is any callable `value -> bytes | None`, or an object with Kafka's
`serialize(topic, value, headers) -> bytes | None`; a deserializer likewise with `deserialize(topic, data, headers)`.
Headers are a list of pairs of `str` and bytes or None; what a serializer appends to it is sent with the record.
A class is instantiated. Those here are both, carry Kafka's names and write Kafka's bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from barnabas.config.loading import load_attribute
from barnabas.errors import ConfigError, SerializationError

Serializer = Callable[[Any], bytes | None]

T = TypeVar("T")
T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)


class KafkaSerializer(Protocol[T_in]):
    """An object with the method of Kafka's interface Serializer."""

    def serialize(self, topic: str, value: T_in, headers: Any) -> bytes | None:
        """Return the bytes of a key or value."""


class KafkaDeserializer(Protocol[T_out]):
    """An object with the method of Kafka's interface Deserializer."""

    def deserialize(self, topic: str, data: bytes, headers: Any) -> T_out:
        """Return the key or value that the bytes stand for."""


#: What key.serializer and its like may be: a function, a class that is called with the value (`str`, `int`), an object
#: with Kafka's method, a class of either, or a name.
SerializerSetting = (
    Callable[[T], bytes | None]
    | KafkaSerializer[T]
    | type[KafkaSerializer[T]]
    | type[Callable[[T], bytes | None]]
    | type[str]
    | str
    | None
)
DeserializerSetting = (
    Callable[[bytes], T] | KafkaDeserializer[T] | type[KafkaDeserializer[T]] | type[Callable[[bytes], T]] | str | None
)


def given_serializers(**settings: Any) -> dict[str, Any]:
    """Those that are not None."""
    return {name: setting for name, setting in settings.items() if setting is not None}


def as_bytes(data: Any, what: str) -> bytes:
    """Bytes of anything bytes-like, where no serializer is set; `what` is "key" or "value".

    Raises `SerializationError` naming the setting that is missing.
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise SerializationError(
        f"The {what} is of type {type(data).__name__}, and without {what}_serializer only bytes and None can be sent. "
        f"Set {what}_serializer when making the producer, for instance {what}_serializer={_suggestion(data)}"
    )


def _suggestion(data: Any) -> str:
    if isinstance(data, str):
        return "str.encode"
    return f'"{_BY_TYPE.get(type(data).__name__, "JSONSerializer")}"'


_BY_TYPE = {"int": "LongSerializer", "float": "DoubleSerializer", "UUID": "UUIDSerializer"}


def apply_serializer(serializer: Any, topic: str, data: Any, headers: Any, what: str) -> bytes | None:
    """Run a resolved serializer; what it raises or returns wrongly becomes a `SerializationError`."""
    try:
        serialize = getattr(serializer, "serialize", None)
        if serialize is not None:
            out = serialize(topic, data, headers)
        elif data is None:
            return None
        else:
            out = serializer(data)
    except SerializationError:
        raise
    except Exception as problem:
        raise SerializationError(
            f"{what}_serializer {_name_of(serializer)} could not turn the {what} of a record for topic {topic!r}, of "
            f"type {type(data).__name__}, into bytes: {problem}"
        ) from problem
    if out is None or type(out) is bytes:
        return out
    if isinstance(out, bytearray | memoryview):
        return bytes(out)
    raise SerializationError(
        f"{what}_serializer {_name_of(serializer)} returned {type(out).__name__}, it must return bytes or None"
    )


def _name_of(thing: Any) -> str:
    if isinstance(thing, _WithContext):
        return repr(thing)
    return getattr(thing, "__qualname__", None) or type(thing).__qualname__


def resolve_serializer(setting: Any, name: str) -> Any:
    """Return the serializer or deserializer that a setting means, or None for none.

    `setting` is a callable, an object with Kafka's method, a class of either, or a name: one of this module's, Kafka's
    Java class name, or `package.module:name`. Raises `ConfigError` naming the setting `name`.
    """
    if setting is None or setting == "":
        return None
    if isinstance(setting, str):
        setting = _by_name(setting, name)
    if isinstance(setting, type):
        if setting in (bytes, bytearray):
            return None
        if setting is str:
            return StringSerializer()
        setting = setting()
    if isinstance(setting, BytesSerializer):
        return None
    if _is_confluents(setting):
        return _WithContext(setting, name.partition(".")[0])
    if callable(setting) or hasattr(setting, "serialize") or hasattr(setting, "deserialize"):
        return setting
    raise ConfigError(f"{name} is a callable, a serializer object or a class of one, not {type(setting).__name__}")


def _by_name(path: str, name: str) -> Any:
    short = path.rpartition(".")[2]
    if ":" not in path:
        known = _NAMES.get(short)
        if known is None:
            raise ConfigError(f"{name}={path!r} is not known; there are {', '.join(sorted(_NAMES))}, or 'module:name'")
        return known
    return load_attribute(path, name)


def _is_confluents(setting: Any) -> bool:
    """Whether it is one of confluent-kafka's, which also want to know the topic and whether it is a key or a value."""
    return any(
        base.__module__ == "confluent_kafka.serialization" and base.__name__ in ("Serializer", "Deserializer")
        for base in type(setting).__mro__
    )


class _WithContext:
    """A serializer or deserializer of confluent-kafka, such as those for a schema registry, in the place of ours."""

    def __init__(self, inner: Any, field: str) -> None:
        from confluent_kafka.serialization import MessageField, SerializationContext

        self._inner = inner
        self._field = MessageField(field)
        self._context = SerializationContext

    def serialize(self, topic: str, data: Any, headers: Any) -> bytes | None:
        """See `KafkaSerializer`."""
        serialized: bytes | None = self._inner(data, self._context(topic, self._field, headers))
        return serialized

    def deserialize(self, topic: str, data: bytes, headers: Any) -> Any:
        """See `KafkaDeserializer`."""
        return self._inner(data, self._context(topic, self._field, headers))

    def __repr__(self) -> str:
        return f"{type(self._inner).__qualname__}({self._field})"


class BytesSerializer:
    """Bytes as they are."""

    def __call__(self, data: Any) -> bytes:
        """Return bytes of anything bytes-like."""
        return as_bytes(data, "value")


class StringSerializer:
    """A str in UTF-8, or another `encoding`."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def __call__(self, data: str) -> bytes:
        """Encode the str."""
        if not isinstance(data, str):
            raise SerializationError(f"StringSerializer takes a str, not {type(data).__name__}: {data!r}")
        return data.encode(self.encoding)


class StringDeserializer:
    """Back from `StringSerializer`."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def __call__(self, data: bytes) -> str:
        """Decode the str."""
        return bytes(data).decode(self.encoding)


class _Packed:
    """A number in big-endian binary, as Java's serializers write it."""

    FORMAT = ""

    def __init__(self) -> None:
        self._struct = struct.Struct(self.FORMAT)


class _PackedSerializer(_Packed, Generic[T]):
    def __call__(self, data: T) -> bytes:
        """Pack the number."""
        try:
            return self._struct.pack(data)
        except struct.error as problem:
            raise SerializationError(f"{type(self).__name__} cannot write {data!r}: {problem}") from problem


class _PackedDeserializer(_Packed, Generic[T]):
    def __call__(self, data: bytes) -> T:
        """Unpack the number."""
        if len(data) != self._struct.size:
            raise SerializationError(f"{type(self).__name__} reads {self._struct.size} bytes, not {len(data)}")
        number: T = self._struct.unpack(data)[0]
        return number


class ShortSerializer(_PackedSerializer[int]):
    """An int in 2 bytes, big-endian."""

    FORMAT = ">h"


class ShortDeserializer(_PackedDeserializer[int]):
    """Back from `ShortSerializer`."""

    FORMAT = ">h"


class IntegerSerializer(_PackedSerializer[int]):
    """An int in 4 bytes, big-endian."""

    FORMAT = ">i"


class IntegerDeserializer(_PackedDeserializer[int]):
    """Back from `IntegerSerializer`."""

    FORMAT = ">i"


class LongSerializer(_PackedSerializer[int]):
    """An int in 8 bytes, big-endian."""

    FORMAT = ">q"


class LongDeserializer(_PackedDeserializer[int]):
    """Back from `LongSerializer`."""

    FORMAT = ">q"


class FloatSerializer(_PackedSerializer[float]):
    """A float in 4 bytes, big-endian."""

    FORMAT = ">f"


class FloatDeserializer(_PackedDeserializer[float]):
    """Back from `FloatSerializer`."""

    FORMAT = ">f"


class DoubleSerializer(_PackedSerializer[float]):
    """A float in 8 bytes, big-endian."""

    FORMAT = ">d"


class DoubleDeserializer(_PackedDeserializer[float]):
    """Back from `DoubleSerializer`."""

    FORMAT = ">d"


class UUIDSerializer:
    """A uuid.UUID as its text, as Java's UUIDSerializer writes it."""

    def __call__(self, data: Any) -> bytes:
        """Write the uuid's text."""
        return str(data).encode()


class UUIDDeserializer:
    """Back from `UUIDSerializer`."""

    def __call__(self, data: bytes) -> Any:
        """Read the uuid's text."""
        import uuid

        return uuid.UUID(bytes(data).decode())


class JSONSerializer:
    """Anything json can write, compact, in UTF-8."""

    def __call__(self, data: Any) -> bytes:
        """Write the JSON text."""
        import json

        return json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()


class JSONDeserializer:
    """Back from `JSONSerializer`."""

    def __call__(self, data: bytes) -> Any:
        """Read the JSON text."""
        import json

        return json.loads(bytes(data))


_NAMES: dict[str, Any] = {
    **{
        found.__name__: found
        for found in (
            BytesSerializer,
            StringSerializer,
            ShortSerializer,
            IntegerSerializer,
            LongSerializer,
            FloatSerializer,
            DoubleSerializer,
            UUIDSerializer,
            JSONSerializer,
            StringDeserializer,
            ShortDeserializer,
            IntegerDeserializer,
            LongDeserializer,
            FloatDeserializer,
            DoubleDeserializer,
            UUIDDeserializer,
            JSONDeserializer,
        )
    },
    "ByteArraySerializer": BytesSerializer,
    "ByteArrayDeserializer": BytesSerializer,
    "BytesDeserializer": BytesSerializer,
}
