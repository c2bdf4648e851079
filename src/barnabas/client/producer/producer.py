"""`Producer`: sends records to topics."""

from __future__ import annotations

import random
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.client.client_utils import create_network_client
from barnabas.client.producer import lifetime
from barnabas.client.producer.append import FutureRecordMetadata, SendPath, TopicInfo, new_future
from barnabas.client.producer.buffer_pool import BufferPool
from barnabas.client.producer.produce_request_result import ProduceRequestResult, run_callback
from barnabas.client.producer.producer_config import IN_FLIGHT, ProducerConfig
from barnabas.client.producer.producer_interceptors import InterceptingSendPath, ProducerInterceptors
from barnabas.client.producer.producer_metrics import ProducerMetrics
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.producer_transactions import ProducerTransactions
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.record_metadata import RecordMetadata
from barnabas.client.producer.sender import Sender
from barnabas.client.producer.sender_thread import SenderThread
from barnabas.client.producer.transaction_manager import TransactionManager
from barnabas.client.producer.transactional_manager import TransactionalManager
from barnabas.client.producer_metadata import ProducerMetadata
from barnabas.client.serializers import resolve_serializer
from barnabas.errors import (
    ApiError,
    IllegalArgumentError,
    IllegalStateError,
    IllegalTypeError,
    InvalidTopicError,
    KafkaTimeoutError,
    name_of,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.builder import RecordBatchBuilder

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import Cluster, PartitionInfo
    from barnabas.client.producer.send_table import TableFuture

K = TypeVar("K")
V = TypeVar("V")
DeliveryCallback = Callable[[RecordMetadata, "BaseException | None"], object]

CLOSED = "The producer is closed; a closed producer takes no records, make a new one"


class Producer(ProducerTransactions, Generic[K, V]):
    """Apache Kafka's KafkaProducer. Any number of threads may share one.

    `send()` puts a record into a batch on the caller's thread and returns at once; the Sender thread takes the batches
    to the brokers. By default a record is acknowledged by all in-sync replicas, stored exactly once per `send()` and
    in order per partition (acks=all, enable.idempotence=true).

    Settings are Kafka's, as a dict with dots or as keywords: `Producer(bootstrap_servers="localhost:9092",
    linger_ms=20, compression_type="zstd")`. With a `transactional.id` records are sent in transactions:
    `init_transactions()` once, then `with producer.transaction(): ...`.

    Raises `ConfigError` for settings that are unknown, out of range or contradictory.
    """

    #: The id of the process that made the producer.
    owner: int

    def __init__(self, config: Mapping[str, Any] | None = None, **settings: Any) -> None:
        self._config = settled = ProducerConfig(config, settings)
        self._key_serializer = resolve_serializer(settled["key.serializer"], "key.serializer")
        self._value_serializer = resolve_serializer(settled["value.serializer"], "value.serializer")
        self._partitioner = settled.partitioner()
        self._max_block = settled.get_seconds("max.block.ms")
        rng = random.Random()
        self._metadata = ProducerMetadata(
            refresh_backoff=settled.get_seconds("retry.backoff.ms"),
            refresh_backoff_max=settled.get_seconds("retry.backoff.max.ms"),
            max_age=settled.get_seconds("metadata.max.age.ms"),
            max_idle=settled.get_seconds("metadata.max.idle.ms"),
            random=rng,
        )
        self._client = create_network_client(
            settled, settled.client_id, self._metadata,
            max_in_flight_requests_per_connection=settled.get_int(IN_FLIGHT), random=rng,
        )  # fmt: skip
        self._metrics = ProducerMetrics()
        self._transactions = self._make_transactions(settled, rng)
        manager = self._transactions or (TransactionManager() if settled.idempotent else None)
        self._accumulator = self._make_accumulator(settled, manager, rng)
        self._metadata.add_listener(self._accumulator.metadata_changed)
        if self._transactions is not None:
            self._transactions.refuse_records_by(self._accumulator.refuse)
        sender = Sender(
            self._client, self._metadata, self._accumulator, settled.sender_config(), self._metrics, manager
        )
        self._interceptors = ProducerInterceptors(settled["interceptor.classes"], settled.given)
        self._send_path = self._make_send_path(settled)
        self._thread = SenderThread(sender, self._accumulator, settled.client_id, self._max_block)
        self._thread.start()
        lifetime.watch(self)

    def _make_transactions(self, config: ProducerConfig, rng: random.Random) -> TransactionalManager | None:
        if config.transactional_id is None:
            return None
        two_phases = config.get_bool("transaction.two.phase.commit.enable")
        return TransactionalManager(
            config.transactional_id,
            2**31 - 1 if two_phases else config.get_int("transaction.timeout.ms"),
            config.retry_backoff(rng),
            self._client.api_versions,
            two_phases,
        )

    def _make_accumulator(
        self, config: ProducerConfig, manager: TransactionManager | None, rng: random.Random
    ) -> RecordAccumulator:
        codec, level = config.compression()
        return RecordAccumulator(
            batch_size=config.get_int("batch.size"),
            linger=config.get_seconds("linger.ms"),
            delivery_timeout=config.delivery_timeout,
            retry_backoff=config.retry_backoff(rng),
            buffer_pool=BufferPool(config.get_int("buffer.memory"), time.monotonic),
            new_builder=partial(_new_builder, codec, level),
            clock=time.monotonic,
            rng=rng,
            transaction_manager=manager,
            adaptive_partitioning=self._partitioner is None
            and config.get_bool("partitioner.adaptive.partitioning.enable"),
            availability_timeout=config.get_seconds("partitioner.availability.timeout.ms"),
            compresses=codec != "none",
        )

    def _make_send_path(self, config: ProducerConfig) -> SendPath | InterceptingSendPath:
        send_path = SendPath(
            self._accumulator,
            self._await_metadata,
            self._append_slowly,
            self._key_serializer,
            self._value_serializer,
            config.get_int("max.request.size"),
            config.get_int("buffer.memory"),
            self._partitioner is not None,
            config.get_bool("partitioner.ignore.keys"),
        )
        return InterceptingSendPath(send_path, self._interceptors) if self._interceptors else send_path

    # Sending

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
        if topic.__class__ is not str:
            return self._send_record(topic, on_delivery)
        try:
            return self._send_path.do_send(topic, value, key, partition, timestamp_ms, headers, on_delivery)
        except ApiError as error:
            return self._failed(topic, partition, error, on_delivery)

    def _send_record(self, record: Any, on_delivery: DeliveryCallback | None) -> FutureRecordMetadata:
        if isinstance(record, ProducerRecord):
            return self.send(
                record.topic,
                record.value,
                record.key,
                record.partition,
                record.timestamp_ms,
                record.headers,
                on_delivery,
            )
        if isinstance(record, str):
            raise IllegalTypeError(f"A topic is a plain str, not a subclass of it: {type(record).__name__}")
        raise IllegalTypeError(f"send() takes a topic's name or a ProducerRecord, not {type(record).__name__}")

    def _failed(
        self, topic: Any, partition: Any, error: ApiError, on_delivery: DeliveryCallback | None
    ) -> FutureRecordMetadata:
        tp = TopicPartition(topic, -1 if partition is None else partition)
        result = ProduceRequestResult(tp)
        result.set(-1, -1, error)
        future = new_future(result, 0, -1, None, None)
        if on_delivery is not None:
            run_callback(tp, on_delivery, *future.metadata_and_error())
        result.complete()
        self._metrics.record_errors(1)
        return future

    def _await_metadata(self, topic: str, partition: int) -> tuple[TopicInfo, float]:
        """Bring what is kept for the topic up to date with the metadata; returns it and the seconds that took."""
        version = self._accumulator.metadata_version
        started = time.monotonic()
        cluster = self._wait_on_metadata(topic, partition)
        info = self._accumulator.topic_info(topic)
        info.partition_count = cluster.partition_count_for_topic(topic) or 0
        info.metadata_version = version
        return info, time.monotonic() - started

    def _wait_on_metadata(self, topic: str, partition: int = -1) -> Cluster:
        metadata = self._metadata
        started = time.monotonic()
        while True:
            cluster = metadata.fetch()
            if topic in cluster.invalid_topics or not topic:
                raise InvalidTopicError(f"{topic!r} is not a valid name of a topic")
            metadata.add(topic, time.monotonic())
            count = cluster.partition_count_for_topic(topic)
            if count and partition < count:
                return cluster
            remaining = self._max_block - (time.monotonic() - started)
            version = metadata.request_update_for_topic(topic)
            self._client.wakeup()
            try:
                metadata.await_update(version, max(0.0, remaining))
            except KafkaTimeoutError:
                raise self._metadata_timeout(topic, partition, count) from None
            metadata.raise_error_for_topic(topic)

    def _metadata_timeout(self, topic: str, partition: int, count: int | None) -> KafkaTimeoutError:
        waited = f"after max.block.ms ({self._max_block * 1000:.0f} ms)"
        if count:
            return KafkaTimeoutError(f"Topic {topic!r} has {count} partitions, none numbered {partition}, {waited}")
        nodes = ", ".join(f"{node.host}:{node.port}" for node in self._metadata.fetch().nodes)
        code = self._metadata.error_for_topic(topic)
        if code:
            return KafkaTimeoutError(f"Topic {topic!r} is not in the metadata of {nodes} {waited}: {name_of(code)}")
        return KafkaTimeoutError(
            f"No metadata of topic {topic!r} came from {nodes} {waited}; is a broker listening there?"
        )

    def _append_slowly(
        self, topic: str, info: TopicInfo, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
        headers: tuple[Any, ...], on_delivery: Any, size: int, key_object: Any, value_object: Any, waited: float,
    ) -> FutureRecordMetadata:  # fmt: skip
        """Append where it takes a new batch or a custom partitioner, and wake the Sender if there is a new batch."""
        cluster = self._metadata.fetch()
        if cluster.partition_count_for_topic(topic) is None:
            # The client starts again from its bootstrap servers, and has forgotten the topic.
            started = time.monotonic()
            cluster = self._wait_on_metadata(topic, partition)
            waited += time.monotonic() - started
        record = (timestamp, key, value, headers, on_delivery)
        append = partial(
            self._accumulator.append, size=size, max_time_to_block=max(0.0, self._max_block - waited), cluster=cluster
        )
        chosen = partition
        custom = self._partitioner is not None and partition < 0
        if custom:
            choose = partial(self._partition, topic, key_object, key, value_object, value, cluster)
            chosen = choose()
        result = append(topic, chosen, *record, abort_on_new_batch=custom)
        if result.abort_for_new_batch:
            on_new_batch = getattr(self._partitioner, "on_new_batch", None)
            if on_new_batch is not None:
                on_new_batch(topic, cluster, chosen)
                chosen = choose()
            result = append(topic, chosen, *record, abort_on_new_batch=False)
        if result.batch_is_full or result.new_batch_created:
            self._client.wakeup()
        assert result.future is not None
        return result.future

    def _partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        chosen = self._partitioner.partition(topic, key, key_bytes, value, value_bytes, cluster)
        count = cluster.partition_count_for_topic(topic) or 0
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            raise IllegalArgumentError(
                f"The partitioner {type(self._partitioner).__qualname__} chose partition {chosen!r} of topic "
                f"{topic!r}, which has 0 to {count - 1}"
            )
        return chosen

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
        from barnabas.client.producer.send_table import send_table

        if self._send_path.closed_reason is not None:
            raise IllegalStateError(self._send_path.closed_reason)
        cluster = self._wait_on_metadata(topic)
        most = min(self._config.get_int("max.request.size"), self._config.get_int("buffer.memory"))
        return send_table(
            self._accumulator,
            cluster,
            topic,
            table,
            self._max_block,
            most,
            int(time.time() * 1000),
            self._client.wakeup,
        )

    # Waiting and asking

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches now and wait until every record sent before has its result.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` seconds; the records stay on their way.
        """
        lifetime.check(self)
        self._check_not_in_callback("flush()")
        self._accumulator.begin_flush()
        self._client.wakeup()
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._accumulator.await_flush_completion(deadline):
            raise KafkaTimeoutError(
                f"{self._accumulator.incomplete_record_count()} records were not acknowledged within {timeout} s; they "
                "are still being sent"
            )

    def _check_not_in_callback(self, what: str) -> None:
        if threading.current_thread() is self._thread:
            raise IllegalStateError(f"{what} in a callback would wait for itself: callbacks run in the Sender thread")

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, by number; blocks up to max.block.ms for its metadata.

        Raises `KafkaTimeoutError` when that does not come, `InvalidTopicError`, `TopicAuthorizationError`.
        """
        lifetime.check(self)
        if self._send_path.closed_reason is not None:
            raise IllegalStateError(self._send_path.closed_reason)
        return list(self._wait_on_metadata(topic).partitions_for_topic(topic))

    def metrics(self) -> dict[str, float]:
        """Kafka's producer metrics by name: times in milliseconds, sizes in bytes, since the producer was made."""
        pool = self._accumulator.free
        return {
            **self._metrics.snapshot(),
            "buffer-total-bytes": pool.total_memory,
            "buffer-available-bytes": pool.available_memory,
            "buffer-exhausted-total": pool.exhausted_total,
            "bufferpool-wait-time-ns-total": pool.wait_seconds_total * 1e9,
            "waiting-threads": pool.queued,
            "requests-in-flight": self._client.in_flight_request_count(),
        }

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, wait for the results, and end; a second call does nothing.

        After `timeout` seconds whatever is not acknowledged fails with an error, through its future and callback;
        0 fails it at once. From a callback the timeout is 0. Without a timeout delivery.timeout.ms bounds the wait.
        """
        if timeout is not None and timeout < 0:
            raise IllegalArgumentError(f"A timeout is never negative: {timeout}")
        if lifetime.is_foreign(self):
            return
        self._send_path.closed_reason = self._send_path.closed_reason or CLOSED
        if threading.current_thread() is self._thread:
            self._thread.force_close()
            return
        if timeout != 0:
            self._thread.initiate_close()
            self._thread.join(timeout)
        if self._thread.is_alive():
            self._thread.force_close()
            self._thread.join()
        self._metadata.close()
        close_partitioner = getattr(self._partitioner, "close", None)
        if close_partitioner is not None:
            close_partitioner()
        self._interceptors.close()

    def refuse(self, reason: str) -> None:
        """Take no records any more, without touching thread or sockets; for a forked child."""
        self._send_path.closed_reason = reason

    def __enter__(self) -> Producer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Not yet set when the constructor failed.
        thread = getattr(self, "_thread", None)
        if thread is None or not thread.is_running or lifetime.is_foreign(self):
            return
        thread.initiate_close()
        warnings.warn(
            f"{self!r} was never closed; its records are being sent, but nobody waits for them. Use it in a with "
            "statement, or call close()",
            ResourceWarning,
            stacklevel=2,
        )

    def __repr__(self) -> str:
        return f"<Producer {self._config.client_id}>"


def _new_builder(codec: str, level: int | None, capacity: int, ratio: float) -> RecordBatchBuilder:
    return RecordBatchBuilder(capacity, codec, level, 0, ratio)
