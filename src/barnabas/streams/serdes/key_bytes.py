"""What compiled stores ask of C about bytes: numbers behind keys, and places in lists of keys.

In Python for the uncompiled form; `key_bytes.pxd` holds the C side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Any

_LONG_INT = Struct(">qi")
_TWO_LONGS = Struct(">qq")
_LONG = Struct(">q")
_INT = Struct(">i")


def with_long_and_int(key: bytes, number: int, other: int) -> bytes:
    """Return bytes, then a number in 8 bytes, then one in 4, both big-endian."""
    return key + _LONG_INT.pack(number, other)


def with_two_longs(key: bytes, number: int, other: int) -> bytes:
    """Return bytes, then two numbers in 8 bytes each, big-endian."""
    return key + _TWO_LONGS.pack(number, other)


def long_at(data: bytes, at: int) -> int:
    """Return the number in the 8 bytes from `at` on; the caller has checked that they are there."""
    number: int = _LONG.unpack_from(data, at)[0]
    return number


def int_bytes(number: int) -> bytes:
    """Return a number in 4 bytes, big-endian."""
    return _INT.pack(number)


def two_bytes(first: int, second: int) -> bytes:
    """Return two bytes of numbers from 0 to 255."""
    return bytes((first, second))


def has_prefix(data: bytes, prefix: bytes) -> bool:
    """Tell whether bytes begin with others."""
    return data.startswith(prefix)


def place_before(keys: list[bytes], key: bytes) -> int:
    """Return how many of the sorted keys are less than a key. Raises TypeError when one is not bytes."""
    return bisect_left(keys, key)


def place_after(keys: list[bytes], key: bytes) -> int:
    """Return how many of the sorted keys are not greater than a key. Raises TypeError when one is not bytes."""
    return bisect_right(keys, key)


def named_pair(kind: Any, first: Any, second: Any) -> Any:
    """Return a named tuple of two fields; its own constructor costs an interpreter's call."""
    return tuple.__new__(kind, (first, second))


def named_tuple(kind: Any, fields: tuple[Any, ...]) -> Any:
    """Return a named tuple of all fields of its kind, of which there is at least one."""
    return tuple.__new__(kind, fields)


def field(fields: Any, at: int) -> Any:
    """Return a field of a named tuple; the caller has checked that there are so many."""
    return fields[at]
