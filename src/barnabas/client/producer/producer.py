"""`Producer`: sends records to topics."""

from __future__ import annotations

import random
import threading
import time
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from barnabas.client.producer import lifetime
from barnabas.client.producer.append import FutureRecordMetadata, RecordSending, TopicInfo
from barnabas.client.producer.producer_base import CLOSED, DeliveryCallback, K, ProducerBase, V
from barnabas.client.producer.producer_interceptors import InterceptingSendPath
from barnabas.client.producer.producer_metrics import FLUSH, METADATA_WAIT
from barnabas.client.producer.producer_record import ProducerRecord
from barnabas.client.producer.producer_transactions import ProducerTransactions
from barnabas.client.producer.sender_thread import SenderThread
from barnabas.client.serializers import SerializerSetting, given_serializers
from barnabas.client.telemetry.reports_telemetry import answered
from barnabas.clock import wall_clock_ms
from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    IllegalTypeError,
    KafkaTimeoutError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import Cluster, PartitionInfo
    from barnabas.client.producer.send_table import TableFuture


class Producer(RecordSending, ProducerTransactions, ProducerBase[K, V]):
    """Apache Kafka's KafkaProducer. Any number of threads may share one.

    `send()` puts a record into a batch on the caller's thread and returns at once; the Sender thread takes the batches
    to the brokers. By default a record is acknowledged by all in-sync replicas, stored exactly once per `send()` and
    in order per partition (acks=all, enable.idempotence=true).

    Settings are Kafka's, as a dict with dots or as keywords: `Producer(bootstrap_servers="localhost:9092",
    linger_ms=20, compression_type="zstd")`. With a `transactional.id` records are sent in transactions:
    `init_transactions()` once, then `with producer.transaction(): ...`.

    The types of keys and values follow from the serializers: a type checker sees a `Producer[str, Order]`.

    Raises `ConfigError` for settings that are unknown, out of range or contradictory.
    """

    #: The id of the process that made the producer.
    owner: int

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_serializer: SerializerSetting[K] = None,
        value_serializer: SerializerSetting[V] = None,
        **settings: Any,
    ) -> None:
        settings |= given_serializers(key_serializer=key_serializer, value_serializer=value_serializer)
        super().__init__(config, settings, clock=time.monotonic, wall_clock_ms=wall_clock_ms, rng=random.Random())
        if self._interceptors:
            self._send_path = InterceptingSendPath(self._send_path, self._interceptors)
        telemetry = None if self._telemetry is None else self._telemetry.sender
        self._thread = SenderThread(self._sender, self._accumulator, self._config.client_id, self._max_block, telemetry)
        self._thread.start()
        lifetime.watch(self)

    # Sending

    if TYPE_CHECKING:

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
            """See `RecordSending.send`, which is compiled."""

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

    def _await_metadata(self, topic: str, partition: int) -> tuple[TopicInfo, float]:
        version = self._accumulator.metadata_version
        started = time.monotonic()
        cluster = self._wait_on_metadata(topic, partition)
        return self._topic_info(topic, cluster, version), time.monotonic() - started

    def _wait_on_metadata(self, topic: str, partition: int = -1) -> Cluster:
        cluster = self._known_cluster(topic, partition)
        if cluster is not None:
            return cluster
        with self._metrics.times.spent(METADATA_WAIT):
            return self._wait_for_cluster(topic, partition)

    def _wait_for_cluster(self, topic: str, partition: int) -> Cluster:
        metadata = self._metadata
        started = time.monotonic()
        while (cluster := self._known_cluster(topic, partition)) is None:
            remaining = self._max_block - (time.monotonic() - started)
            version = metadata.request_update_for_topic(topic)
            self._client.wakeup()
            try:
                metadata.await_update(version, max(0.0, remaining))
            except KafkaTimeoutError:
                raise self._metadata_timeout(topic, partition) from None
            metadata.raise_error_for_topic(topic)
        return cluster

    def _append_slowly(
        self, topic: str, info: TopicInfo, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
        headers: tuple[Any, ...], on_delivery: Any, size: int, key_object: Any, value_object: Any, waited: float,
    ) -> FutureRecordMetadata:  # fmt: skip
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
            wall_clock_ms(),
            self._client.wakeup,
        )

    # Waiting and asking

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches now and wait until every record sent before has its result.

        Raises `KafkaTimeoutError` when that takes longer than `timeout` seconds; the records stay on their way.
        """
        lifetime.check(self)
        self._check_may_wait("flush()")
        with self._metrics.times.spent(FLUSH):
            self._accumulator.begin_flush()
            self._client.wakeup()
            deadline = None if timeout is None else time.monotonic() + timeout
            is_flushed = self._accumulator.await_flush_completion(deadline)
        if not is_flushed:
            raise KafkaTimeoutError(
                f"{self._accumulator.incomplete_record_count()} records were not acknowledged within {timeout} s; they "
                "are still being sent"
            )

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, by number; blocks up to max.block.ms for its metadata.

        Raises `KafkaTimeoutError` when that does not come, `InvalidTopicError`, `TopicAuthorizationError`.
        """
        lifetime.check(self)
        if self._send_path.closed_reason is not None:
            raise IllegalStateError(self._send_path.closed_reason)
        return list(self._wait_on_metadata(topic).partitions_for_topic(topic))

    def client_instance_id(self, timeout: float | None = None) -> bytes:
        """The id (16 bytes) that the cluster gave this client for its telemetry (KIP-714).

        Raises `KafkaTimeoutError` when none comes within `timeout` seconds (max.block.ms), `UnsupportedVersionError`
        when the brokers take no telemetry, `IllegalStateError` when `enable.metrics.push` is off.
        """
        lifetime.check(self)
        self._check_may_wait("client_instance_id()")
        sender = self._telemetry_sender(timeout)
        sender.ask_for_instance_id()
        self._client.wakeup()
        wait = self._max_block if timeout is None else timeout
        sender.await_answer(wait)
        return answered(sender, wait, self._client.failure_to_connect)

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
