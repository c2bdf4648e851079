"""The batches of a producer before those that a log remembers of it, read back from the log.

A snapshot holds the last batch of each producer, as Kafka's do; but up to five may be in flight. Across a restart the
older of them would come again as out of order, and an idempotent producer would then send under a new epoch what is
there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.log.producer_append_info import NUM_BATCHES_TO_RETAIN, BatchMetadata
from barnabas.errors import CorruptRecordError

if TYPE_CHECKING:
    from barnabas.broker.log.log_segment import LogSegment
    from barnabas.broker.log.log_segments import LogSegments
    from barnabas.broker.log.producer_append_info import ProducerStateEntry

#: How far back to look, in bytes: what was in flight at the same time lies close together.
LOOK_BACK: Final = 4 << 20


def earlier_batches(segments: LogSegments, entry: ProducerStateEntry) -> list[BatchMetadata]:
    """Those of the entry's epoch, the oldest first, as many as it has room for; `OSError`."""
    end = entry.batches[0].first_offset
    room = NUM_BATCHES_TO_RETAIN - len(entry.batches)
    left = LOOK_BACK
    found: list[BatchMetadata] = []
    for segment in reversed(segments.values(0, end)):
        if left <= 0 or len(found) >= room:
            break
        if segment is not segments.active:
            segments.used(segment)
        try:
            known = segment.locate(end)
            limit = segment.size if known < 0 else known
            start = segment.offset_index.last_before(max(0, limit - left)).position
            found = _batches_of(entry, segment, start, end) + found
        except CorruptRecordError:
            # A fetch that reads it gets the error; here it only means that there is nothing more to be known.
            break
        left -= limit - start
    return found[-room:]


def _batches_of(entry: ProducerStateEntry, segment: LogSegment, position: int, end: int) -> list[BatchMetadata]:
    found = []
    for header, _ in segment.records.batches(position, check=False):
        if header.base_offset >= end:
            break
        is_its_own = header.producer_id == entry.producer_id and header.producer_epoch == entry.producer_epoch
        if is_its_own and not header.is_control:
            found.append(
                BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
            )
    return found
