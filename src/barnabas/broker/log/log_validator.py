"""The checks that records must pass to enter a log, and the offsets they get there (LogValidator).

Errors: https://kafka.apache.org/protocol#protocol_error_codes
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.append_origin import CLIENT
from barnabas.broker.log.log_segment import AppendedBatch
from barnabas.errors import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    UnsupportedForMessageFormatError,
)
from barnabas.records.batch_header import (
    CURRENT_MAGIC,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    assign_offsets,
    check_crc,
    scan_batches,
    set_max_timestamp,
)
from barnabas.records.validation import validate_records

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.records.validation import RecordTimestamps

_MAX_BATCH_SIZE = 0x7FFFFFFF


class ValidatedRecords(NamedTuple):
    """Records ready to be written: the bytes, their headers as sent, the first offset, and what the indexes need."""

    buffer: Buffer
    headers: list[BatchHeader]
    first_offset: int
    batches: list[AppendedBatch]
    max_timestamp: int
    record_count: int
    log_append_time: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.batches[-1].last_offset


class LogValidator:
    """Checks what is appended to one log, under its settings."""

    __slots__ = ("_partition", "config")

    def __init__(self, partition: str, config: LogConfig) -> None:
        self._partition = partition
        self.config = config

    def validate_and_assign_offsets(
        self, data: Buffer, *, first_offset: int, leader_epoch: int, origin: int, now_ms: int
    ) -> ValidatedRecords:
        """Return a copy of the records with offsets from `first_offset` on.

        Raises `CorruptRecordError`, `InvalidRecordError`, `InvalidTimestampError`, `RecordTooLargeError` and
        `UnsupportedForMessageFormatError`.
        """
        headers = self._headers(data, origin)
        config = self.config
        append_time = now_ms if config.message_timestamp_type == LOG_APPEND_TIME else None
        timestamps = [self._check_batch(data, header, origin, now_ms) for header in headers]
        if config.compression_type == "producer":
            buffer = bytearray(data)
        else:
            buffer = recompress(data, headers, config.compression_type, config.compression_level)
            headers = scan_batches(buffer)
        batches = []
        offset = first_offset
        for header, timestamp in zip(headers, timestamps, strict=True):
            if append_time is not None:
                timestamp = append_time
            elif timestamp != header.max_timestamp:
                set_max_timestamp(buffer, header.position, timestamp)
            assign_offsets(buffer, header.position, offset, leader_epoch, append_time)
            offset += header.last_offset_delta + 1
            batches.append(AppendedBatch(header.size_in_bytes, offset - 1, timestamp))
        return ValidatedRecords(
            buffer,
            headers,
            first_offset,
            batches,
            max(batch.max_timestamp for batch in batches),
            offset - first_offset,
            -1 if append_time is None else append_time,
        )

    def _headers(self, data: Buffer, origin: int) -> list[BatchHeader]:
        headers = scan_batches(data)
        if not headers:
            raise InvalidRecordError(f"the {len(data)} bytes for {self._partition} hold no whole record batch")
        end = headers[-1].position + headers[-1].size_in_bytes
        if end != len(data):
            raise CorruptRecordError(f"the last record batch for {self._partition} is cut: {len(data) - end} bytes")
        if len(headers) > 1 and origin == CLIENT:
            raise InvalidRecordError(f"{len(headers)} record batches for {self._partition}; one at a time is allowed")
        return headers

    def _check_batch(self, data: Buffer, header: BatchHeader, origin: int, now_ms: int) -> int:
        """Check one batch; its largest timestamp."""
        if header.magic != CURRENT_MAGIC:
            raise UnsupportedForMessageFormatError(
                f"{self._partition} takes record batches of magic {CURRENT_MAGIC}, not of magic {header.magic}"
            )
        if header.size_in_bytes > self.config.max_message_bytes:
            raise RecordTooLargeError(
                f"the record batch for {self._partition} has {header.size_in_bytes} bytes; max.message.bytes is "
                f"{self.config.max_message_bytes}"
            )
        check_crc(data, header)
        if origin == CLIENT:
            self._check_client_batch(header)
        if header.is_control:
            return header.max_timestamp
        try:
            found = validate_records(data, header, need_keys=self.config.compact)
            self._check_timestamps(header, found, now_ms)
        except (InvalidRecordError, InvalidTimestampError) as problem:
            from barnabas.broker.log.record_errors import with_record_errors

            raise with_record_errors(problem, data, header, self._partition, self.config, now_ms) from problem
        return found.max_timestamp

    def _check_client_batch(self, header: BatchHeader) -> None:
        problem = None
        if header.base_offset != 0:
            problem = f"has base offset {header.base_offset} in place of 0"
        elif header.record_count <= 0:
            problem = f"says that it holds {header.record_count} records"
        elif header.record_count != header.last_offset_delta + 1:
            problem = f"holds {header.record_count} records for {header.last_offset_delta + 1} offsets"
        elif header.is_control:
            problem = "is a control batch, which only brokers write"
        elif header.has_producer_id and header.base_sequence < 0:
            problem = f"of producer {header.producer_id} has the sequence number {header.base_sequence}"
        if problem is not None:
            raise InvalidRecordError(f"the record batch for {self._partition} {problem}")

    def _check_timestamps(self, header: BatchHeader, found: RecordTimestamps, now_ms: int) -> None:
        config = self.config
        if header.timestamp_type == LOG_APPEND_TIME:
            raise InvalidTimestampError(f"the records for {self._partition} claim LogAppendTime; only the log sets it")
        if config.message_timestamp_type == LOG_APPEND_TIME:
            return
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        for timestamp in (found.min_timestamp, found.max_timestamp):
            if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                raise InvalidTimestampError(
                    f"timestamp {timestamp} of a record for {self._partition} lies outside [{earliest}, {latest}], "
                    "which message.timestamp.before.max.ms and message.timestamp.after.max.ms allow"
                )


def recompress(data: Buffer, headers: list[BatchHeader], compression_type: str, level: int | None = None) -> bytearray:
    """Rebuild the batches with the codec that the log prescribes (`compression.type`), at its level.

    A batch that has this codec already stays as it was sent, at any level, as in Apache Kafka.
    """
    codec = "none" if compression_type == "uncompressed" else compression_type
    result = bytearray()
    view = memoryview(data)
    for header in headers:
        batch = view[header.position : header.position + header.size_in_bytes]
        result += batch if header.compression == codec or header.is_control else _rebuild(batch, header, codec, level)
    return result


def _rebuild(batch: memoryview, header: BatchHeader, codec: str, level: int | None) -> bytes:
    from barnabas.records.builder import RecordBatchBuilder
    from barnabas.records.record_batch import read_batches

    builder = RecordBatchBuilder(_MAX_BATCH_SIZE, codec, level)
    for record in next(iter(read_batches(batch))):
        builder.try_append(record.timestamp, record.key, record.value, record.headers)
    builder.set_producer_state(
        header.producer_id, header.producer_epoch, header.base_sequence, transactional=header.is_transactional
    )
    return builder.close(header.base_offset)
