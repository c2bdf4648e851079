"""The short way into a log for what most requests bring: one sound batch that needs no change but its offsets.

Everything that `UnifiedLog.append` checks is checked here too, but only to tell whether all is plain. What is not is
left to `append`, untouched: it decides, and it has the errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.log_segment import AppendedBatch
from barnabas.broker.log.producer_append_info import NO_OFFSET, BatchMetadata
from barnabas.errors import CorruptRecordError, InvalidRecordError
from barnabas.protocol.producer_identity import MAX_SEQUENCE, NO_PRODUCER_ID
from barnabas.records.batch_header import (
    CHECKSUM_START,
    CURRENT_MAGIC,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    OFFSET_LENGTH_AND_EPOCH,
)
from barnabas.records.checksum import crc32c
from barnabas.records.cursor import check_records

if TYPE_CHECKING:
    from barnabas.broker.log.producer_append_info import ProducerStateEntry
    from barnabas.broker.log.unified_log import UnifiedLog

_NOT_PLAIN = -1


def append_plain(log: UnifiedLog, data: memoryview, now_ms: int, leader_epoch: int) -> int:
    """Append one client's batch, written when this returns; its first offset, or -1 if `UnifiedLog.append` has to.

    With -1 nothing has happened. A batch is plain if

    - it has magic 2, and is neither compressed, nor transactional, nor a control batch;
    - it has no producer id, or continues the sequence of a known producer;
    - the log stores batches as they are sent (no codec of its own, no LogAppendTime, no compaction) and is not to be
      flushed after so many messages;
    - its buffer can be written to, for the offsets are put in place.
    """
    size = len(data)
    config = log.config
    if size < HEADER_SIZE or data.readonly or log.troubles or not config.takes_as_sent or size > config.largest_batch:
        return _NOT_PLAIN
    (
        base_offset, length, sent_epoch, magic, crc, attributes, delta, base_timestamp, max_timestamp,
        producer_id, epoch, sequence, count,
    ) = HEADER.unpack_from(data)  # fmt: skip
    if (
        base_offset
        or attributes
        or magic != CURRENT_MAGIC
        or length != size - LOG_OVERHEAD
        or count != delta + 1
        or count <= 0
    ):
        return _NOT_PLAIN
    producer = None
    if producer_id != NO_PRODUCER_ID:
        producer = log.producer_state.producers.get(producer_id)
        if producer is None or not _continues(producer, epoch, sequence, delta):
            return _NOT_PLAIN
    if not _is_sound(
        data,
        crc,
        count,
        delta,
        base_timestamp,
        max_timestamp,
        now_ms - config.message_timestamp_before_max_ms,
        now_ms + config.message_timestamp_after_max_ms,
    ):
        return _NOT_PLAIN
    first_offset = log.local_log.log_end_offset
    last_offset = first_offset + delta
    OFFSET_LENGTH_AND_EPOCH.pack_into(data, 0, first_offset, length, leader_epoch)
    if log.leader_epochs.latest_epoch != leader_epoch or not _write(
        log, data, first_offset, AppendedBatch(size, last_offset, max_timestamp), now_ms
    ):
        # As it came: `append` looks at it next.
        OFFSET_LENGTH_AND_EPOCH.pack_into(data, 0, base_offset, length, sent_epoch)
        return _NOT_PLAIN
    state = log.producer_state
    if producer is not None:
        producer.add_batch(epoch, BatchMetadata(sequence + delta, last_offset, delta, max_timestamp))
    state.map_end_offset = last_offset + 1
    return first_offset


def _continues(producer: ProducerStateEntry, epoch: int, sequence: int, delta: int) -> bool:
    """Whether a producer outside of transactions goes on where it was."""
    return (
        epoch == producer.producer_epoch
        and producer.current_txn_first_offset == NO_OFFSET
        and bool(producer.batches)
        and sequence == producer.batches[-1].last_sequence + 1
        and sequence + delta <= MAX_SEQUENCE
    )


def _is_sound(
    data: memoryview,
    crc: int,
    count: int,
    delta: int,
    base_timestamp: int,
    max_timestamp: int,
    earliest: int,
    latest: int,
) -> bool:
    """Whether checksum, records and timestamps are as they must be."""
    if crc32c(data[CHECKSUM_START:]) != crc:
        return False
    try:
        lowest, highest, _ = check_records(data[HEADER_SIZE:], count, delta)
    except (CorruptRecordError, InvalidRecordError):
        return False
    return base_timestamp + highest == max_timestamp <= latest and base_timestamp + lowest >= earliest


def _write(log: UnifiedLog, buffer: memoryview, first_offset: int, batch: AppendedBatch, now_ms: int) -> bool:
    """Write to the active segment; False if a new one is due, or the disk fails: `append` meets that too."""
    local = log.local_log
    segment = local.segments.active
    try:
        if segment.should_roll(log.config, batch.size, batch.max_timestamp, batch.last_offset, now_ms):
            return False
    except OSError:
        return False
    try:
        local.append(buffer, first_offset, [batch])
    except OSError as error:
        log.undo_append(segment, error)
        return False
    return True
