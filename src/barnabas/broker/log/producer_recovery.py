"""Bringing what a log knows of its producers to what its batches say (UnifiedLog.rebuildProducerState)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Generator

    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.log_segments import LogSegments
    from barnabas.broker.log.producer_state_manager import ProducerStateManager

_logger = lazy_logger(__name__)

#: A hundred bytes for each of ten thousand producers.
_MOST_OF_SNAPSHOT = 1 << 20


def rebuild_producer_state(
    producers: ProducerStateManager, segments: LogSegments, start: int, end: int, now_ms: int
) -> Generator[int, None, None]:
    """Bring the producers' state to what the log up to `end` says: the last snapshot, and the batches after it.

    Every step gives how many bytes it will look at. What a damaged segment says is lost, and logged.
    """
    for problem in producers.truncate_and_reload(start, end, now_ms):
        _logger().warning("%s; reading the log instead", problem)
    for segment in segments.values(producers.map_end_offset, end) if producers.map_end_offset < end else []:
        try:
            yield from _replay_segment(producers, segment, end)
        except CorruptRecordError as error:
            _logger().error("%s; what it says of producers is lost", error)
    producers.map_end_offset = end


def _replay_segment(producers: ProducerStateManager, segment: LogSegment, end: int) -> Generator[int, None, None]:
    position = segment.locate(max(segment.base_offset, producers.map_end_offset))
    for header, chunk in segment.records.batches(position, check=False) if position >= 0 else ():
        if header.base_offset >= end:
            break
        if header.position == 0:
            yield len(chunk)
        producers.replay(chunk, header)


def replayed_ranges(producers: ProducerStateManager, segments: LogSegments, end: int) -> list[tuple[str, int]]:
    """Return the files (path, bytes from the start) that a truncation to `end` looks at."""
    found = []
    start = end
    if producers.producers or producers.unreplicated_txns:
        snapshots = [offset for offset in producers.snapshots if offset <= end]
        start = snapshots[-1] if snapshots else 0
        found += [(producers.snapshot_path(offset), _MOST_OF_SNAPSHOT) for offset in snapshots[-1:]]
    for segment in segments.values(start, end + 1):
        found += segment.cold_indexes()
        found.append((segment.records.path, segment.size))
    return found
