# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""From fetched bytes to records as Python objects. C types are in `decoder.pxd`."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from types import GenericAlias
from typing import TYPE_CHECKING, Any

from barnabas.errors import CorruptRecordError, KafkaError, RecordDeserializationError
from barnabas.records.batch_header import LOG_APPEND_TIME, NO_TIMESTAMP_TYPE
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE
from barnabas.records.open_batches import open_batches

if not cython.compiled:
    from barnabas.records.cursor import RecordCursor
    from barnabas.records.native import take_bytes, untrack

if TYPE_CHECKING:
    from barnabas.records.types import AbortedTransactions, Buffer, Deserializer

_ALL = 0x7FFFFFFFFFFFFFFF
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


class ConsumerRecord:
    """One record as a consumer gets it; its fields cannot be set.

    `timestamp` is in epoch milliseconds, -1 for none; `timestamp_type` 0 (CreateTime), 1 (LogAppendTime) or -1 (none).
    `leader_epoch` is that of the leader that stored the record, -1 if unknown. The serialized sizes are in bytes, -1
    for null.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        timestamp_type: int = -1,
        key: Any = None,
        value: Any = None,
        headers: list[tuple[str, bytes | None]] | None = None,
        leader_epoch: int = -1,
        serialized_key_size: int = -1,
        serialized_value_size: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.header_list = headers or None
        self.leader_epoch = leader_epoch
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    @classmethod
    def __class_getitem__(cls, types: Any) -> Any:
        """`ConsumerRecord[str, Order]`, for annotations."""
        return GenericAlias(cls, types)

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """Name and value of each header, in the order of the producer."""
        return [] if self.header_list is None else self.header_list

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.topic, self.partition, self.offset, self.timestamp, self.timestamp_type, self.key, self.value,
            self.headers, self.leader_epoch, self.serialized_key_size, self.serialized_value_size,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return ConsumerRecord, self._fields()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self) -> str:
        kind = _TIMESTAMP_TYPES.get(self.timestamp_type, self.timestamp_type)
        return (
            f"ConsumerRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp} ({kind}), key={_shown(self.key)}, value={_shown(self.value)}, "
            f"headers={self.headers!r})"
        )


def _shown(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(item) if isinstance(item, bytes) else len(text)} long)"


class RecordsDecoder:
    """Hands out the records of one partition's fetched bytes, some at a time.

    Batches are checked and decompressed one by one, when their turn comes. Deserializers are called with the bytes of a
    key or value that is not null. `aborted_transactions` (producer id, first offset) makes it read_committed.
    """

    def __init__(
        self,
        data: Buffer,
        topic: str,
        partition: int,
        fetch_offset: int = 0,
        *,
        check_crcs: bool = True,
        aborted_transactions: AbortedTransactions | None = None,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        max_batch_size: int = MAX_DECOMPRESSED_SIZE,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = fetch_offset
        self.exhausted = False
        self.batches: Any = open_batches(
            data,
            fetch_offset=fetch_offset,
            check_crcs=check_crcs,
            max_size=max_batch_size,
            aborted_transactions=aborted_transactions,
        )
        self.key_deserializer = key_deserializer
        self.value_deserializer = value_deserializer
        self.failure: Exception | None = None
        self.cursor: RecordCursor | None = None
        self.on_record = False
        self.base_offset = self.base_timestamp = self.append_time = self.after_batch = 0
        self.timestamp_type = NO_TIMESTAMP_TYPE
        self.uses_append_time = False
        self.leader_epoch = -1

    def take(self, max_records: int = _ALL) -> list[ConsumerRecord]:
        """The next records, at most `max_records`; an empty list when there are no more.

        `next_offset` is then the position after them, past whatever was skipped. Where a batch is corrupt or a
        deserializer fails, the records before it are handed out first; the call after raises `CorruptRecordError` or
        `RecordDeserializationError`, and so does every further one.
        """
        records: list[ConsumerRecord] = []
        wanted: cython.Py_ssize_t = max_records
        if self.failure is not None:
            raise self.failure
        try:
            while len(records) < wanted:
                cursor = self.cursor or self.open_next()
                if cursor is None:
                    break
                self.take_from_batch(cursor, records, wanted)
        except KafkaError as error:
            self.failure = self._corrupt(error) if isinstance(error, CorruptRecordError) else error
            if not records:
                raise self.failure from None
        return records

    def open_next(self) -> RecordCursor | None:
        """Turn to the next batch that has records; None when there is none."""
        if self.batches is None:
            return None
        for header, payload in self.batches:
            if payload is None:
                self.next_offset = header.next_offset
                continue
            self.cursor = RecordCursor(payload, header.record_count, header.last_offset_delta)
            self.on_record = False
            self.base_offset = header.base_offset
            self.base_timestamp = header.base_timestamp
            self.append_time = header.max_timestamp
            self.timestamp_type = header.timestamp_type
            self.uses_append_time = header.timestamp_type == LOG_APPEND_TIME
            self.leader_epoch = header.partition_leader_epoch
            self.after_batch = header.next_offset
            return self.cursor
        self.batches = None
        self.exhausted = True
        return None

    def take_from_batch(self, cursor: RecordCursor, records: list[Any], max_records: cython.Py_ssize_t) -> int:
        """Move records from the current batch into the list, until that is full or the batch is at its end."""
        offset: cython.longlong
        while len(records) < max_records:
            if not self.on_record:
                if cursor.remaining == 0:
                    self.next_offset = self.after_batch
                    self.cursor = None
                    return 0
                if not cursor.advance():
                    raise cursor.corrupt()
                self.on_record = True
            offset = self.base_offset + cursor.offset_delta
            if offset >= self.next_offset:
                records.append(self.make_record(cursor))
                self.next_offset = offset + 1
            self.on_record = False
        if cursor.remaining == 0:
            self.next_offset = self.after_batch
            self.cursor = None
        return 0

    def make_record(self, cursor: RecordCursor) -> ConsumerRecord:
        """The record that the cursor stands on."""
        record: ConsumerRecord = ConsumerRecord.__new__(ConsumerRecord)
        record.topic = self.topic
        record.partition = self.partition
        record.offset = self.base_offset + cursor.offset_delta
        record.timestamp_type = self.timestamp_type
        record.timestamp = self.append_time
        if not self.uses_append_time:
            record.timestamp = self.base_timestamp + cursor.timestamp_delta
        record.leader_epoch = self.leader_epoch
        record.serialized_key_size = cursor.key_size
        record.serialized_value_size = cursor.value_size
        record.key = None
        record.value = None
        if cursor.key_size >= 0:
            record.key = take_bytes(cursor.data, cursor.key_position, cursor.key_size)
        if cursor.value_size >= 0:
            record.value = take_bytes(cursor.data, cursor.value_position, cursor.value_size)
        record.header_list = None
        if cursor.header_count > 0:
            record.header_list = read_headers(cursor)
        elif self.key_deserializer is None and self.value_deserializer is None:
            # Nothing in it can be part of a cycle, so the collector need not visit it.
            untrack(record)
            return record
        if self.key_deserializer is not None and record.key is not None:
            record.key = self._deserialize(self.key_deserializer, "key", record.key, record.offset)
        if self.value_deserializer is not None and record.value is not None:
            record.value = self._deserialize(self.value_deserializer, "value", record.value, record.offset)
        return record

    def _deserialize(self, deserializer: Deserializer, what: str, data: bytes, offset: int) -> Any:
        try:
            return deserializer(data)
        except Exception as error:
            raise RecordDeserializationError(
                f"the {what} of {self.topic}-{self.partition} at offset {offset} could not be deserialized: "
                f"{type(error).__name__}: {error}; seek past the record to go on"
            ) from error

    def _corrupt(self, error: CorruptRecordError) -> CorruptRecordError:
        return type(error)(f"{self.topic}-{self.partition} cannot be read from offset {self.next_offset} on: {error}")


def read_headers(cursor: RecordCursor) -> list[Any]:
    """The headers of the record that the cursor stands on."""
    headers: list[Any] = []
    left: cython.Py_ssize_t = cursor.header_count
    cursor.position = cursor.headers_position
    while left > 0:
        cursor.next_header()
        name = take_bytes(cursor.data, cursor.name_position, cursor.name_size).decode("utf-8", "replace")
        value = None
        if cursor.number_read >= 0:
            value = take_bytes(cursor.data, cursor.position, cursor.number_read)
            cursor.position += cursor.number_read
        headers.append((name, value))
        left -= 1
    return headers


def decode_records(
    data: Buffer,
    topic: str,
    partition: int,
    fetch_offset: int = 0,
    *,
    check_crcs: bool = True,
    max_records: int = _ALL,
    aborted_transactions: AbortedTransactions | None = None,
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
) -> list[ConsumerRecord]:
    """The records from `fetch_offset` on, at most `max_records`.

    Raises `CorruptRecordError` and `RecordDeserializationError`, losing the records before the bad one; use
    `RecordsDecoder` to get those as well.
    """
    decoder = RecordsDecoder(
        data,
        topic,
        partition,
        fetch_offset,
        check_crcs=check_crcs,
        aborted_transactions=aborted_transactions,
        key_deserializer=key_deserializer,
        value_deserializer=value_deserializer,
    )
    records: list[ConsumerRecord] = decoder.take(max_records)
    if len(records) < max_records:
        decoder.take(1)
    return records


def batch_contents(
    payload: bytes | memoryview, record_count: int, last_offset_delta: int
) -> list[tuple[int, int, bytes | None, bytes | None, list[Any]]]:
    """Offset delta, timestamp delta, key, value and headers of every record. Raises `CorruptRecordError`."""
    cursor: RecordCursor = RecordCursor(payload, record_count, last_offset_delta)
    contents: list[Any] = []
    while cursor.remaining > 0:
        if not cursor.advance():
            raise cursor.corrupt()
        key = take_bytes(cursor.data, cursor.key_position, cursor.key_size) if cursor.key_size >= 0 else None
        value = take_bytes(cursor.data, cursor.value_position, cursor.value_size) if cursor.value_size >= 0 else None
        headers = read_headers(cursor) if cursor.header_count > 0 else []
        contents.append((cursor.offset_delta, cursor.timestamp_delta, key, value, headers))
    return contents
