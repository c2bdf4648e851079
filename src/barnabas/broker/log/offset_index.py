"""The offset index: which batch of a segment lies where (OffsetIndex).

An entry is eight bytes: the last offset of a batch relative to the segment's base offset, and the position at which
that batch begins, both as unsigned 32-bit big-endian numbers.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from typing import NamedTuple

from barnabas.broker.log.abstract_index import AbstractIndex
from barnabas.broker.log.filesystem import FileSystem

UINT32 = next(code for code in "IL" if array(code).itemsize == 4)
MAX_RELATIVE_OFFSET = 0x7FFFFFFF
_SWAP = sys.byteorder == "little"


class OffsetPosition(NamedTuple):
    """An offset and the file position of its batch."""

    offset: int
    position: int


class OffsetIndex(AbstractIndex):
    """Finds the batch at or before an offset."""

    __slots__ = ("_offsets", "_positions")

    ENTRY_SIZE = 8

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, max_index_size: int) -> None:
        super().__init__(filesystem, path, base_offset, max_index_size)
        self._offsets = array(UINT32)
        self._positions = array(UINT32)

    @property
    def entries(self) -> int:
        """How many entries the index holds."""
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further entry fits in `segment.index.bytes`."""
        return len(self._offsets) >= self.max_entries

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry; the segment's start when there is none."""
        return self.entry(len(self._offsets) - 1)

    def entry(self, slot: int) -> OffsetPosition:
        """Return the entry in a slot; the segment's start for slot -1."""
        if slot < 0:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + self._offsets[slot], self._positions[slot])

    def can_append(self, offset: int) -> bool:
        """Whether the offset can be told relative to the base offset."""
        return 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def append(self, offset: int, position: int) -> None:
        """Add an entry; offsets must grow."""
        relative = offset - self.base_offset
        if self._offsets and relative <= self._offsets[-1]:
            raise self.corrupt(f"offset {offset} does not follow {self.last_entry.offset}")
        if not self.can_append(offset):
            raise self.corrupt(f"offset {offset} is too far from the base offset {self.base_offset}")
        assert not self._positions or position > self._positions[-1], (
            f"position {position} lies before the last entry's"
        )
        self._offsets.append(relative)
        self._positions.append(position)

    def slot_for(self, offset: int) -> int:
        """Return the slot of the last entry at or before the offset, -1 when there is none."""
        return bisect_right(self._offsets, offset - self.base_offset) - 1 if offset >= self.base_offset else -1

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or before the offset; the segment's start when there is none."""
        return self.entry(self.slot_for(offset))

    def last_before(self, position: int) -> OffsetPosition:
        """Return the last entry whose batch begins before a file position; the segment's start when there is none."""
        return self.entry(bisect_right(self._positions, position - 1) - 1 if position > 0 else -1)

    def first_from(self, position: int) -> OffsetPosition | None:
        """Return the first entry whose batch begins at a file position or after it."""
        slot = bisect_right(self._positions, position - 1) if position > 0 else 0
        return self.entry(slot) if slot < len(self._positions) else None

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond the offset."""
        self.truncate_entries(
            bisect_right(self._offsets, offset - self.base_offset - 1) if offset > self.base_offset else 0
        )

    def _encode(self, first: int, end: int) -> bytes:
        data = array(UINT32, bytes((end - first) * 8))
        data[0::2] = self._offsets[first:end]
        data[1::2] = self._positions[first:end]
        if _SWAP:
            data.byteswap()
        return data.tobytes()

    def _decode(self, data: bytes) -> None:
        values = array(UINT32, data)
        if _SWAP:
            values.byteswap()
        self._offsets = values[0::2]
        self._positions = values[1::2]
        if any(one >= other for one, other in pairwise(self._offsets)):
            raise self.corrupt("its offsets do not grow")
        if any(one >= other for one, other in pairwise(self._positions)):
            raise self.corrupt("its positions do not grow")

    def _cut(self, entries: int) -> None:
        del self._offsets[entries:]
        del self._positions[entries:]
