"""`MockProducer`: a producer without a broker, for the tests of programs that send."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from barnabas.client.cluster import PartitionInfo
from barnabas.client.producer.append import FutureRecordMetadata, RecordMetadata, new_future
from barnabas.client.producer.produce_request_result import ProduceRequestResult
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.transaction import Transaction
from barnabas.client.producer.transaction_calls import leave_transaction
from barnabas.client.serializers import apply_serializer, as_bytes, resolve_serializer
from barnabas.client.steps import Steps, at_once
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
)
from barnabas.network.metric_group import Measured, MetricGroup
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.partitioner import partition_for_key
from barnabas.testing.mock_telemetry import MockTelemetry

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.send_table import Group, TableFuture

# No row is too large here.
_MOST_BYTES = 1 << 30

K = TypeVar("K")
V = TypeVar("V")
DeliveryCallback = Callable[[RecordMetadata, "BaseException | None"], object]
GroupOffsets = dict[str, dict[TopicPartition, "OffsetAndMetadata"]]


class _Completion:
    """A record that waits for its result."""

    def __init__(self, future: FutureRecordMetadata, offset: int, on_delivery: DeliveryCallback | None) -> None:
        self.future = future
        self.offset = offset
        self.on_delivery = on_delivery

    def complete(self, error: KafkaError | None) -> None:
        result = self.future.request_result
        result.set(-1 if error is not None else self.offset, -1, error)
        if self.on_delivery is not None:
            result.run_callback(self.on_delivery, *self.future.metadata_and_error())
        result.complete()


class MockProducer(MockTelemetry, Measured, Generic[K, V]):
    """Has the methods of `Producer`, keeps the records, and succeeds at once or when the test says so.

    But for prepared transactions (KIP-939), which outlive their producer: those take a broker.

    With `auto_complete=False` a record is pending until `complete_next()`, `error_next(error)` or `flush()`. Offsets
    count from 0 per partition. `partitions` says how many a topic has (1 where it says nothing). Setting
    `send_exception`, `flush_exception`, `init_transaction_exception`, `begin_transaction_exception`,
    `send_offsets_to_transaction_exception`, `commit_transaction_exception`, `abort_transaction_exception`,
    `partitions_for_exception` or `close_exception` makes that method raise it. Threads may share one.
    """

    def __init__(
        self,
        auto_complete: bool = True,
        *,
        key_serializer: Any = None,
        value_serializer: Any = None,
        partitions: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.send_exception: Exception | None = None
        self.flush_exception: Exception | None = None
        self.init_transaction_exception: Exception | None = None
        self.begin_transaction_exception: Exception | None = None
        self.send_offsets_to_transaction_exception: Exception | None = None
        self.commit_transaction_exception: Exception | None = None
        self.abort_transaction_exception: Exception | None = None
        self.partitions_for_exception: Exception | None = None
        self.close_exception: Exception | None = None
        self.closed = False
        self.transaction_initialized = False
        self.transaction_in_flight = False
        self.transaction_committed = False
        self.transaction_aborted = False
        self._has_failed = False
        self.sent_offsets = False
        self.commit_count = 0
        self._auto_complete = auto_complete
        self._key_serializer = resolve_serializer(key_serializer, "key_serializer")
        self._value_serializer = resolve_serializer(value_serializer, "value_serializer")
        self._partition_counts = dict(partitions or {})
        self._lock = threading.RLock()
        self._completions: deque[_Completion] = deque()
        self._next_offsets: dict[TopicPartition, int] = {}
        self._sent: list[ProducerRecord] = []
        self._uncommitted: list[ProducerRecord] = []
        self._offsets_history: list[GroupOffsets] = []
        self._uncommitted_offsets: GroupOffsets = {}
        self._failed_in_transaction: KafkaError | None = None

    # What programs call

    def send(
        self,
        topic: str | ProducerRecord,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None] | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> FutureRecordMetadata:
        """As `Producer.send`; raises `IllegalStateError` when closed, or outside a transaction once initialized."""
        if isinstance(headers, Mapping):
            headers = headers.items()
        record = (
            topic
            if isinstance(topic, ProducerRecord)
            else ProducerRecord(topic, value, key, partition, timestamp_ms, headers)
        )
        with self._lock:
            self._check_may_send("send()")
            completion = self._serialize_and_append(record, on_delivery)
        self._complete_by_default(completion)
        return completion.future

    def send_table(self, topic: str, table: pa.Table | pa.RecordBatch) -> TableFuture:
        """As `Producer.send_table`; each row is kept as a record, whose key and value are bytes."""
        from barnabas.client.producer.send_table import TableFuture

        with self._lock:
            self._check_may_send("send_table()")
            groups = _groups_of(topic, table, self._partition_counts.get(topic, 1))
            future = TableFuture(table.num_rows, [group.places for group in groups])
            rows = [row for group in groups for row in _records_of(topic, group)]
            completions = [self._append(row, None, row.key, row.value) for row in rows]
        for completion in completions:
            future.add(completion.future.request_result, 0, 0)
            self._complete_by_default(completion)
        return future

    def _check_may_send(self, operation: str) -> None:
        self._check_open(operation)
        _raise(self.send_exception)
        if self.transaction_initialized and not self.transaction_in_flight and not self._has_failed:
            raise IllegalStateError(f"{operation} needs a transaction: call begin_transaction() first")

    def _complete_by_default(self, completion: _Completion) -> None:
        if self._has_failed:
            completion.complete(_fenced())
        elif self._auto_complete:
            completion.complete(None)

    def _serialize_and_append(self, record: ProducerRecord, on_delivery: DeliveryCallback | None) -> _Completion:
        headers = list(record.headers)
        key = _serialized(self._key_serializer, record.topic, record.key, headers, "key")
        value = _serialized(self._value_serializer, record.topic, record.value, headers, "value")
        for added in headers[len(record.headers) :]:
            record.headers.add(*added)
        return self._append(record, on_delivery, key, value)

    def _append(
        self, record: ProducerRecord, on_delivery: DeliveryCallback | None, key: bytes | None, value: bytes | None
    ) -> _Completion:
        record.headers.set_read_only()
        tp = TopicPartition(record.topic, self._partition(record, key))
        offset = self._next_offsets.get(tp, 0)
        timestamp = -1 if record.timestamp_ms is None else record.timestamp_ms
        completion = _Completion(new_future(ProduceRequestResult(tp), 0, timestamp, key, value), offset, on_delivery)
        if not self._has_failed:
            self._next_offsets[tp] = offset + 1
            (self._uncommitted if self.transaction_in_flight else self._sent).append(record)
            if not self._auto_complete:
                self._completions.append(completion)
        return completion

    def _partition(self, record: ProducerRecord, key: bytes | None) -> int:
        count = self._partition_counts.get(record.topic, 1)
        if record.partition is None:
            return 0 if key is None else partition_for_key(key, count)
        if record.partition >= count:
            raise IllegalArgumentError(f"Topic {record.topic!r} has {count} partitions here, none {record.partition}")
        return record.partition

    def flush(self, timeout: float | None = None) -> None:
        """Complete every pending record."""
        self._check_open("flush()")
        _raise(self.flush_exception)
        while self.complete_next():
            pass

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions, none of which has a leader."""
        _raise(self.partitions_for_exception)
        return [PartitionInfo(topic, number) for number in range(self._partition_counts.get(topic, 1))]

    def metric_groups(self) -> list[MetricGroup]:
        """No metrics."""
        return []

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """No metrics."""
        return {}

    def close(self, timeout: float | None = None) -> None:
        """Take no more records; a second call does nothing."""
        _raise(self.close_exception)
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Transactions

    def init_transactions(self, timeout: float | None = None) -> None:
        """As `Producer.init_transactions`."""
        self._check_open("init_transactions()")
        self._check_fenced()
        if self.transaction_initialized:
            raise IllegalStateError("init_transactions() is called once")
        _raise(self.init_transaction_exception)
        self.transaction_initialized = True

    def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`."""
        self._check_transactional("begin_transaction()", in_flight=False)
        _raise(self.begin_transaction_exception)
        self.transaction_in_flight = True
        self.transaction_committed = self.transaction_aborted = self.sent_offsets = False

    def transaction(self) -> Transaction:
        """As `Producer.transaction`."""
        return Transaction(self.begin_transaction, self._leave_transaction)

    def _leave_transaction(self, error: BaseException | None) -> Steps[None]:
        return leave_transaction(
            error,
            lambda: at_once(self.commit_transaction),
            lambda: at_once(self.abort_transaction),
            lambda: self._has_failed,
        )

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """As `Producer.send_offsets_to_transaction`."""
        from barnabas.client.consumer.offsets import OffsetAndMetadata

        self._check_transactional("send_offsets_to_transaction()", in_flight=True)
        _raise(self.send_offsets_to_transaction_exception)
        if not offsets:
            return
        group_id = group_metadata if isinstance(group_metadata, str) else group_metadata.group_id
        settled = {
            tp: OffsetAndMetadata(offset) if isinstance(offset, int) else offset for tp, offset in offsets.items()
        }
        self._uncommitted_offsets.setdefault(group_id, {}).update(settled)
        self.sent_offsets = True

    def commit_transaction(self, timeout: float | None = None) -> None:
        """As `Producer.commit_transaction`; completes every pending record."""
        self._check_transactional("commit_transaction()", in_flight=True)
        _raise(self.commit_transaction_exception)
        self.flush()
        if self._failed_in_transaction is not None:
            raise TransactionAbortableError(f"call abort_transaction(). Reason: {self._failed_in_transaction}")
        self._sent += self._uncommitted
        if self._uncommitted_offsets:
            self._offsets_history.append(self._uncommitted_offsets)
        self._end_transaction()
        self.transaction_committed = True
        self.commit_count += 1

    def abort_transaction(self, timeout: float | None = None) -> None:
        """As `Producer.abort_transaction`; completes every pending record."""
        self._check_transactional("abort_transaction()", in_flight=True)
        _raise(self.abort_transaction_exception)
        self.flush()
        self._end_transaction()
        self.transaction_aborted = True

    def _end_transaction(self) -> None:
        self._uncommitted, self._uncommitted_offsets = [], {}
        self._failed_in_transaction = None
        self.transaction_in_flight = False

    def _check_open(self, operation: str) -> None:
        if self.closed:
            raise IllegalStateError(f"{operation}: the MockProducer is closed")

    def _check_fenced(self) -> None:
        if self._has_failed:
            raise _fenced()

    def _check_transactional(self, operation: str, in_flight: bool) -> None:
        self._check_open(operation)
        self._check_fenced()
        if not self.transaction_initialized:
            raise IllegalStateError(f"{operation}: call init_transactions() first")
        if self.transaction_in_flight is not in_flight:
            state = "a transaction is open already" if self.transaction_in_flight else "no transaction is open"
            raise IllegalStateError(f"{operation}: {state}")

    # What tests call

    def complete_next(self) -> bool:
        """Let the oldest pending record succeed; False when there is none."""
        return self._complete_next(None)

    def error_next(self, error: KafkaError) -> bool:
        """Let the oldest pending record fail; False when there is none."""
        return self._complete_next(error)

    def _complete_next(self, error: KafkaError | None) -> bool:
        with self._lock:
            if not self._completions:
                return False
            completion = self._completions.popleft()
            if error is not None and self.transaction_in_flight:
                self._failed_in_transaction = error
        completion.complete(error)
        return True

    def fence_producer(self) -> None:
        """Behave from now on as if another producer had taken the transactional.id over."""
        self._check_open("fence_producer()")
        if not self.transaction_initialized:
            raise IllegalStateError("fence_producer(): call init_transactions() first")
        self._has_failed = True

    @property
    def flushed(self) -> bool:
        """Whether no record is pending."""
        return not self._completions

    def history(self) -> list[ProducerRecord]:
        """Every record that was sent, without those of transactions that are open or were aborted."""
        with self._lock:
            return list(self._sent)

    def uncommitted_records(self) -> list[ProducerRecord]:
        """Return the records of the open transaction."""
        with self._lock:
            return list(self._uncommitted)

    def uncommitted_offsets(self) -> GroupOffsets:
        """Return the offsets of the open transaction, by group."""
        return {group: dict(offsets) for group, offsets in self._uncommitted_offsets.items()}

    def consumer_group_offsets_history(self) -> list[GroupOffsets]:
        """Return the offsets of each committed transaction that had any."""
        return list(self._offsets_history)

    def clear(self) -> None:
        """Forget all records, offsets and pending results; transactions stay as they are."""
        with self._lock:
            self._sent, self._uncommitted = [], []
            self._uncommitted_offsets, self._offsets_history = {}, []
            self._completions.clear()
            self._failed_in_transaction = None
            self.sent_offsets = False


def _groups_of(topic: str, table: pa.Table | pa.RecordBatch, partition_count: int) -> list[Group]:
    """Return the rows as `Producer.send_table` would deal them out."""
    from barnabas.client.cluster import Cluster, TopicInfo
    from barnabas.client.producer.send_table import dealt_out

    partitions = tuple(PartitionInfo(topic, number) for number in range(partition_count))
    cluster = Cluster(topics={topic: TopicInfo(topic, None, False, partitions)})
    return dealt_out(cluster, topic, table, _MOST_BYTES, -1)


def _records_of(topic: str, group: Group) -> Iterator[ProducerRecord]:
    """Return the rows as `Producer.send_table` would encode them; the sticky partition is 0."""
    from barnabas.records import read_batches
    from barnabas.records.table_encoder import encode_arrow

    for encoded in encode_arrow(group.rows, now_ms=-1, max_batch_size=_MOST_BYTES):
        for batch in read_batches(encoded):
            for row in batch:
                timestamp = None if row.timestamp < 0 else row.timestamp
                yield ProducerRecord(topic, row.value, row.key, max(0, group.partition), timestamp, row.headers)


def _serialized(serializer: Any, topic: str, data: Any, headers: Any, what: str) -> bytes | None:
    if serializer is not None:
        return apply_serializer(serializer, topic, data, headers, what)
    return None if data is None else as_bytes(data, what)


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def _fenced() -> ProducerFencedError:
    return ProducerFencedError("The MockProducer was fenced by fence_producer()")
