"""Record batches as objects, for tools, tests and everything that is not in a hurry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.errors import CorruptRecordError
from barnabas.records.batch_header import LOG_APPEND_TIME, BatchHeader, check_crc, read_header
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE
from barnabas.records.decoder import batch_contents
from barnabas.records.fetched_batches import open_batch
from barnabas.records.native import int64_sum

if TYPE_CHECKING:
    from barnabas.records.types import Buffer


class Record(NamedTuple):
    """One record of a batch; `timestamp` in epoch milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class RecordBatch:
    """One batch of any magic over the bytes it was read from, which it keeps alive. Iterating gives its records."""

    __slots__ = ("_buffer", "_max_size", "_opened", "header")

    def __init__(self, buffer: Buffer, header: BatchHeader, max_size: int = MAX_DECOMPRESSED_SIZE) -> None:
        self.header = header
        self._buffer = buffer
        self._max_size = max_size
        self._opened: tuple[BatchHeader, bytes | memoryview] | None = None
        if header.magic < 2:
            # The true offsets and the number of records stand only inside.
            self._opened = open_batch(buffer, header, max_size)
            self.header = self._opened[0]

    @property
    def base_offset(self) -> int:
        """The offset of the first record."""
        return self.header.base_offset

    @property
    def last_offset(self) -> int:
        """The offset of the last record, even if compaction has removed that record."""
        return self.header.last_offset

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.header.next_offset

    @property
    def record_count(self) -> int:
        """How many records the batch holds."""
        return self.header.record_count

    @property
    def size_in_bytes(self) -> int:
        """The size of the batch on disk and on the wire."""
        return self.header.size_in_bytes

    @property
    def magic(self) -> int:
        """The version of the format: 0, 1 or 2."""
        return self.header.magic

    @property
    def crc(self) -> int:
        """The checksum as stored; `check()` verifies it."""
        return self.header.crc

    @property
    def producer_id(self) -> int:
        """The id of the idempotent producer, -1 for none."""
        return self.header.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch of the idempotent producer, -1 for none."""
        return self.header.producer_epoch

    @property
    def base_sequence(self) -> int:
        """The sequence number of the first record, -1 for none."""
        return self.header.base_sequence

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, -1 for none."""
        return self.header.last_sequence

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record instead of data."""
        return self.header.is_control

    @property
    def partition_leader_epoch(self) -> int:
        """The epoch of the leader that appended the batch, -1 if unknown."""
        return self.header.partition_leader_epoch

    @property
    def timestamp_type(self) -> int:
        """0 for CreateTime, 1 for LogAppendTime, -1 for messages of magic 0, which have no timestamp."""
        return self.header.timestamp_type

    @property
    def compression(self) -> str:
        """The name of the codec: none, gzip, snappy, lz4 or zstd."""
        return self.header.compression

    @property
    def base_timestamp(self) -> int:
        """The timestamp that those of the records count from; with a delete horizon, that horizon."""
        return self.header.base_timestamp

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp; with LogAppendTime the timestamp of all records."""
        return self.header.max_timestamp

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop tombstones and markers; None where that is not set."""
        return self.header.delete_horizon_ms

    def check(self) -> None:
        """Verify the checksum. Raises `CorruptRecordError`."""
        check_crc(self._buffer, self.header)

    def __iter__(self) -> Iterator[Record]:
        header, payload = self._opened or open_batch(self._buffer, self.header, self._max_size)
        try:
            contents = batch_contents(payload, header.record_count, header.last_offset_delta)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"batch at offset {header.base_offset}: {error}") from None
        append_time = header.max_timestamp if header.timestamp_type == LOG_APPEND_TIME else None
        for offset_delta, timestamp_delta, key, value, headers in contents:
            timestamp = int64_sum(header.base_timestamp, timestamp_delta) if append_time is None else append_time
            yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)

    def __repr__(self) -> str:
        return (
            f"RecordBatch(offsets={self.base_offset}..{self.last_offset}, records={self.record_count}, "
            f"bytes={self.size_in_bytes}, magic={self.magic}, compression={self.compression}, "
            f"producer_id={self.producer_id}{', transactional' * self.is_transactional}{', control' * self.is_control})"
        )


def read_batches(data: Buffer, *, max_batch_size: int = MAX_DECOMPRESSED_SIZE) -> Iterator[RecordBatch]:
    """Return the complete batches in `data`; an incomplete one at the end, as fetches have, is left out.

    `max_batch_size` bounds what one batch may decompress to, in bytes. Raises `CorruptRecordError` for a damaged header
    here, for damaged records when the batch is iterated, and for a wrong checksum in `RecordBatch.check`.
    """
    position = 0
    while (header := read_header(data, position)) is not None:
        yield RecordBatch(data, header, max_batch_size)
        position += header.size_in_bytes
