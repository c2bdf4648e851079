"""What a broker checks in the records of a batch that a producer sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError
from barnabas.records.batch_header import LOG_APPEND_TIME, BatchHeader
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE
from barnabas.records.cursor import check_records
from barnabas.records.fetched_batches import open_batch
from barnabas.records.native import int64_sum
from barnabas.records.record_batch import read_batches

if TYPE_CHECKING:
    from barnabas.records.types import Buffer


class RecordTimestamps(NamedTuple):
    """The timestamps of a batch's records, in epoch milliseconds.

    `offset_delta_of_max` is that of the first record with the highest.
    """

    min_timestamp: int
    max_timestamp: int
    offset_delta_of_max: int


def validate_records(
    buffer: Buffer,
    header: BatchHeader,
    *,
    need_keys: bool = False,
    max_size: int = MAX_DECOMPRESSED_SIZE,
) -> RecordTimestamps:
    """Check the records of one batch of magic 2 as Kafka's LogValidator does, and return their timestamps.

    All must be well-formed, their number that of the header, their offset deltas 0, 1, 2 ..., with nothing behind them;
    with `need_keys` (compacted topics) each must have a key. The checksum is `check_crc`'s business. Raises
    `CorruptRecordError` (`DecompressionError` for damaged or too large compressed data), and `InvalidRecordError` for
    records that break a rule.
    """
    if header.magic != 2:
        raise CorruptRecordError(f"batch at offset {header.base_offset} has magic {header.magic}; producers send 2")
    _header, payload = open_batch(buffer, header, max_size)
    lowest, highest, index = check_records(payload, header.record_count, header.last_offset_delta, need_keys)
    if header.timestamp_type == LOG_APPEND_TIME:
        return RecordTimestamps(header.max_timestamp, header.max_timestamp, 0)
    lowest, highest = header.base_timestamp + lowest, header.base_timestamp + highest
    if (lowest, highest) != (int64_sum(lowest, 0), int64_sum(highest, 0)):
        return _wrapped_timestamps(buffer, header, max_size)
    return RecordTimestamps(lowest, highest, index)


def _wrapped_timestamps(buffer: Buffer, header: BatchHeader, max_size: int) -> RecordTimestamps:
    """Return the timestamps where a difference does not fit 64 bits: the order of differences is not theirs."""
    end = header.position + header.size_in_bytes
    [batch] = read_batches(memoryview(buffer)[header.position : end], max_batch_size=max_size)
    timestamps = [record.timestamp for record in batch]
    highest = max(timestamps)
    return RecordTimestamps(min(timestamps), highest, timestamps.index(highest))
