"""Which parts of a log's files a read would have to wait for, because the system's cache lacks them.

Who reads the end of a log never asks: that was written a moment ago. For the rest the file is asked, which costs some
microseconds for a megabyte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.unified_log import UnifiedLog

#: So much at the end of a log is taken to be in the cache.
_TAIL = 1 << 20
#: So much behind what was asked for is looked at to find the end of a batch.
_SLACK = 1 << 13
#: So much before the end of a segment is looked at when its indexes are read, to see whether they fit.
_END_OF_SEGMENT = 1 << 16
#: More is not brought in for one read, even where a client asks for more.
_MOST = 8 << 20


class ColdRange(NamedTuple):
    """A part of a file, in bytes."""

    path: str
    size: int
    position: int


def cold_ranges(log: UnifiedLog, offset: int, max_bytes: int) -> list[ColdRange]:
    """Return what a read from `offset` on would wait for; nothing where all is in the cache, or nothing is there.

    Where the indexes are to be read it is those: only they tell where the records are. Raises `OSError`.
    """
    local = log.local_log
    segment = local.segments.floor(offset)
    if segment is None or not log.log_start_offset <= offset < local.log_end_offset:
        return []
    records = segment.records
    if segment is local.segments.active and records.size <= _TAIL:
        return []
    indexes = cold_index_ranges(segment)
    if indexes:
        return indexes
    position = segment.position_before(offset)
    left = records.size - position
    if left <= 0 or (segment is local.segments.active and left <= _TAIL):
        return []
    size = min(max_bytes + _SLACK, left, _MOST)
    return [] if records.file.is_cached(size, position) else [ColdRange(records.path, size, position)]


def cold_index_ranges(segment: LogSegment) -> list[ColdRange]:
    """Return what reading a segment's indexes would wait for: they, and the records with which they are compared.

    Raises `OSError`.
    """
    indexes = segment.cold_indexes()
    if not indexes:
        return []
    records = segment.records
    size = min(_END_OF_SEGMENT, records.size)
    return [ColdRange(path, size, 0) for path, size in indexes] + [ColdRange(records.path, size, records.size - size)]


def cold_search_ranges(segment: LogSegment, timestamp: int, starting_offset: int) -> list[ColdRange]:
    """Return what `LogSegment.find_offset_by_timestamp` would wait for, up to a megabyte. Raises `OSError`."""
    records = segment.records
    position = segment.search_position(timestamp, starting_offset)
    size = min(_TAIL, records.size - position)
    if size <= 0 or records.file.is_cached(size, position):
        return []
    return [ColdRange(records.path, size, position)]
