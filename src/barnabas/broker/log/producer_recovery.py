"""Bringing what a log knows of its producers to what its batches say (UnifiedLog.rebuildProducerState)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.cold_range import cold_index_ranges
from barnabas.broker.log.disk_steps import brought_in, cold_part, next_piece
from barnabas.broker.log.file_records import FIND_CHUNK, BatchScan
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.errors import CorruptRecordError

if TYPE_CHECKING:
    from barnabas.broker.log.disk_steps import Steps
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.log_segments import LogSegments
    from barnabas.broker.log.producer_state_manager import ProducerStateManager

_logger = lazy_logger(__name__)

#: A hundred bytes for each of ten thousand producers.
_MOST_OF_SNAPSHOT = 1 << 20


def rebuild_producer_state(
    producers: ProducerStateManager,
    segments: LogSegments,
    start: int,
    end: int,
    now_ms: int,
    filesystem: FileSystem,
) -> Steps[None]:
    """Bring the producers' state to what the log up to `end` says: the last snapshot, and the batches after it.

    What a damaged segment says is lost, and logged. Meanwhile nothing counts as decided that was not read yet.
    """
    producers.is_rebuilding = True
    try:
        for problem in producers.truncate_and_reload(start, end, now_ms):
            _logger().warning("%s; reading the log instead", problem)
        for segment in segments.values(producers.map_end_offset, end) if producers.map_end_offset < end else []:
            try:
                yield from _replay_segment(producers, segment, end, filesystem)
            except CorruptRecordError as error:
                _logger().error("%s; what it says of producers is lost", error)
        producers.map_end_offset = end
    finally:
        producers.is_rebuilding = False


def _replay_segment(
    producers: ProducerStateManager, segment: LogSegment, end: int, filesystem: FileSystem
) -> Steps[None]:
    offset = max(segment.base_offset, producers.map_end_offset)
    yield from brought_in(filesystem, cold_index_ranges(segment))
    yield from brought_in(filesystem, cold_part(segment.records, FIND_CHUNK, segment.position_before(offset)))
    position = segment.locate(offset)
    if position < 0:
        return
    scan = BatchScan(segment.records, position, check=False)
    while not scan.is_over:
        yield from next_piece(filesystem, scan)
        for header, chunk in scan.next_batches():
            if header.base_offset >= end:
                return
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
