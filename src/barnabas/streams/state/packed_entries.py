"""Keys and values packed one after the other, as `sorted_entries` keeps them; `packed_entries.pxd` holds the C side.

An entry is the sizes of key and value, 4 bytes each in the machine's order, then the two; a value of None, which is a
deletion, has the size 0xFFFFFFFF and no bytes. `order` has two numbers for each entry: one of the sorting's own, and
where the entry stands.
"""

from __future__ import annotations

from struct import Struct

_SIZES = Struct("=II")
_NONE = 0xFFFFFFFF


def put_entry(data: bytearray, at: int, key: bytes, value: bytes | None) -> int:
    """Write an entry, for which there is room, and return where it ends."""
    _SIZES.pack_into(data, at, len(key), _NONE if value is None else len(value))
    parts = key + (value or b"")
    data[at + 8 : at + 8 + len(parts)] = parts
    return at + 8 + len(parts)


def fetch(data: bytearray, at: int) -> None:
    """Have the processor bring an entry near, which is asked for soon; sorted ones lie anywhere in memory."""


def key_at(data: bytearray, at: int) -> bytes:
    """Return the key of an entry."""
    return bytes(data[at + 8 : at + 8 + _SIZES.unpack_from(data, at)[0]])


def value_at(data: bytearray, at: int) -> bytes | None:
    """Return the value of an entry."""
    key_size, size = _SIZES.unpack_from(data, at)
    return None if size == _NONE else bytes(data[at + 8 + key_size : at + 8 + key_size + size])


def is_same_key(data: bytearray, first: int, second: int) -> bool:
    """Whether two entries have one key."""
    return key_at(data, first) == key_at(data, second)


def sort_entries(data: bytearray, order: memoryview, spare: memoryview, count: int) -> None:
    """Sort the places of entries by key, those of one key as they stand. `spare` is as large as `order`."""
    places = sorted((order[2 * number + 1] for number in range(count)), key=lambda at: key_at(data, at))
    for number, at in enumerate(places):
        order[2 * number + 1] = at
