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
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import LOG_APPEND_TIME
from barnabas.records.compression import MAX_DECOMPRESSED_SIZE
from barnabas.records.fetched_batches import open_batches

if not cython.compiled:
    from barnabas.records.cursor import RecordCursor
    from barnabas.records.native import expose_fields, int64_sum, take_bytes, untrack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.records.batch_header import BatchHeader
    from barnabas.records.types import AbortedTransactions, Buffer, Deserializer

_ALL = 0x7FFFFFFFFFFFFFFF
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


@cython.freelist(64)
@cython.cclass
class ConsumerRecord:
    """One record as a consumer gets it; its fields cannot be set.

    `timestamp` is in epoch milliseconds, -1 for none; `timestamp_type` 0 (CreateTime), 1 (LogAppendTime) or -1 (none).
    `leader_epoch` is that of the leader that stored the record, -1 if unknown. The serialized sizes are in bytes, -1
    for null. `delivery_count` says how often a share group has delivered it, this time included; 0 outside of those.
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
        delivery_count: int = 0,
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
        self.delivery_count = delivery_count

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
            self.headers, self.leader_epoch, self.serialized_key_size, self.serialized_value_size, self.delivery_count,
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


# Reading a field is then a load for the interpreter, a quarter of what a call of a property costs.
expose_fields(ConsumerRecord, ("topic", "partition", "offset", "timestamp", "key", "value"))


def _shown(item: object) -> str:
    text = repr(item)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(item) if isinstance(item, bytes) else len(text)} long)"


class OpenBatch:
    """What the records of one batch have in common, and makes records of it."""

    def __init__(self, decoder: RecordsDecoder, header: BatchHeader) -> None:
        self.topic = decoder.topic
        self.partition = decoder.partition
        self.key_deserializer = decoder.key_deserializer
        self.value_deserializer = decoder.value_deserializer
        self.with_headers = decoder.with_headers
        self.has_deserializers = self.key_deserializer is not None or self.value_deserializer is not None
        self.base_offset = header.base_offset
        self.base_timestamp = header.base_timestamp
        self.timestamp_type = header.timestamp_type
        self.uses_append_time = header.timestamp_type == LOG_APPEND_TIME
        self.leader_epoch = header.partition_leader_epoch
        self.next_offset = header.next_offset
        # Neighbours often have the same timestamp, and then share the number.
        self.timestamp_delta = 0
        self.timestamp: Any = header.max_timestamp if self.uses_append_time else header.base_timestamp

    def make_record(self, cursor: RecordCursor) -> ConsumerRecord:
        """Return the record that the cursor stands on."""
        record: ConsumerRecord = ConsumerRecord.__new__(ConsumerRecord)
        record.topic = self.topic
        record.partition = self.partition
        record.offset = self.base_offset + cursor.offset_delta
        if not self.uses_append_time and cursor.timestamp_delta != self.timestamp_delta:
            self.timestamp_delta = cursor.timestamp_delta
            self.timestamp = int64_sum(self.base_timestamp, cursor.timestamp_delta)
        record.timestamp = self.timestamp
        record.timestamp_type = self.timestamp_type
        record.leader_epoch = self.leader_epoch
        record.serialized_key_size = cursor.key_size
        record.serialized_value_size = cursor.value_size
        record.delivery_count = 0
        record.key = take_bytes(cursor.data, cursor.key_position, cursor.key_size) if cursor.key_size >= 0 else None
        record.value = (
            take_bytes(cursor.data, cursor.value_position, cursor.value_size) if cursor.value_size >= 0 else None
        )
        record.header_list = None
        if cursor.header_count > 0:
            record.header_list = read_headers(cursor)
        elif not self.has_deserializers:
            # Nothing in it can be part of a cycle, so the collector need not visit it.
            untrack(record)
            return record
        if self.key_deserializer is not None and record.key is not None:
            record.key = self._deserialize(self.key_deserializer, "key", record.key, record)
        if self.value_deserializer is not None and record.value is not None:
            record.value = self._deserialize(self.value_deserializer, "value", record.value, record)
        return record

    def _deserialize(self, deserializer: Any, what: str, data: bytes, record: ConsumerRecord) -> Any:
        try:
            if self.with_headers:
                return deserializer(data, record.headers)
            return deserializer(data)
        except Exception as error:
            failure = RecordDeserializationError(
                f"the {what} of {self.topic}-{self.partition} at offset {record.offset} could not be deserialized: "
                f"{type(error).__name__}: {error}; seek past the record to go on"
            )
            failure.topic_partition = TopicPartition(self.topic, self.partition)
            failure.offset = record.offset
            raise failure from error


class RecordRun:
    """`count` well-formed records of one batch that follow each other: `cursor` stands before the first."""

    def __init__(
        self, batch: OpenBatch, cursor: RecordCursor, count: cython.Py_ssize_t, delivery_count: cython.int
    ) -> None:
        self.batch = batch
        self.cursor = cursor
        self.count = count
        self.delivery_count = delivery_count


class EncodedRecords:
    """Records that are known to be well-formed and are made when they are iterated, each time anew.

    A record that is read and dropped then costs no memory, which is most of its price. Keeps the fetched bytes alive.
    """

    def __init__(self) -> None:
        self.runs: list[RecordRun] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return RecordIterator(self.runs)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def extend(self, more: EncodedRecords) -> None:
        """Add the records that follow."""
        self.runs += more.runs
        self.count += more.count


class RecordIterator:
    """Goes once through the records of some runs."""

    def __init__(self, runs: list[RecordRun]) -> None:
        self.runs = iter(runs)
        self.left = 0
        self.delivery_count = 0

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> ConsumerRecord:
        run: RecordRun
        record: ConsumerRecord
        while self.left == 0:
            run = next(self.runs)
            self.batch = run.batch
            self.cursor = run.cursor.copy()
            self.left = run.count
            self.delivery_count = run.delivery_count
        if not self.cursor.advance():
            raise self.cursor.corrupt()
        self.left -= 1
        record = self.batch.make_record(self.cursor)
        record.delivery_count = self.delivery_count
        return record


class RecordsDecoder:
    """Hands out the records of one partition's fetched bytes, some at a time.

    Batches are checked and decompressed one by one, when their turn comes. Deserializers are called with the bytes of a
    key or value that is not null, and `with_headers` with the record's headers besides. `aborted_transactions`
    (producer id, first offset) makes it read_committed.
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
        with_headers: bool = False,
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
        self.with_headers = with_headers
        self.failure: Exception | None = None
        self.cursor: Any = None
        self.batch: Any = None
        self.on_record = False
        self.leader_epoch = -1
        self.last_offset = _ALL
        self.delivery_count = 0

    def take(self, max_records: int = _ALL) -> list[ConsumerRecord]:
        """Return the next records, at most `max_records`; an empty list when there are no more.

        `next_offset` is then the position after them, past what was skipped. Where a batch is corrupt or a
        deserializer fails, the records before it are handed out first; the call after raises `CorruptRecordError` or
        `RecordDeserializationError`, and so does every further one.
        """
        records: list[ConsumerRecord] = []
        self._take(max_records, records, None)
        return records

    def take_encoded(self, max_records: int = _ALL) -> EncodedRecords:
        """As `take`, but the records are only checked and counted, and made later; not for use with deserializers."""
        found: EncodedRecords = EncodedRecords()
        self._take(max_records, found.runs, found)
        return found

    def take_acquired(
        self, first: int, last: int, max_records: int, delivery_count: int, is_encoded: bool
    ) -> list[ConsumerRecord] | EncodedRecords:
        """As `take` or `take_encoded`, from the offset `first` to `last`, for ranges that ascend from call to call.

        The records have this delivery count. `next_offset` is then where to go on, or after `last`.
        """
        records: list[ConsumerRecord] = []
        encoded: EncodedRecords = EncodedRecords()
        self.next_offset = max(self.next_offset, first)
        self.last_offset = last
        self.delivery_count = delivery_count
        try:
            if is_encoded:
                self._take(max_records, encoded.runs, encoded)
            else:
                self._take(max_records, records, None)
        finally:
            self.last_offset = _ALL
            self.delivery_count = 0
        return encoded if is_encoded else records

    def _take(self, wanted: cython.Py_ssize_t, records: list[Any], encoded: EncodedRecords | None) -> None:
        left: cython.Py_ssize_t = wanted
        if self.failure is not None:
            raise self.failure
        try:
            while left > 0 and self.next_offset <= self.last_offset and self._has_batch():
                if encoded is None:
                    left = wanted - self.take_from_batch(records, wanted)
                else:
                    left -= self.skip_in_batch(encoded, left)
                if self.cursor.remaining == 0 and not self.on_record:
                    self.next_offset = max(self.next_offset, self.batch.next_offset)
                    self.cursor = None
        except KafkaError as error:
            self.failure = self._corrupt(error) if isinstance(error, CorruptRecordError) else error
            if not records:
                raise self.failure from None

    def _has_batch(self) -> bool:
        """Turn to the next batch that has records, unless there is one left; False when there is none."""
        if self.cursor is not None:
            return True
        if self.batches is None:
            return False
        for header, payload in self.batches:
            if payload is None:
                self.next_offset = max(self.next_offset, header.next_offset)
                continue
            self.cursor = RecordCursor(payload, header.record_count, header.last_offset_delta)
            self.batch = OpenBatch(self, header)
            self.on_record = False
            self.leader_epoch = header.partition_leader_epoch
            return True
        self.batches = None
        self.exhausted = True
        return False

    def take_from_batch(self, records: list[Any], max_records: cython.Py_ssize_t) -> int:
        """Move records of the current batch into the list, until that is full; how many there are then."""
        offset: cython.longlong
        cursor: RecordCursor = self.cursor
        batch: OpenBatch = self.batch
        record: ConsumerRecord
        while len(records) < max_records and (self.on_record or cursor.remaining > 0):
            if not self.on_record and not cursor.advance():
                raise cursor.corrupt()
            # A record that cannot be deserialized is met again by the next call.
            self.on_record = True
            offset = batch.base_offset + cursor.offset_delta
            if offset > self.last_offset:
                self.next_offset = self.last_offset + 1
                break
            if offset >= self.next_offset:
                record = batch.make_record(cursor)
                record.delivery_count = self.delivery_count
                records.append(record)
                self.next_offset = offset + 1
            self.on_record = False
        return len(records)

    def skip_in_batch(self, found: EncodedRecords, max_records: cython.Py_ssize_t) -> int:
        """Check up to `max_records` records of the current batch and note where they are; how many they were."""
        cursor: RecordCursor = self.cursor
        batch: OpenBatch = self.batch
        first: RecordCursor
        count: cython.Py_ssize_t
        is_sound: cython.bint
        wanted: cython.longlong = self.next_offset - batch.base_offset
        with cython.nogil:
            is_sound = cursor.skip_before(wanted)
        if not is_sound:
            raise cursor.corrupt()
        first = cursor.copy()
        last_delta: cython.longlong = self.last_offset - batch.base_offset
        with cython.nogil:
            count = (
                cursor.skip(max_records)
                if last_delta >= cursor.last_offset_delta
                else cursor.skip_through(max_records, last_delta)
            )
        is_sound = count >= 0
        if not is_sound:
            count = ~count
        if count > 0:
            found.runs.append(RecordRun(batch, first, count, self.delivery_count))
            found.count += count
            self.next_offset = batch.base_offset + cursor.skipped_delta + 1
        if is_sound and count < max_records and cursor.remaining > 0:
            # It stands before a record behind the last one that is wanted.
            self.next_offset = self.last_offset + 1
        if not is_sound:
            raise cursor.corrupt()
        return count

    def _corrupt(self, error: CorruptRecordError) -> CorruptRecordError:
        return type(error)(f"{self.topic}-{self.partition} cannot be read from offset {self.next_offset} on: {error}")


def read_headers(cursor: RecordCursor) -> list[Any]:
    """Return the headers of the record that the cursor stands on."""
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
    """Return the records from `fetch_offset` on, at most `max_records`.

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
