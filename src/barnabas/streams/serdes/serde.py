"""Serdes: a serializer and a deserializer in one object, and those for common types under Kafka's names."""

from __future__ import annotations

import struct
from typing import Any, Generic, TypeVar

from barnabas.client.serializers import apply_serializer, resolve_serializer
from barnabas.errors import SerializationError

T = TypeVar("T")

Headers = list[tuple[str, bytes | None]]


class Serde(Generic[T]):
    """A serializer and a deserializer; each may be all that `barnabas.serializers` takes.

    Raises `ConfigError` for what is neither.
    """

    #: Whether values are immutable, so that a store may keep the value beside its bytes.
    immutable = False

    def __init__(self, serializer: Any, deserializer: Any) -> None:
        self._serializer = resolve_serializer(serializer, "serializer")
        self._deserializer = resolve_serializer(deserializer, "deserializer")

    def serialize(self, topic: str, value: T | None, headers: Headers) -> bytes | None:
        """Return the bytes of a value. Raises `SerializationError` where the serializer cannot write it."""
        if self._serializer is None:
            return _as_bytes(value)
        return apply_serializer(self._serializer, topic, value, headers, "stream's")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> T | None:
        """Return the value that bytes stand for. Raises what the deserializer raises."""
        if data is None:
            return None
        if self._deserializer is None:
            return data  # type: ignore[return-value]  # bytes as they are
        with_topic = getattr(self._deserializer, "deserialize", None)
        value: T = self._deserializer(data) if with_topic is None else with_topic(topic, data, headers)
        return value

    def __repr__(self) -> str:
        return type(self).__name__


def _as_bytes(value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a serde of bytes cannot write {type(value).__name__}: {value!r}")


class BytesSerde(Serde[bytes]):
    """Bytes as they are."""

    immutable = True

    def __init__(self) -> None:
        super().__init__(None, None)

    def serialize(self, topic: str, value: bytes | None, headers: Headers) -> bytes | None:
        """Return the bytes. Raises TypeError for what is not bytes-like."""
        return _as_bytes(value)

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> bytes | None:
        """Return the bytes."""
        return data


class StringSerde(Serde[str]):
    """Texts in UTF-8. Malformed bytes are read as U+FFFD, as Kafka's StringDeserializer does."""

    immutable = True

    def __init__(self) -> None:
        pass

    def serialize(self, topic: str, value: str | None, headers: Headers) -> bytes | None:
        """Encode a text. Raises TypeError for what is not a str."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"StringSerde cannot write {type(value).__name__}: {value!r}")
        return value.encode("utf-8", "replace")

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> str | None:
        """Decode a text."""
        return None if data is None else data.decode("utf-8", "replace")


class _NumberSerde(Serde[T]):
    immutable = True
    FORMAT = ""
    NAME = ""
    TYPES: tuple[type, ...] = (int,)

    def __init__(self) -> None:
        packed = struct.Struct(self.FORMAT)
        self._pack = packed.pack
        self._unpack = packed.unpack
        self._size = packed.size

    def serialize(self, topic: str, value: T | None, headers: Headers) -> bytes | None:
        """Pack a number. Raises TypeError for another type, `SerializationError` for one that does not fit."""
        if value is None:
            return None
        if not isinstance(value, self.TYPES):
            raise TypeError(f"{type(self).__name__} cannot write {type(value).__name__}: {value!r}")
        try:
            return self._pack(value)
        except (struct.error, OverflowError) as problem:
            raise SerializationError(f"{type(self).__name__} cannot write {value!r}: {problem}") from problem

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> T | None:
        """Unpack a number. Raises `SerializationError` for another length."""
        if data is None:
            return None
        if len(data) != self._size:
            raise SerializationError(f"Size of data received by {self.NAME}Deserializer is not {self._size}")
        number: T = self._unpack(data)[0]
        return number


class ShortSerde(_NumberSerde[int]):
    """Ints in 2 bytes, big-endian."""

    FORMAT = ">h"
    NAME = "Short"


class IntegerSerde(_NumberSerde[int]):
    """Ints in 4 bytes, big-endian."""

    FORMAT = ">i"
    NAME = "Integer"


class LongSerde(_NumberSerde[int]):
    """Ints in 8 bytes, big-endian."""

    FORMAT = ">q"
    NAME = "Long"


class FloatSerde(_NumberSerde[float]):
    """Floats in 4 bytes, big-endian."""

    FORMAT = ">f"
    NAME = "Float"
    TYPES = (float, int)


class DoubleSerde(_NumberSerde[float]):
    """Floats in 8 bytes, big-endian."""

    FORMAT = ">d"
    NAME = "Double"
    TYPES = (float, int)


class BooleanSerde(Serde[bool]):
    """True and False in one byte."""

    immutable = True

    def __init__(self) -> None:
        pass

    def serialize(self, topic: str, value: bool | None, headers: Headers) -> bytes | None:
        """Write one byte. Raises TypeError for what is not a bool."""
        if value is None:
            return None
        if not isinstance(value, bool):
            raise TypeError(f"BooleanSerde cannot write {type(value).__name__}: {value!r}")
        return b"\x01" if value else b"\x00"

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> bool | None:
        """Read one byte. Raises `SerializationError` for anything but 0 and 1."""
        if data is None:
            return None
        if data not in (b"\x00", b"\x01"):
            raise SerializationError(f"BooleanSerde reads one byte, 0 or 1, not {data!r}")
        return data == b"\x01"


class VoidSerde(Serde[None]):
    """Nothing but None."""

    immutable = True

    def __init__(self) -> None:
        pass

    def serialize(self, topic: str, value: None, headers: Headers) -> bytes | None:
        """Return None. Raises ValueError for anything else."""
        if value is not None:
            raise ValueError("Data should be null for a VoidSerializer.")
        return None

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> None:
        """Return None. Raises ValueError for anything else."""
        if data is not None:
            raise ValueError("Data should be null for a VoidDeserializer.")


class Serdes:
    """Serdes for common types; `of(serializer, deserializer)` makes one of any two."""

    @staticmethod
    def of(serializer: Any, deserializer: Any) -> Serde[Any]:
        """Return a serde of a serializer and a deserializer, as `barnabas.serializers` describes them."""
        return Serde(serializer, deserializer)

    serde_from = of

    @staticmethod
    def string() -> Serde[str]:
        """Return the serde of texts in UTF-8."""
        return StringSerde()

    @staticmethod
    def bytes() -> Serde[bytes]:
        """Return the serde of bytes as they are."""
        return BytesSerde()

    @staticmethod
    def long() -> Serde[int]:
        """Return the serde of ints in 8 bytes."""
        return LongSerde()

    @staticmethod
    def integer() -> Serde[int]:
        """Return the serde of ints in 4 bytes."""
        return IntegerSerde()

    @staticmethod
    def short() -> Serde[int]:
        """Return the serde of ints in 2 bytes."""
        return ShortSerde()

    @staticmethod
    def double() -> Serde[float]:
        """Return the serde of floats in 8 bytes."""
        return DoubleSerde()

    @staticmethod
    def float() -> Serde[Any]:
        """Return the serde of floats in 4 bytes."""
        return FloatSerde()

    @staticmethod
    def boolean() -> Serde[bool]:
        """Return the serde of bools in one byte."""
        return BooleanSerde()

    @staticmethod
    def uuid() -> Serde[Any]:
        """Return the serde of uuid.UUID as its text."""
        return Serde("UUIDSerializer", "UUIDDeserializer")

    @staticmethod
    def json() -> Serde[Any]:
        """Return the serde of what json can write."""
        return Serde("JSONSerializer", "JSONDeserializer")

    @staticmethod
    def void() -> Serde[None]:
        """Return the serde of None."""
        return VoidSerde()


def set_if_unset(serde: Any, key_serde: Any, value_serde: Any) -> Any:
    """Give a wrapping serde the default ones for what it was built without, and return it."""
    wrapping = getattr(serde, "set_if_unset", None)
    if wrapping is not None:
        wrapping(key_serde, value_serde)
    return serde
