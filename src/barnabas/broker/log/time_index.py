"""The time index: the largest timestamp up to an offset (TimeIndex).

An entry is twelve bytes: a timestamp in epoch milliseconds (64 bits) and an offset relative to the segment's base
offset (32 bits), big-endian. It says that every record with a larger timestamp lies behind that offset.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from barnabas.broker.log.abstract_index import AbstractIndex
from barnabas.broker.log.filesystem import FileSystem
from barnabas.broker.log.offset_index import MAX_RELATIVE_OFFSET, UINT32
from barnabas.records.batch_header import NO_TIMESTAMP

_ENTRY = Struct(">qI")


class TimestampOffset(NamedTuple):
    """A timestamp in epoch milliseconds and the last offset of the batch that brought it."""

    timestamp: int
    offset: int


class TimeIndex(AbstractIndex):
    """Finds the offset from which to search for a timestamp."""

    __slots__ = ("_offsets", "_timestamps")

    ENTRY_SIZE = 12

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, max_index_size: int) -> None:
        super().__init__(filesystem, path, base_offset, max_index_size)
        self._timestamps = array("q")
        self._offsets = array(UINT32)

    @property
    def entries(self) -> int:
        """How many entries the index holds."""
        return len(self._timestamps)

    @property
    def is_full(self) -> bool:
        """Whether no further entry fits in `segment.index.bytes`; one slot is kept for the entry made on rolling."""
        return len(self._timestamps) >= self.max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; no timestamp at the base offset when there is none."""
        return self.entry(len(self._timestamps) - 1)

    def entry(self, slot: int) -> TimestampOffset:
        """Return the entry in a slot; no timestamp at the base offset for slot -1."""
        if slot < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(self._timestamps[slot], self.base_offset + self._offsets[slot])

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Add an entry if its timestamp is larger than that of the last; offsets must not fall."""
        if self._timestamps and timestamp <= self._timestamps[-1]:
            return
        last = self.last_entry
        if timestamp <= last.timestamp:
            return
        if self._offsets and offset < last.offset:
            raise self.corrupt(f"offset {offset} lies before {last.offset}")
        if not 0 <= offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise self.corrupt(f"offset {offset} is too far from the base offset {self.base_offset}")
        self._timestamps.append(timestamp)
        self._offsets.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry with a timestamp not above the one given."""
        return self.entry(bisect_right(self._timestamps, timestamp) - 1)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond the offset."""
        self.truncate_entries(bisect_left(self._offsets, offset - self.base_offset) if offset > self.base_offset else 0)

    def _encode(self, first: int, end: int) -> bytes:
        pack = _ENTRY.pack
        return b"".join(map(pack, self._timestamps[first:end], self._offsets[first:end]))

    def _decode(self, data: bytes) -> None:
        entries = list(_ENTRY.iter_unpack(data))
        self._timestamps = array("q", [timestamp for timestamp, _ in entries])
        self._offsets = array(UINT32, [offset for _, offset in entries])
        if any(one >= other for one, other in pairwise(self._timestamps)):
            raise self.corrupt("its timestamps do not grow")
        if any(one > other for one, other in pairwise(self._offsets)):
            raise self.corrupt("its offsets fall")

    def _cut(self, entries: int) -> None:
        del self._timestamps[entries:]
        del self._offsets[entries:]
