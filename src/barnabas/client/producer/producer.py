"""`Producer`: sends records to topics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast

from barnabas.client.environment import Environment
from barnabas.client.producer import arguments, forks_and_exit
from barnabas.client.producer.append import FutureRecordMetadata, RecordSending
from barnabas.client.producer.producer_base import DeliveryCallback, K, ProducerBase, V, record_fields
from barnabas.client.producer.producer_config import ProducerConfig
from barnabas.client.producer.producer_parts import ProducerParts
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.sender_thread import SenderThread
from barnabas.client.producer.thread_waits import ThreadWaits
from barnabas.client.producer.transaction import Transaction
from barnabas.client.producer.transactions.states import PreparedTxnState
from barnabas.client.serializers import SerializerSetting, given_serializers
from barnabas.client.steps import Steps, run

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import PartitionInfo
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.send_table import TableFuture
    from barnabas.client.producer.slow_append import SlowAppend, UnsentRecord
    from barnabas.config.typed_settings import ProducerSettings
    from barnabas.errors import ApiError
    from barnabas.protocol.topic_partition import TopicPartition

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: Callable[..., Any]) -> Callable[[F], F]:
    """Let a method be this compiled function, which costs less than a call of it would."""

    def stand_in(visible: F) -> F:
        function.__doc__ = visible.__doc__
        return cast("F", function)

    return stand_in


class Producer(RecordSending, ProducerBase[K, V]):
    """Apache Kafka's KafkaProducer. Any number of threads may share one.

    `send()` puts a record into a batch on the caller's thread and returns at once; the Sender thread takes the batches
    to the brokers. By default a record is acknowledged by all in-sync replicas, stored exactly once per `send()` and
    in order per partition (acks=all, enable.idempotence=true).

    Settings are Kafka's, as a dict with dots or as keywords: `Producer(bootstrap_servers="localhost:9092",
    linger_ms=20, compression_type="zstd")`. With a `transactional.id` records are sent in transactions:
    `init_transactions()` once, then `with producer.transaction(): ...`.

    The types of keys and values follow from the serializers: a type checker sees a `Producer[str, Order]`.

    The methods for transactions that talk to a broker wait up to max.block.ms, or `timeout` seconds. After a
    `KafkaTimeoutError` the operation is still in flight: call the method again. `TransactionAbortableError` says that
    the transaction must be aborted, `ProducerFencedError` that another producer has taken over; any other `KafkaError`
    that is not a usage error is the producer's end.

    Raises `ConfigError` for settings that are unknown, out of range or contradictory.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: SerializerSetting[K] = None,
        value_serializer: SerializerSetting[V] = None,
        environment: Environment | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        given = {**settings, **given_serializers(key_serializer=key_serializer, value_serializer=value_serializer)}
        parts = ProducerParts(ProducerConfig(config, given), environment or Environment())
        max_block = parts.config.get_seconds("max.block.ms")
        thread = SenderThread(parts.sender, parts.accumulator, parts.config.client_id, parts.clock, max_block)
        self._begin_calls(parts, ThreadWaits(parts, thread))
        self._send_path = self._core.send_path
        thread.telemetry = self._begin_telemetry(parts)
        thread.start()
        self._thread = thread
        forks_and_exit.close_at_exit(self)

    def _run(self, steps: Steps[T]) -> T:
        self._core.lifetime.check()
        return run(steps)

    # Sending

    @_compiled(RecordSending.send)
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
        """Send a record, or a `ProducerRecord`; returns its future at once.

        Blocks up to max.block.ms when the topic's metadata is not known or buffer.memory is full.
        `on_delivery(metadata, error)` runs in the Sender thread, in the order of sending per partition; `error` is
        None on success, else `metadata` has offset -1. What goes wrong with this record (too large, no metadata in
        time, not authorized) comes through the future and the callback.

        Raises `SerializationError` when key or value cannot be made bytes, `IllegalStateError` after `close()`,
        `IllegalTypeError` and `IllegalArgumentError` for arguments that make no sense.
        """
        return RecordSending.send(self, topic, value, key, partition, timestamp_ms, headers, on_delivery)

    # What the compiled `send` leaves to others.

    def _send_other(
        self, record: object, given: tuple[Any, ...], on_delivery: DeliveryCallback | None
    ) -> FutureRecordMetadata:
        topic, value, key, partition, timestamp_ms, headers = record_fields(record, given)
        return self.send(topic, value, key, partition, timestamp_ms, headers, on_delivery)

    def _finish_send(self, unfinished: SlowAppend | UnsentRecord) -> FutureRecordMetadata:
        return run(self._core.finish_send(unfinished))

    def _failed(
        self, topic: str, partition: int | None, error: ApiError, on_delivery: DeliveryCallback | None
    ) -> FutureRecordMetadata:
        return self._core.failed(topic, partition, error, on_delivery)

    def send_table(self, topic: str, table: pa.Table | pa.RecordBatch) -> TableFuture:
        """Send every row of an Arrow table as a record, encoded without Python objects per row; returns its future.

        Columns: `value`, and optionally `key` (both bytes or text), `headers` (list of structs of key and value),
        `partition` and `timestamp` (Arrow timestamps or epoch milliseconds); others are left alone. Where they are
        missing or null, partition and time are chosen as `send()` does. Rows with the same key or the same given
        partition keep their order. Serializers, interceptors and custom partitioners have no part in it. Blocks
        like `send()`.

        Raises `IllegalTypeError`, `IllegalArgumentError` or `RecordTooLargeError` before anything is sent, and
        `IllegalStateError` after `close()`.
        """
        return self._run(self._core.send_table(topic, table))

    # Waiting and asking

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches now and wait until every record sent before has its result.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` seconds; the records are still being sent.
        """
        self._run(self._core.flush(timeout))

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions, by number; blocks up to max.block.ms for its metadata.

        Raises `KafkaTimeoutError` when that does not come, `InvalidTopicError`, `TopicAuthorizationError`.
        """
        return self._run(self._core.partitions_for(topic))

    def client_instance_id(self, timeout: float | None = None) -> bytes:
        """Return the id (16 bytes) that the cluster gave this client for its telemetry (KIP-714).

        Raises `KafkaTimeoutError` when none comes within `timeout` seconds (max.block.ms), `UnsupportedVersionError`
        when the brokers take no telemetry, `IllegalStateError` when `enable.metrics.push` is off.
        """
        return self._run(self._core.client_instance_id(self._telemetry_sender(arguments.timeout(timeout)), timeout))

    # Transactions

    def init_transactions(self, timeout: float | None = None, *, keep_prepared_txn: bool = False) -> None:
        """Get an id and a new epoch, once, before the first transaction; what an earlier producer left is aborted.

        With `keep_prepared_txn` a transaction that was prepared is kept, to be ended by `complete_transaction`
        (KIP-939). Raises `TransactionalIdAuthorizationError`, `UnsupportedVersionError`.
        """
        self._run(self._calls.initialize(timeout, keep_prepared_txn))

    def transaction(self) -> Transaction:
        """Return a transaction as a context: `with` commits at its end, and aborts after an error.

        An error of a record, or of the commit, aborts too and is raised.
        """
        self._calls.manager("transaction()")
        return Transaction(self.begin_transaction, self._calls.leave)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction: they count if and only if its records do.

        `offsets` are those of the next records to read; `group_metadata` is the consumer's `group_metadata()`, by
        which the broker refuses a member that was replaced (KIP-447). The consumer must not commit by itself.
        Raises `CommitFailedError` where the group has moved on; the transaction must be aborted then.
        """
        self._run(self._calls.send_offsets(offsets, group_metadata, timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left, and commit: readers with isolation.level=read_committed see all of it.

        Raises `TransactionAbortableError` when a record could not be stored.
        """
        self._run(self._calls.commit(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort: readers with isolation.level=read_committed see nothing of it. Records not sent yet fail."""
        self._run(self._calls.abort(timeout))

    def prepare_transaction(self) -> PreparedTxnState:
        """Make the transaction outlive this producer, for a two-phase commit (KIP-939); returns what identifies it.

        Needs transaction.two.phase.commit.enable=true here and on the broker. `str` of the state is to be stored with
        the other participant's data; then commit, or after a crash `init_transactions(keep_prepared_txn=True)` and
        `complete_transaction(state)`.
        """
        return self._run(self._calls.prepare())

    def complete_transaction(self, prepared: PreparedTxnState | str, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one, else abort it; without one do nothing (KIP-939)."""
        self._run(self._calls.complete(prepared, timeout))

    # The end

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for the results, and end; a second call does nothing.

        After `timeout` seconds all that is not acknowledged fails with an error, through its future and callback;
        0 fails it at once. From a callback the timeout is 0. Without a timeout delivery.timeout.ms bounds the
        wait for brokers; a callback that never returns is waited for without bound, as in Java.
        """
        if not self._core.lifetime.is_foreign:
            run(self._core.close(timeout))

    def __enter__(self) -> Producer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        thread = getattr(self, "_thread", None)
        if thread is None or not thread.is_running or self._core.lifetime.is_foreign:
            return
        thread.initiate_close()
        warnings.warn(
            f"{self!r} was never closed; its records are being sent, but no call waits for them. Use it in a with "
            "statement, or call close()",
            ResourceWarning,
            stacklevel=2,
        )
