# cython: language_level=3, boundscheck=False
"""Everything that runs once per record: from `do_send` into the last batch of the partition's deque.

This is the producer's one compiled module. It holds the parts of `Producer`, `RecordAccumulator`, `ProducerBatch` and
the built-in partitioner that a record passes; what runs once per batch stands in their own files, which derive from
the classes here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from operator import index
from time import time
from types import MethodType
from typing import Any

from barnabas.client.producer.slow_append import EncodedRecord, SlowAppend, UnsentRecord
from barnabas.errors import ApiError, IllegalArgumentError, IllegalStateError, IllegalTypeError, RecordTooLargeError
from barnabas.records.batch_header import HEADER_SIZE, MAX_RECORD_OVERHEAD

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # the same names where Cython is not installed

if not cython.compiled:
    from barnabas.records.builder import RecordBatchBuilder
    from barnabas.records.partitioner import murmur2_at

    def wall_clock_ms() -> int:
        """Epoch milliseconds."""
        return int(time() * 1000)


# Compiled, appending to an open batch runs no Python code, so no other thread can come between: the interpreter's lock
# is lock enough as long as no thread holds the accumulator's.
GIL_SUFFICES = cython.declare(cython.bint, cython.compiled and getattr(sys, "_is_gil_enabled", lambda: True)())

# C variables, so that they cost nothing per record.
BATCH_OVERHEAD = cython.declare(cython.int, HEADER_SIZE)
RECORD_OVERHEAD = cython.declare(cython.int, MAX_RECORD_OVERHEAD)


@cython.cfunc
@cython.exceptval(check=False)
def _varint_size(value: cython.Py_ssize_t) -> cython.Py_ssize_t:
    # Lengths are zigzag coded: twice the value, seven bits a byte.
    size: cython.Py_ssize_t = 1
    value = value << 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


@cython.cfunc
@cython.exceptval(check=False)
def _field_size(data: bytes | None) -> cython.Py_ssize_t:
    if data is None:
        return 1
    size: cython.Py_ssize_t = len(data)
    return size + 1 if size < 64 else size + _varint_size(size)


@cython.cfunc
def _headers_size(headers: tuple[tuple[str, bytes | None], ...]) -> cython.Py_ssize_t:
    size: cython.Py_ssize_t = _varint_size(len(headers))
    for key, value in headers:
        size += _field_size(key.encode()) + _field_size(value)
    return size


def record_size_upper_bound(
    key: bytes | None, value: bytes | None, headers: tuple[tuple[str, bytes | None], ...] = ()
) -> int:
    """Return the most bytes that a batch of this one record can take, uncompressed."""
    return (
        BATCH_OVERHEAD
        + RECORD_OVERHEAD
        + _field_size(key)
        + _field_size(value)
        + (_headers_size(headers) if headers else 1)
    )


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class RecordMetadata:
    """A stored record's place in the log; prints as `topic-partition@offset`, as in Kafka.

    `offset` is -1 where the broker did not tell (acks=0, a duplicate whose offset it has forgotten, a failed record).
    `timestamp` is in epoch milliseconds: the broker's where the topic stamps on append, else the record's own. The
    sizes are in bytes, -1 for null.
    """

    # Types in comments are for type checkers, who do not know what is declared; the compiler would check annotations.
    topic = cython.declare(object, visibility="readonly")  # type: str  # type: ignore[assignment]  # see above
    partition = cython.declare(cython.int, visibility="readonly")
    offset = cython.declare(cython.longlong, visibility="readonly")
    timestamp = cython.declare(object, visibility="readonly")  # type: int  # type: ignore[assignment]  # see above
    serialized_key_size = cython.declare(cython.int, visibility="readonly")
    serialized_value_size = cython.declare(cython.int, visibility="readonly")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int = -1,
        serialized_key_size: int = -1,
        serialized_value_size: int = -1,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.serialized_key_size = serialized_key_size
        self.serialized_value_size = serialized_value_size

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.serialized_key_size,
            self.serialized_value_size,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RecordMetadata) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"

    def __repr__(self) -> str:
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, serialized_key_size={self.serialized_key_size}, "
            f"serialized_value_size={self.serialized_value_size})"
        )


@cython.final
@cython.no_gc
@cython.freelist(256)
@cython.cclass
class FutureRecordMetadata:
    """What becomes of one record; `send()` returns it.

    Cheap on purpose: all records of a batch share one `ProduceRequestResult`, and the offset is its base offset plus
    the record's place in the batch. Any thread may ask; only the Sender thread completes.
    """

    request_result: Any = cython.declare(object, visibility="readonly")
    relative_offset = cython.declare(cython.int, visibility="readonly")
    _timestamp: Any
    _key_size: cython.int
    _value_size: cython.int

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's place in the log; waits at most `timeout` seconds.

        Raises `KafkaTimeoutError` when that is not known in time, or the error with which the record failed.
        """
        self.request_result.wait_for(self.relative_offset, timeout)
        place, error = self.request_result.outcome(self.relative_offset)
        if error is not None:
            # All records of a failed batch share the error: without this its traceback would grow with each of them.
            raise error.with_traceback(None)
        return self._metadata(place)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error with which the record failed, or None; waits at most `timeout` seconds."""
        self.request_result.wait_for(self.relative_offset, timeout)
        error: BaseException | None = self.request_result.outcome(self.relative_offset)[1]
        return error

    def done(self) -> bool:
        """Whether the record was stored or has failed."""
        return bool(self.request_result.done(self.relative_offset))

    def add_done_callback(self, callback: Callable[[FutureRecordMetadata], object]) -> None:
        """Call `callback(future)` in the Sender thread when the record is done; at once when it is done already."""
        self.request_result.add_done_callback(self, self.relative_offset, callback)

    def metadata_and_error(self) -> tuple[RecordMetadata, BaseException | None]:
        """Return what `on_delivery` receives, once the batch has its result; a failed record has offset -1."""
        place, error = self.request_result.outcome(self.relative_offset)
        return self._metadata(place), error

    def _metadata(self, place: tuple[Any, int, int]) -> RecordMetadata:
        topic_partition, offset, log_append_time = place
        timestamp = log_append_time if log_append_time != -1 else self._timestamp
        return _metadata_at(
            topic_partition.topic, topic_partition.partition, offset, timestamp, self._key_size, self._value_size
        )

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        from barnabas.client.producer.record_metadata import wait_in_loop

        return wait_in_loop(self).__await__()

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<FutureRecordMetadata {self.request_result.topic_partition} +{self.relative_offset} {state}>"


@cython.cfunc
def _new_future(
    result: Any,
    index: cython.int,
    timestamp: Any,
    key: bytes | None,
    value: bytes | None,
) -> FutureRecordMetadata:
    future: FutureRecordMetadata = FutureRecordMetadata.__new__(FutureRecordMetadata)
    future.request_result = result
    future.relative_offset = index
    future._timestamp = timestamp
    future._key_size = -1 if key is None else len(key)
    future._value_size = -1 if value is None else len(value)
    return future


@cython.cfunc
def _metadata_at(
    topic: Any,
    partition: cython.int,
    offset: cython.longlong,
    timestamp: Any,
    key_size: cython.int,
    value_size: cython.int,
) -> RecordMetadata:
    metadata: RecordMetadata = RecordMetadata.__new__(RecordMetadata)
    metadata.topic = topic
    metadata.partition = partition
    metadata.offset = offset
    metadata.timestamp = timestamp
    metadata.serialized_key_size = key_size
    metadata.serialized_value_size = value_size
    return metadata


@cython.final
@cython.cclass
class DeliveryCallbacks:
    """The `on_delivery` of a batch's records from record `first` on, and what their metadata needs beside the result.

    They live until the broker answers, a million of them at times, so they are packed into two or three bytes a record:
    the sizes of key and value as numbers of variable length, and whether timestamp and callback are those of the record
    before. Only other ones are kept as objects.
    """

    first = cython.declare(cython.int, visibility="readonly")
    _packed: bytearray
    _callbacks: list[Any]
    _timestamps: list[Any]
    _callback: Any
    _timestamp: Any
    _at: cython.Py_ssize_t

    def __init__(self, first: int) -> None:
        self.first = first
        self._packed = bytearray()
        self._callbacks = []
        self._timestamps = []
        self._callback = None
        self._timestamp = None
        self._at = 0

    @cython.cfunc
    def _put(self, number: cython.longlong) -> None:
        while number >= 128:
            self._packed.append((number & 127) | 128)
            number >>= 7
        self._packed.append(number)

    @cython.cfunc
    def _read_varlong(self) -> cython.longlong:
        packed: bytearray = self._packed
        number: cython.longlong = 0
        shift: cython.int = 0
        byte: cython.longlong = 128
        while byte >= 128:
            byte = packed[self._at]
            number |= (byte & 127) << shift
            shift += 7
            self._at += 1
        return number

    @cython.cfunc
    def _add(self, callback: Any, timestamp: Any, key_size: cython.longlong, value_size: cython.longlong) -> None:
        changes: cython.longlong = 0
        # `self.on_delivery` is another object with each send, and yet the same method.
        if callback is not self._callback and not (type(callback) is MethodType and callback == self._callback):
            self._callbacks.append(callback)
            self._callback = callback
            changes = 1
        if timestamp is not self._timestamp and timestamp != self._timestamp:
            self._timestamps.append(timestamp)
            self._timestamp = timestamp
            changes |= 2
        self._put((key_size + 1) << 2 | changes)
        self._put(value_size + 1)

    def add(self, callback: Any, timestamp: int, key_size: int, value_size: int) -> None:
        """Note the next record; `callback` may be None, sizes are -1 for null."""
        self._add(callback, timestamp, key_size, value_size)

    def entries(self) -> list[tuple[Any, int, int, int]]:
        """Return what was noted for each record."""
        callbacks: Any = iter(self._callbacks)
        timestamps: Any = iter(self._timestamps)
        callback: Any = None
        timestamp: Any = None
        found: list[tuple[Any, int, int, int]] = []
        self._at = 0
        while self._at < len(self._packed):
            key: cython.longlong = self._read_varlong()
            callback = next(callbacks) if key & 1 else callback
            timestamp = next(timestamps) if key & 2 else timestamp
            found.append((callback, timestamp, (key >> 2) - 1, self._read_varlong() - 1))
        return found

    def run(self, result: Any, on_error: Callable[..., object]) -> None:
        """Call each record's `on_delivery`, with the batch's result.

        What a callback raises goes to `on_error(callback, error)`, and the next one is called.
        """
        topic: Any = result.topic_partition.topic
        partition: cython.int = result.topic_partition.partition
        base_offset: cython.longlong = result.base_offset
        log_append_time: Any = result.log_append_time
        stamped: cython.bint = log_append_time != -1
        known: cython.bint = result.error is None and base_offset >= 0
        failed: cython.bint = result.error is not None
        callbacks: Any = iter(self._callbacks)
        timestamps: Any = iter(self._timestamps)
        callback: Any = None
        timestamp: Any = None
        index: cython.longlong = self.first
        self._at = 0
        while self._at < len(self._packed):
            key: cython.longlong = self._read_varlong()
            value: cython.longlong = self._read_varlong()
            if key & 1:
                callback = next(callbacks)
            if key & 2:
                timestamp = next(timestamps)
            if callback is not None:
                metadata: RecordMetadata = _metadata_at(
                    topic,
                    partition,
                    base_offset + index if known else -1,
                    log_append_time if stamped else timestamp,
                    (key >> 2) - 1,
                    value - 1,
                )
                error: Any = result.outcome(index)[1] if failed else None
                try:
                    callback(metadata, error)
                except BaseException as raised:  # noqa: BLE001  not even sys.exit() may end the Sender thread here
                    on_error(callback, raised)
            index += 1


def new_future(result: Any, index: int, timestamp: int, key: bytes | None, value: bytes | None) -> FutureRecordMetadata:
    """Return a future for one record of a result; for those who append outside the accumulator."""
    return _new_future(result, index, timestamp, key, value)


@cython.cclass
class AppendableBatch:
    """The part of `ProducerBatch` that every record passes. The accumulator's lock guards it."""

    builder = cython.declare(RecordBatchBuilder, visibility="public")
    request_result: Any = cython.declare(object, visibility="public")
    # None before the first record with a callback.
    callbacks: DeliveryCallbacks | None = cython.declare(DeliveryCallbacks, visibility="public")
    record_count = cython.declare(cython.int, visibility="public")
    max_record_size = cython.declare(cython.Py_ssize_t, visibility="public")
    is_open = cython.declare(cython.bint, visibility="public")

    def __init__(self, builder: Any, request_result: Any) -> None:
        self.builder = builder
        self.request_result = request_result
        self.callbacks = None
        self.record_count = 0
        self.max_record_size = 0
        self.is_open = True

    @cython.cfunc
    def _try_append(
        self,
        timestamp: Any,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Any, ...],
        on_delivery: Any,
        size: cython.Py_ssize_t,
    ) -> FutureRecordMetadata | None:
        index: cython.Py_ssize_t = self.builder.append_record(timestamp, key, value, headers)
        if index < 0:
            return None
        if size > self.max_record_size:
            self.max_record_size = size
        future: FutureRecordMetadata = _new_future(self.request_result, index, timestamp, key, value)
        self.record_count = index + 1
        callbacks: DeliveryCallbacks | None = self.callbacks
        if on_delivery is not None or callbacks is not None:
            # The future is not kept: a long list of objects that live until the broker answers costs more than all
            # else here, in memory and in time.
            if callbacks is None:
                callbacks = self.callbacks = DeliveryCallbacks(index)
            callbacks._add(on_delivery, timestamp, future._key_size, future._value_size)
        return future

    @cython.cfunc
    def _append_or_close(
        self,
        timestamp: Any,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Any, ...],
        on_delivery: Any,
        size: cython.Py_ssize_t,
    ) -> FutureRecordMetadata | None:
        if not self.is_open:
            return None
        future: FutureRecordMetadata | None = self._try_append(timestamp, key, value, headers, on_delivery, size)
        if future is None:
            self.is_open = False
        return future

    def try_append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Any, ...] = (),
        on_delivery: Any = None,
        size: int = 0,
    ) -> FutureRecordMetadata | None:
        """Append the record if the builder has room for it; None, with nothing stored, when it has not."""
        return self._try_append(timestamp, key, value, headers, on_delivery, size)


@cython.cclass
class StickyPartition:
    """The state of the built-in partitioner that every record without a key passes."""

    partition = cython.declare(cython.int, visibility="public")
    produced_bytes = cython.declare(cython.longlong, visibility="public")
    sticky_batch_size = cython.declare(cython.longlong, visibility="public")

    def __init__(self, sticky_batch_size: int) -> None:
        self.partition = -1
        self.produced_bytes = 0
        self.sticky_batch_size = sticky_batch_size


@cython.cclass
class TopicInfo:
    """What the accumulator keeps per topic: the deque of batches of each partition, and the sticky partition."""

    batches = cython.declare(dict, visibility="public")
    sticky = cython.declare(StickyPartition, visibility="public")
    partition_count = cython.declare(cython.int, visibility="public")
    metadata_version = cython.declare(cython.longlong, visibility="public")

    def __init__(self, sticky: StickyPartition) -> None:
        self.batches = {}
        self.sticky = sticky
        self.partition_count = 0
        self.metadata_version = -1


@cython.cclass
class RecordAppender:
    """The part of `RecordAccumulator` that every record passes."""

    topics = cython.declare(dict, visibility="public")
    # What makes the error for records while none are taken.
    refusal: Any = cython.declare(object, visibility="public")
    metadata_version = cython.declare(cython.longlong, visibility="public")
    _acquire: Any
    _release: Any
    _is_locked: Any

    def __init__(self, lock: Any) -> None:
        self.topics = {}
        self.refusal = None
        self.metadata_version = 0
        self._acquire = lock.acquire
        self._release = lock.release
        self._is_locked = lock.locked

    def try_append(
        self,
        queue: Any,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Any, ...] = (),
        on_delivery: Any = None,
        size: int = 0,
    ) -> FutureRecordMetadata | None:
        """Append to the last batch of the deque, under the lock; None when there is none or it has no room.

        A batch without room takes no more records from then on.
        """
        if self.refusal is not None:
            raise self.refusal()
        if not queue:
            return None
        last: AppendableBatch = queue[-1]
        return last._append_or_close(timestamp, key, value, headers, on_delivery, size)

    @cython.cfunc
    def _append_to_last(
        self,
        info: TopicInfo,
        partition: cython.int,
        timestamp: Any,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Any, ...],
        on_delivery: Any,
        size: cython.Py_ssize_t,
    ) -> FutureRecordMetadata | None:
        batch: AppendableBatch | None
        if GIL_SUFFICES and len(headers) == 0 and not self._is_locked():
            batch = self._last_batch(info, partition)
            # Headers and a batch's first callback make new lists: the garbage collector may run any code then.
            if batch is None or on_delivery is None or batch.callbacks is not None:
                return _append_to(batch, info, partition, timestamp, key, value, headers, on_delivery, size)
        self._acquire()
        try:
            batch = self._last_batch(info, partition)
            return _append_to(batch, info, partition, timestamp, key, value, headers, on_delivery, size)
        finally:
            self._release()

    @cython.cfunc
    def _last_batch(self, info: TopicInfo, partition: cython.int) -> AppendableBatch | None:
        """Return the batch that may take the record.

        None while there is none, or when another sticky partition has its turn.
        """
        if self.refusal is not None:
            raise self.refusal()
        if partition < 0:
            sticky: StickyPartition = info.sticky
            if sticky.produced_bytes >= 2 * sticky.sticky_batch_size:
                return None
            partition = sticky.partition
        queue: Any = info.batches.get(partition)
        if queue is None or not queue:
            return None
        last: AppendableBatch = queue[-1]
        return last


@cython.cfunc
def _append_to(
    batch: AppendableBatch | None,
    info: TopicInfo,
    partition: cython.int,
    timestamp: Any,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[Any, ...],
    on_delivery: Any,
    size: cython.Py_ssize_t,
) -> FutureRecordMetadata | None:
    if batch is None:
        return None
    future: FutureRecordMetadata | None = batch._append_or_close(timestamp, key, value, headers, on_delivery, size)
    if partition < 0 and future is not None:
        info.sticky.produced_bytes += size
    return future


@cython.cclass
class SendPath:
    """`do_send` and the little state it reads: what every record passes, in Kafka's order.

    It never waits. Where the topic's metadata is missing, or the record takes a new batch or a custom partitioner, it
    gives back what there is of it (`UnsentRecord`, `SlowAppend`), for `ProducerCore` to finish. `find_topic(topic,
    partition)` gives the `TopicInfo`, or None where the metadata is missing.
    """

    accumulator: RecordAppender
    closed_reason: Any = cython.declare(object, visibility="public")
    _find_topic: Any
    _key_serializer: Any
    _value_serializer: Any
    # Whether a serializer has Kafka's method, which may add headers.
    _shows_headers: cython.bint
    _max_request_size: cython.Py_ssize_t
    _buffer_memory: cython.Py_ssize_t
    _custom: cython.bint
    _ignore_keys: cython.bint
    _last_milliseconds: cython.longlong
    _last_timestamp: Any
    _wall_clock_ms: Any

    def __init__(
        self,
        accumulator: RecordAppender,
        find_topic: Any,
        key_serializer: Any,
        value_serializer: Any,
        max_request_size: int,
        buffer_memory: int,
        has_custom_partitioner: bool,
        ignore_keys: bool,
        wall_clock_ms: Callable[[], int] | None = None,
    ) -> None:
        self.accumulator = accumulator
        self.closed_reason = None
        self._find_topic = find_topic
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._shows_headers = hasattr(key_serializer, "serialize") or hasattr(value_serializer, "serialize")
        self._max_request_size = max_request_size
        self._buffer_memory = buffer_memory
        self._custom = has_custom_partitioner
        self._ignore_keys = ignore_keys
        # None for the system's, which is read without a call of Python.
        self._wall_clock_ms = wall_clock_ms
        self._last_milliseconds = -1
        self._last_timestamp = -1

    def do_send(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
        on_delivery: Any,
    ) -> FutureRecordMetadata | SlowAppend | UnsentRecord:
        """Metadata, serializers, partition, size check, append: on the caller's thread. Raises what goes wrong."""
        sent: FutureRecordMetadata | SlowAppend | UnsentRecord
        sent = self._do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        return sent

    @cython.cfunc
    def _do_send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
        timestamp_ms: Any,
        headers: Any,
        on_delivery: Any,
    ) -> Any:
        if self.closed_reason is not None:
            raise IllegalStateError(self.closed_reason)
        if on_delivery is not None and not callable(on_delivery):
            raise _not_callable(on_delivery)
        chosen: cython.int = -1 if partition is None else _checked_partition(partition)
        found: Any = self.accumulator.topics.get(topic)
        if found is None:
            found = self._find_topic(topic, chosen)
            if found is None:
                return UnsentRecord(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        info: TopicInfo = found
        if info.metadata_version != self.accumulator.metadata_version or chosen >= info.partition_count:
            found = self._find_topic(topic, chosen)
            if found is None:
                return UnsentRecord(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            info = found
        key_bytes: bytes | None
        value_bytes: bytes | None
        frozen: tuple[Any, ...] = () if headers is None else _freeze_headers(headers)
        seen: Any = list(frozen) if self._shows_headers else frozen
        if self._key_serializer is None:
            key_bytes = key if key is None or type(key) is bytes else _as_bytes(key, "key")
        else:
            key_bytes = _serialized(self._key_serializer, topic, key, seen, "key")
        if self._value_serializer is None:
            value_bytes = value if value is None or type(value) is bytes else _as_bytes(value, "value")
        else:
            value_bytes = _serialized(self._value_serializer, topic, value, seen, "value")
        if self._shows_headers:
            frozen = _freeze_headers(seen)
        size: cython.Py_ssize_t = RECORD_OVERHEAD + _field_size(key_bytes) + _field_size(value_bytes)
        size += _headers_size(frozen) if frozen else 1
        if chosen < 0 and key_bytes is not None and not self._custom and not self._ignore_keys:
            unsigned: cython.uint = murmur2_at(key_bytes, 0, len(key_bytes))  # type: ignore[arg-type]  # the stub has no bytes
            chosen = (unsigned & 0x7FFFFFFF) % info.partition_count
        if size + BATCH_OVERHEAD > self._max_request_size or size + BATCH_OVERHEAD > self._buffer_memory:
            raise self._too_large(size + BATCH_OVERHEAD)
        timestamp: Any = timestamp_ms
        if timestamp is None:
            milliseconds: cython.longlong = wall_clock_ms() if self._wall_clock_ms is None else self._wall_clock_ms()
            if milliseconds != self._last_milliseconds:
                self._last_milliseconds = milliseconds
                self._last_timestamp = milliseconds
            # The same object for all records of a millisecond: the callbacks' list keeps it.
            timestamp = self._last_timestamp
        else:
            timestamp = _checked_timestamp(timestamp)
        future: FutureRecordMetadata | None = None
        if not self._custom or chosen >= 0:
            future = self.accumulator._append_to_last(
                info, chosen, timestamp, key_bytes, value_bytes, frozen, on_delivery, size
            )
        if future is None:
            record: Any = EncodedRecord(timestamp, key_bytes, value_bytes, frozen, on_delivery, size)
            return SlowAppend(topic, chosen, record, key, value)
        return future

    def _too_large(self, size: int) -> RecordTooLargeError:
        if size > self._max_request_size:
            return RecordTooLargeError(
                f"The record is {size} bytes when serialized, more than max.request.size allows "
                f"({self._max_request_size}); send smaller records or raise it"
            )
        return RecordTooLargeError(
            f"The record is {size} bytes when serialized, more than the whole buffer.memory ({self._buffer_memory}); "
            "send smaller records or raise it"
        )


@cython.cclass
class RecordSending:
    """`Producer.send`; `_send_other`, `_finish_send` and `_failed` of a Producer do what is not usual."""

    _send_path: Any = cython.declare(object, visibility="public")

    def send(
        self,
        topic: Any,
        value: Any = None,
        key: Any = None,
        partition: Any = None,
        timestamp_ms: Any = None,
        headers: Any = None,
        on_delivery: Any = None,
    ) -> FutureRecordMetadata:
        """See `Producer.send`."""
        producer: Any = self
        future: FutureRecordMetadata
        if type(topic) is not str:
            given: Any = (value, key, partition, timestamp_ms, headers)
            future = producer._send_other(topic, given, on_delivery)
            return future
        path: Any = self._send_path
        sent: Any
        try:
            if type(path) is SendPath:
                usual: SendPath = path
                sent = usual._do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            else:
                sent = path.do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
            if type(sent) is FutureRecordMetadata:
                return cython.cast(FutureRecordMetadata, sent)
            future = producer._finish_send(sent)
            return future
        except ApiError as error:
            future = producer._failed(topic, partition, error, on_delivery)
            return future


def _checked_partition(partition: Any) -> int:
    if type(partition) is not int:
        if type(partition) is bool or not hasattr(partition, "__index__"):
            raise IllegalTypeError(f"partition is an int or None, not {type(partition).__name__}: {partition!r}")
        partition = index(partition)
    if partition < 0:
        raise IllegalArgumentError(f"A partition is never negative: {partition}. Leave it out to have one chosen")
    if partition > 0x7FFFFFFF:
        raise IllegalArgumentError(f"partition is at most 2147483647, not {partition}")
    number: int = partition
    return number


def _checked_timestamp(timestamp: Any) -> int:
    if type(timestamp) is not int:
        if not hasattr(timestamp, "__index__"):
            raise IllegalTypeError(
                f"timestamp_ms is an int of epoch milliseconds or None, not {type(timestamp).__name__}: {timestamp!r}"
            )
        timestamp = index(timestamp)
    if timestamp < 0 or timestamp > 0x7FFFFFFFFFFFFFFF:
        raise IllegalArgumentError(f"timestamp_ms is from 0 to 2**63 - 1 and never negative: {timestamp}")
    number: int = timestamp
    return number


def _not_callable(on_delivery: Any) -> IllegalTypeError:
    return IllegalTypeError(
        f"on_delivery is a function of metadata and error, or None, not {type(on_delivery).__name__}: {on_delivery!r}"
    )


def _freeze_headers(headers: Any) -> tuple[Any, ...]:
    from barnabas.client.producer.producer_record import freeze_headers

    return freeze_headers(headers)


def _as_bytes(data: Any, what: str) -> bytes:
    from barnabas.client.serializers import as_bytes

    return as_bytes(data, what)


def _serialized(serializer: Any, topic: str, data: Any, headers: Any, what: str) -> bytes | None:
    from barnabas.client.serializers import apply_serializer

    return apply_serializer(serializer, topic, data, headers, what)
