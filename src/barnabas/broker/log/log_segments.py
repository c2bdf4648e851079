"""The segments of one log by base offset (LogSegments)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator

from barnabas.broker.log.log_segment import LogSegment

MAX_OPEN_INACTIVE_SEGMENTS = 8


class LogSegments:
    """An ordered collection that is never empty once its log is loaded; the last segment is the active one."""

    __slots__ = ("_base_offsets", "_by_base_offset", "_recently_used")

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._by_base_offset: dict[int, LogSegment] = {}
        self._recently_used: dict[int, LogSegment] = {}

    def __len__(self) -> int:
        return len(self._base_offsets)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter([self._by_base_offset[base] for base in self._base_offsets])

    def __contains__(self, base_offset: object) -> bool:
        return base_offset in self._by_base_offset

    @property
    def base_offsets(self) -> list[int]:
        """All base offsets in order; not to be changed."""
        return self._base_offsets

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._by_base_offset[self._base_offsets[0]]

    @property
    def active(self) -> LogSegment:
        """The segment that is written to."""
        return self._by_base_offset[self._base_offsets[-1]]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(segment.size for segment in self._by_base_offset.values())

    def add(self, segment: LogSegment) -> None:
        """Add a segment in its place."""
        if segment.base_offset not in self._by_base_offset:
            insort(self._base_offsets, segment.base_offset)
        self._by_base_offset[segment.base_offset] = segment

    def remove(self, segment: LogSegment) -> None:
        """Take a segment out."""
        del self._by_base_offset[segment.base_offset]
        self._base_offsets.remove(segment.base_offset)
        self._recently_used.pop(segment.base_offset, None)

    def floor(self, offset: int) -> LogSegment | None:
        """Return the segment in which the offset would lie; None for an offset before the first."""
        at = bisect_right(self._base_offsets, offset)
        return self._by_base_offset[self._base_offsets[at - 1]] if at else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """Return the segment after the one with this base offset."""
        at = bisect_right(self._base_offsets, base_offset)
        return self._by_base_offset[self._base_offsets[at]] if at < len(self._base_offsets) else None

    def values(self, start: int, end: int) -> list[LogSegment]:
        """Return the segments with offsets in [start, end), the one included in which `start` would lie."""
        first = max(bisect_right(self._base_offsets, start) - 1, 0)
        last = bisect_left(self._base_offsets, end)
        return [self._by_base_offset[base] for base in self._base_offsets[first:last]]

    def used_as_active(self, segment: LogSegment) -> None:
        """Note that a segment is written to again: it keeps its files and memory."""
        self._recently_used.pop(segment.base_offset, None)

    def used(self, segment: LogSegment) -> None:
        """Note that an inactive segment was read; the one not read for longest gives its files and memory back."""
        recently = self._recently_used
        recently.pop(segment.base_offset, None)
        recently[segment.base_offset] = segment
        if len(recently) > MAX_OPEN_INACTIVE_SEGMENTS:
            oldest = next(iter(recently))
            recently.pop(oldest).release()
