# cython: language_level=3, annotation_typing=False
"""Keys and values of the store that left and outer joins of streams share: records that found no partner yet."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

from barnabas.errors import SerializationError
from barnabas.streams.serdes.reader import Reader, sized
from barnabas.streams.serdes.serde import Headers, Serde, set_if_unset

_PREFIX = Struct(">q?")
_INT = Struct(">i")


class TimestampedKeyAndJoinSide(NamedTuple):
    """A key, its record's timestamp in milliseconds, and whether it came from the left side."""

    key: Any
    timestamp: int
    left_side: bool


class LeftOrRightValue(NamedTuple):
    """A value of the left side or of the right one; the other is None."""

    left_value: Any
    right_value: Any


class TimestampedKeyAndJoinSideSerde(Serde[TimestampedKeyAndJoinSide]):
    """Timestamp (8 bytes), side (1 for the left one), key: so entries are sorted by time."""

    immutable = True

    def __init__(self, key_serde: Serde[Any] | None = None) -> None:
        self.inner: Any = key_serde

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of keys where none was given."""
        self.inner = set_if_unset(key_serde if self.inner is None else self.inner, key_serde, value_serde)

    def serialize(self, topic: str, value: TimestampedKeyAndJoinSide | None, headers: Headers) -> bytes | None:
        """Write time, side and key."""
        if value is None:
            return None
        key: bytes = self.inner.serialize(topic, value.key, headers)
        return _PREFIX.pack(value.timestamp, value.left_side) + key

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> TimestampedKeyAndJoinSide | None:
        """Read time, side and key."""
        if data is None:
            return None
        timestamp, left_side = _PREFIX.unpack_from(data)
        return TimestampedKeyAndJoinSide(self.inner.deserialize(topic, data[9:], headers), timestamp, left_side)


class LeftOrRightValueSerde(Serde[LeftOrRightValue]):
    """Side (1 for the left one), then the value."""

    def __init__(self, left: Serde[Any] | None = None, right: Serde[Any] | None = None) -> None:
        self.left: Any = left
        self.right: Any = right

    def set_if_unset(self, key_serde: Any, value_serde: Any) -> None:
        """Take the default serde of values where none was given."""
        self.left = set_if_unset(value_serde if self.left is None else self.left, key_serde, value_serde)
        self.right = set_if_unset(value_serde if self.right is None else self.right, key_serde, value_serde)

    def serialize(self, topic: str, value: LeftOrRightValue | None, headers: Headers) -> bytes | None:
        """Write side and value."""
        if value is None:
            return None
        left = value.left_value is not None
        data: bytes | None = (
            self.left.serialize(topic, value.left_value, headers)
            if left
            else self.right.serialize(topic, value.right_value, headers)
        )
        return None if data is None else (b"\x01" if left else b"\x00") + data

    def deserialize(self, topic: str, data: bytes | None, headers: Headers) -> LeftOrRightValue | None:
        """Read side and value."""
        if not data:
            return None
        if data[0] == 1:
            return LeftOrRightValue(self.left.deserialize(topic, data[1:], headers), None)
        return LeftOrRightValue(None, self.right.deserialize(topic, data[1:], headers))


def list_to_bytes(values: list[bytes]) -> bytes:
    """Write a list as Kafka's ListSerde does for entries of any size: strategy 1, number, sized entries."""
    return b"".join((b"\x01", _INT.pack(len(values)), *(sized(value) for value in values)))


def list_from_bytes(data: bytes) -> list[bytes]:
    """Read it. Raises `SerializationError` for another strategy."""
    if data[:1] != b"\x01":
        raise SerializationError(f"A list of values has the strategy {data[:1]!r}, not 1")
    reader = Reader(data, 1)
    return [reader.sized() or b"" for _ in range(reader.int())]
