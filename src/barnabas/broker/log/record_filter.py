"""What compaction leaves of one batch (Apache Kafka's RecordFilter and MemoryRecords.filterTo)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.offset_map import rebase_records
from barnabas.records.batch_header import (
    BEFORE_CHECKSUM,
    CHECKED_FIELDS,
    COMPRESSION_MASK,
    CURRENT_MAGIC,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
)
from barnabas.records.checksum import crc32c
from barnabas.records.compression import CODECS, compress
from barnabas.records.fetched_batches import open_batch
from barnabas.records.native import int64_sum

if TYPE_CHECKING:
    from barnabas.broker.log.cleaned_transaction_metadata import CleanedTransactionMetadata
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.offset_map import SkimpyOffsetMap
    from barnabas.broker.log.producer_append_info import ProducerStateEntry


class RecordFilter:
    """Drops the records that a later one replaces.

    Tombstones and markers that have served their time, and all that was aborted.

    `producers` are those that the log knows. The last batch of each is kept, be it empty, for its sequence numbers, and
    the last one before `end_offset`, for its offset. Offsets, sequence numbers and codecs stay as they are.
    """

    __slots__ = ("_end_offset", "_horizon", "_map", "_now_ms", "_producers", "_transactions")

    def __init__(
        self,
        offset_map: SkimpyOffsetMap,
        transactions: CleanedTransactionMetadata,
        producers: dict[int, ProducerStateEntry],
        *,
        end_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._producers = producers
        self._end_offset = end_offset
        self._now_ms = now_ms
        self._horizon = now_ms + delete_retention_ms

    def filter(self, buffer: Buffer, header: BatchHeader) -> Buffer:
        """Return the bytes to write in place of a batch; none where nothing of it is kept.

        Raises `CorruptRecordError`.
        """
        original = memoryview(buffer)[header.position : header.position + header.size_in_bytes]
        stale = self._transactions.can_discard(buffer, header)
        horizon = header.delete_horizon_ms
        if header.is_control:
            served = stale and horizon is not None and horizon <= self._now_ms
            if served or not header.record_count:
                return self._emptied(header)
            # A marker whose records are all gone waits for its delete horizon from now on.
            return self._with_horizon(buffer, header) if stale and horizon is None else original
        if stale:
            return self._emptied(header)
        opened, payload = open_batch(buffer, header)
        keep_tombstones = horizon is None or self._now_ms < horizon
        kept_map = self._map
        ranges = kept_map.filter_records(
            payload, opened.record_count, opened.last_offset_delta, opened.base_offset, keep_tombstones
        )
        if not kept_map.kept:
            return self._emptied(opened)
        needs_horizon = bool(kept_map.tombstones) and horizon is None
        if kept_map.kept == opened.record_count and not needs_horizon:
            return original
        return self._rebuilt(opened, payload, ranges, needs_horizon=needs_horizon)

    def _emptied(self, header: BatchHeader) -> bytes:
        if not self._is_last_of_producer(header) and header.next_offset != self._end_offset:
            return b""
        attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
        return _encode(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        entry = self._producers.get(header.producer_id) if header.has_producer_id else None
        if entry is None:
            return False
        if entry.batches:
            return header.last_offset == entry.last_data_offset
        # Its last entry is a marker: that holds the epoch, which fences older instances.
        return header.is_control and header.producer_epoch == entry.producer_epoch

    def _with_horizon(self, buffer: Buffer, header: BatchHeader) -> bytes:
        opened, payload = open_batch(buffer, header)
        ranges = [(0, len(payload))]
        timestamps = header.max_timestamp - self._horizon
        records = rebase_records(payload, ranges, opened.record_count, timestamps, True)
        return _encode(
            header,
            header.attributes | DELETE_HORIZON_BIT,
            self._horizon,
            header.max_timestamp,
            header.record_count,
            records,
        )

    def _rebuilt(
        self, header: BatchHeader, payload: Buffer, ranges: list[tuple[int, int]], *, needs_horizon: bool
    ) -> bytes:
        kept_map = self._map
        append_time = header.timestamp_type == LOG_APPEND_TIME
        first = header.max_timestamp if append_time else int64_sum(header.base_timestamp, kept_map.first_delta)
        highest = header.max_timestamp if append_time else int64_sum(header.base_timestamp, kept_map.highest_delta)
        attributes = header.attributes
        base = first
        if needs_horizon:
            base = self._horizon
            attributes |= DELETE_HORIZON_BIT
        elif header.delete_horizon_ms is not None:
            base = header.base_timestamp
        shift = header.max_timestamp - base if append_time else header.base_timestamp - base
        if append_time or shift:
            records = rebase_records(payload, ranges, kept_map.kept, shift, append_time)
        else:
            view = memoryview(payload)
            records = b"".join([view[start:end] for start, end in ranges])
        return _encode(header, attributes, base, highest, kept_map.kept, records)


def _encode(
    header: BatchHeader, attributes: int, base_timestamp: int, max_timestamp: int, count: int, records: bytes
) -> bytes:
    """Return the batch of magic 2 with the offsets and the producer of another, and these records in its codec."""
    payload = compress(CODECS[attributes & COMPRESSION_MASK], records) if attributes & COMPRESSION_MASK else records
    checked = CHECKED_FIELDS.pack(
        attributes, header.last_offset_delta, base_timestamp, max_timestamp,
        header.producer_id, header.producer_epoch, header.base_sequence, count,
    )  # fmt: skip
    front = BEFORE_CHECKSUM.pack(
        header.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(payload),
        header.partition_leader_epoch,
        CURRENT_MAGIC,
        crc32c(payload, crc32c(checked)),
    )
    return b"".join((front, checked, payload))
