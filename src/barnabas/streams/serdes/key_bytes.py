"""What compiled stores ask of C about bytes: numbers behind keys, and places in lists of keys.

In Python for the uncompiled form; `key_bytes.pxd` holds the C side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Any

_LONG = Struct(">q")
_INT = Struct(">i")


def with_numbers(data: bytes, number: int, other: int, size: int) -> bytes:
    """Return bytes, then a number in 8 bytes, then another in `size`, both signed and big-endian."""
    return data + _LONG.pack(number) + other.to_bytes(size, "big", signed=True)


def long_before(number: int, data: bytes) -> bytes:
    """Return bytes behind a number in 8 bytes, big-endian."""
    return _LONG.pack(number) + data


def joined(first: bytes, second: bytes, third: bytes) -> bytes:
    """Return three bytes one after the other; the caller has checked that they are bytes."""
    return first + second + third


def bytes_between(data: bytes, at: int, end: int) -> bytes:
    """Return the bytes from one position to another, neither of them behind the last one; none when there are none."""
    return data[at:end] if at < end else b""


def text_bytes(text: str) -> bytes:
    """Return a text in UTF-8, with "?" for what has no place there."""
    return text.encode("utf-8", "replace")


def long_at(data: bytes, at: int) -> int:
    """Return the number in the 8 bytes from `at` on; the caller has checked that they are there."""
    number: int = _LONG.unpack_from(data, at)[0]
    return number


def int_at(data: bytes, at: int) -> int:
    """Return the number in the 4 bytes from `at` on; the caller has checked that they are there."""
    number: int = _INT.unpack_from(data, at)[0]
    return number


def word_at(data: bytes, at: int, size: int) -> int:
    """Return the number in the `size` bytes from `at` on, little-endian; the caller has checked that they are there."""
    return int.from_bytes(data[at : at + size], "little")


def as_signed(number: int) -> int:
    """Return the number with a sign whose 64 bits a number without one has."""
    return number - (1 << 64) if number >> 63 else number


def int_bytes(number: int) -> bytes:
    """Return a number in 4 bytes, big-endian."""
    return _INT.pack(number)


def byte(number: int) -> bytes:
    """Return the byte of a number from 0 to 255."""
    return bytes((number,))


def has_prefix(data: bytes, prefix: bytes) -> bool:
    """Tell whether bytes begin with others."""
    return data.startswith(prefix)


def place(keys: list[bytes], key: bytes, after: bool, low: int, high: int) -> int:
    """Return where a key belongs among sorted keys: before those that are equal to it, or after them.

    The compiled form looks from `low` to `high` first, for callers that know about where. Raises TypeError when a key
    is not bytes.
    """
    return (bisect_right if after else bisect_left)(keys, key)


def named_pair(kind: Any, first: Any, second: Any) -> Any:
    """Return a named tuple of two fields; its own constructor costs an interpreter's call."""
    return tuple.__new__(kind, (first, second))


def named_tuple(kind: Any, fields: tuple[Any, ...]) -> Any:
    """Return a named tuple of all fields of its kind, of which there is at least one."""
    return tuple.__new__(kind, fields)


def field(fields: Any, at: int) -> Any:
    """Return a field of a named tuple."""
    return fields[at]
