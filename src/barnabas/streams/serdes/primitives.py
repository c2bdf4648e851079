# cython: language_level=3, annotation_typing=False
"""Serdes of texts, numbers, bytes and bools, with Kafka's bytes."""

from __future__ import annotations

import struct
from typing import TypeVar

from barnabas.errors import SerializationError
from barnabas.streams.serdes.serde import Headers, Serde, as_bytes

T = TypeVar("T")


class BytesSerde(Serde[bytes]):
    """Bytes as they are."""

    immutable = True

    def __init__(self) -> None:
        super().__init__(None, None)

    def serialize(self, topic: str, value: bytes | None, headers: Headers) -> bytes | None:
        """Return the bytes. Raises TypeError for what is not bytes-like."""
        return as_bytes(value)

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
