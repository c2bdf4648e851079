# cython: language_level=3, annotation_typing=False, boundscheck=False, wraparound=False, cdivision=True
"""Entries that are gathered, and then come out in the order of their keys, each key with its last value.

A database that is filled in the order of its keys is filled fastest, and objects that are made in that order are near
each other, where sorted ones lie anywhere in memory: that was most of what writing them took. C types are in
`sorted_entries.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

if not cython.compiled:
    from barnabas.records.native import bytearray_address, int64_address, new_bytearray
    from barnabas.streams.state.packed_entries import fetch, is_same_key, key_at, put_entry, sort_entries, value_at

#: What an entry takes beside the bytes of key and value: its sizes, and its place in the order, with a spare one.
_SIZES = 8
_PLACES = 32

#: How many entries before its turn an entry is fetched into the processor's cache.
_AHEAD = cython.declare(cython.Py_ssize_t, 12)

_FIRST_SIZE = 1 << 16
_FIRST_PLACES = 1 << 10


@cython.final
@cython.cclass
class SortedEntries:
    """Gathers entries up to a number and size that grow as they are needed; `sort`, then `take` until nothing comes."""

    def __init__(self) -> None:
        self._count = self._most = self._used = self._size = self._taken = 0
        self._data_array = bytearray()
        self._order_array = bytearray()
        self._data = bytearray_address(self._data_array)
        self._order = int64_address(self._order_array)
        #: The keys without a value among those that were taken.
        self.deleted: list[bytes] = []

    @property
    def memory(self) -> int:
        """The bytes that it takes, once sorted."""
        return self._size + _PLACES * self._most

    def add(self, key: bytes, value: bytes | None) -> bool:
        """Gather an entry, None for a deletion; False when it must `grow` before."""
        size = _SIZES + len(key)
        if value is not None:
            if type(value) is not bytes:
                value = bytes(value)  # a user's serializer may return what only has its bytes
            size += len(value)
        if self._count == self._most or size > self._size - self._used:
            return False
        self._order[2 * self._count + 1] = self._used
        self._used = put_entry(self._data, self._used, key, value)
        self._count += 1
        return True

    def growth(self, size: int) -> int:
        """Return the bytes that `grow` would take."""
        longer, more = self._next(size)
        return longer - self._size + _PLACES * (more - self._most)

    def grow(self, size: int) -> None:
        """Have room for another entry of so many bytes, and for twice as much as there was of what was too small."""
        self.grow_to(*self._next(size))

    def _next(self, size: int) -> tuple[int, int]:
        fits = size + _SIZES <= self._size - self._used
        return (
            self._size if fits else max(2 * self._size, _FIRST_SIZE, self._used + size + _SIZES),
            self._most if self._count < self._most else max(2 * self._most, _FIRST_PLACES),
        )

    def grow_to(self, size: int, most: int) -> None:
        """Have room for so many bytes and entries in all."""
        if size > self._size:
            self._data_array = _grown(self._data_array, size, self._used)
            self._data = bytearray_address(self._data_array)
            self._size = size
        if most > self._most:
            self._order_array = _grown(self._order_array, 16 * most, 16 * self._count)
            self._order = int64_address(self._order_array)
            self._most = most

    def sort(self) -> None:
        """Put the entries into order; nothing is added until all are taken."""
        spare_array = new_bytearray(16 * self._count)
        sort_entries(self._data, self._order, int64_address(spare_array), self._count)

    def take(self, most: int, every: bool = False) -> list[tuple[bytes, bytes]]:
        """Return the next entries, of at most so many that were added; those that are deleted go to `deleted`.

        Of each key comes the last, or `every` one as they were added. An empty list alone says nothing: `is_empty`
        tells whether there are more.
        """
        rows: list[tuple[bytes, bytes]] = []
        last = min(self._taken + most, self._count)
        while self._taken < last:
            if self._taken + _AHEAD < self._count:
                fetch(self._data, self._order[2 * (self._taken + _AHEAD) + 1])
            at = self._order[2 * self._taken + 1]
            self._taken += 1
            if (
                not every
                and self._taken < self._count
                and is_same_key(self._data, at, self._order[2 * self._taken + 1])
            ):
                continue
            value = value_at(self._data, at)
            if value is None:
                self.deleted.append(key_at(self._data, at))
            else:
                rows.append((key_at(self._data, at), value))
        if self._taken == self._count:
            self._taken = self._count = self._used = 0
        return rows

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added that was not taken."""
        return self._count == 0


def _grown(array: bytearray, size: int, used: int) -> bytearray:
    larger = new_bytearray(size)
    larger[:used] = memoryview(array)[:used]
    return larger
