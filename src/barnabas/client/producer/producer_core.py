"""What a producer does in its calls: written once, as steps, for threads and for event loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.client.arguments import as_text
from barnabas.client.producer import arguments
from barnabas.client.producer.append import FutureRecordMetadata, SendPath, TopicInfo, new_future
from barnabas.client.producer.forks_and_exit import Lifetime
from barnabas.client.producer.produce_request_result import ProduceRequestResult
from barnabas.client.producer.producer_interceptors import InterceptingSendPath
from barnabas.client.producer.producer_metrics import FLUSH, METADATA_WAIT
from barnabas.client.producer.slow_append import SlowAppend, UnsentRecord
from barnabas.client.telemetry.reports_telemetry import answered
from barnabas.errors import (
    ApiError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    name_of,
)
from barnabas.network.metric_group import MetricGroup, with_app_info
from barnabas.network.network_metrics import network_metrics, node_metrics
from barnabas.network.sampled_stat import NAN
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import Cluster, PartitionInfo
    from barnabas.client.producer.append_results import RecordAppendResult
    from barnabas.client.producer.producer_parts import ProducerParts
    from barnabas.client.producer.send_table import TableFuture
    from barnabas.client.producer.waits import Waits
    from barnabas.client.steps import Steps
    from barnabas.client.telemetry.client_telemetry_sender import ClientTelemetrySender
    from barnabas.records.rows import ArrowRows

CLOSED = "The producer is closed; a closed producer takes no records, make a new one"

OnDelivery = Callable[[Any, Any], object] | None


class ProducerCore:
    """The calls of a producer. Those that return `Steps` may wait; those that end in `_nowait` never do.

    All but the transactions', which are `TransactionCalls`. The core refers to no shell, so that a forgotten producer
    can be collected.
    """

    def __init__(self, parts: ProducerParts, waits: Waits) -> None:
        self.parts = parts
        self._waits = waits
        self._clock = parts.clock
        self._accumulator = parts.accumulator
        self._metadata = parts.metadata
        self._partitioner = parts.partitioner
        self._interceptors = parts.interceptors
        self._started_at_ms = parts.environment.wall_clock_ms()
        self.max_block = parts.config.get_seconds("max.block.ms")
        self.lifetime = Lifetime(self)
        self.path: SendPath = parts.send_path(self.find_topic_nowait)
        #: What `send` calls: the path, behind the interceptors if there are any.
        self.send_path: SendPath | InterceptingSendPath = self.path
        if self._interceptors:
            self.send_path = InterceptingSendPath(self.path, self._interceptors)

    # Sending

    def check_open(self) -> None:
        """Raise `IllegalStateError` when the producer is closed."""
        if self.path.closed_reason is not None:
            raise IllegalStateError(self.path.closed_reason)

    def refuse(self, reason: str) -> None:
        """Take no records any more, without touching thread or sockets."""
        self.path.closed_reason = reason

    def finish_send(self, unfinished: SlowAppend | UnsentRecord) -> Steps[FutureRecordMetadata]:
        """Finish a `send()` where its path had to end; nothing is waited for after the record was taken."""
        deadline = self._clock() + self.max_block
        try:
            return (yield from self._finish_send(unfinished, deadline))
        except Exception as error:
            self._tell_refused(unfinished, error)
            raise

    def _finish_send(self, unfinished: SlowAppend | UnsentRecord, deadline: float) -> Steps[FutureRecordMetadata]:
        sent: FutureRecordMetadata | SlowAppend | UnsentRecord = unfinished
        while isinstance(sent, UnsentRecord):
            partition = -1 if sent.partition is None else sent.partition
            yield from self._wait_for_cluster(sent.topic, partition, deadline)
            sent = self.path.do_send(*sent)
        if isinstance(sent, SlowAppend):
            return (yield from self._append(sent, deadline))
        return sent

    def append_nowait(self, slow: SlowAppend) -> FutureRecordMetadata | None:
        """Append to a new batch if neither metadata nor memory nor a custom partitioner is needed first."""
        cluster = self._metadata.fetch()
        is_custom = self._partitioner is not None and slow.partition < 0
        if is_custom or cluster.partition_count_for_topic(slow.topic) is None:
            return None
        try:
            result = self._accumulator.append_nowait(slow.topic, slow.partition, slow.record, cluster)
        except Exception as error:
            self._tell_refused(slow, error)
            raise
        return None if result.future is None else self._appended(result, result.future)

    def _tell_refused(self, unfinished: SlowAppend | UnsentRecord, error: Exception) -> None:
        if self._interceptors:
            self._interceptors.on_refused(unfinished.topic, unfinished.partition, error)

    def _append(self, slow: SlowAppend, deadline: float) -> Steps[FutureRecordMetadata]:
        yield from self._waits.wait_for_turn()
        cluster = self._metadata.fetch()
        if cluster.partition_count_for_topic(slow.topic) is None:
            # The client starts again from its bootstrap servers, and has forgotten the topic.
            cluster = yield from self._wait_for_cluster(slow.topic, slow.partition, deadline)
        chosen = slow.partition
        is_custom = self._partitioner is not None and chosen < 0
        if is_custom:
            chosen = self._partition(slow, cluster)
        memory = None
        while True:
            result = self._accumulator.append_nowait(
                slow.topic, chosen, slow.record, cluster, abort_on_new_batch=is_custom, memory=memory
            )
            if result.future is not None:
                return self._appended(result, result.future)
            if is_custom:
                # There will be a new batch: the partitioner may choose another partition for it.
                is_custom = False
                on_new_batch = getattr(self._partitioner, "on_new_batch", None)
                if on_new_batch is not None:
                    on_new_batch(slow.topic, cluster, chosen)
                    chosen = self._partition(slow, cluster)
                continue
            memory = yield from self.parts.pool.wait_allocate(result.memory_needed, deadline - self._clock())
            cluster = self._metadata.fetch()

    def _appended(self, result: RecordAppendResult, future: FutureRecordMetadata) -> FutureRecordMetadata:
        if result.new_batch_created:
            self._waits.on_new_batch(future.request_result)
        if result.batch_is_full or result.new_batch_created:
            self.parts.client.wakeup()
        return future

    def _partition(self, slow: SlowAppend, cluster: Cluster) -> int:
        topic, record = slow.topic, slow.record
        chosen = self._partitioner.partition(topic, slow.key, record.key, slow.value, record.value, cluster)
        count = cluster.partition_count_for_topic(topic) or 0
        number = getattr(chosen, "__index__", lambda: -1)()
        if not 0 <= number < count:
            raise IllegalArgumentError(
                f"The partitioner {type(self._partitioner).__qualname__} chose partition {chosen!r} of topic "
                f"{topic!r}, which has 0 to {count - 1}"
            )
        return int(number)

    def failed(
        self, topic: str, partition: int | None, error: ApiError, on_delivery: OnDelivery
    ) -> FutureRecordMetadata:
        """Return the future of a record that never came into a batch; its callback is called at once."""
        tp = TopicPartition(topic, -1 if partition is None else partition)
        result = ProduceRequestResult(tp)
        result.set(-1, -1, error)
        future = new_future(result, 0, -1, None, None)
        self.parts.metrics.record_errors(1, self._clock())
        if self.parts.transactions is not None:
            self.parts.transactions.on_record_refused(error)
        try:
            if on_delivery is not None:
                result.run_callback(on_delivery, *future.metadata_and_error())
        finally:
            result.complete()
        return future

    def send_table(self, topic: str, table: pa.Table | pa.RecordBatch) -> Steps[TableFuture]:
        """See `Producer.send_table`."""
        from barnabas.client.producer.send_table import TableFuture, dealt_out
        from barnabas.records.table_encoder import arrow_rows

        self.check_open()
        topic = as_text(topic, "topic")
        cluster = yield from self._wait_for_cluster(topic, -1, self._clock() + self.max_block)
        config, now_ms = self.parts.config, self.parts.environment.wall_clock_ms()
        most = min(config.get_int("max.request.size"), config.get_int("buffer.memory"))
        groups = dealt_out(cluster, topic, table, most, now_ms)
        future = TableFuture(table.num_rows, [group.places for group in groups])
        try:
            for partition, chunk, _places in groups:
                rows, row = arrow_rows(chunk, now_ms), 0
                while row < rows.count:
                    row = yield from self._append_rows(future, topic, partition, rows, row)
        except ApiError as error:
            future.fail(error)
        return future

    def _append_rows(self, future: TableFuture, topic: str, partition: int, rows: ArrowRows, row: int) -> Steps[int]:
        yield from self._waits.wait_for_turn()
        deadline = self._clock() + self.max_block
        memory = None
        while True:
            cluster = self._metadata.fetch()
            appended = self._accumulator.append_rows_nowait(topic, partition, rows, row, cluster, memory)
            if appended.request_result is not None:
                break
            memory = yield from self.parts.pool.wait_allocate(appended.memory_needed, deadline - self._clock())
        future.add(appended.request_result, appended.first, appended.last)
        if appended.new_batch_created:
            self._waits.on_new_batch(appended.request_result)
        if appended.batch_is_full or appended.new_batch_created:
            self.parts.client.wakeup()
        return appended.next_row

    # Metadata

    def find_topic_nowait(self, topic: str, partition: int) -> TopicInfo | None:
        """Return what is kept for the topic, brought up to date with the metadata.

        None where that lacks the partition.
        """
        version = self._accumulator.metadata_version
        cluster = self._known_cluster(topic, partition)
        if cluster is None:
            return None
        info = self._accumulator.topic_info(topic)
        info.partition_count = cluster.partition_count_for_topic(topic) or 0
        info.metadata_version = version
        return info

    def _known_cluster(self, topic: str, partition: int) -> Cluster | None:
        """Return the snapshot if it has the topic and the partition (-1 for any), else None.

        Notes that the topic is used.
        """
        self.parts.exit.raise_noted()
        cluster = self._metadata.fetch()
        if cluster.partition_count_for_topic(topic) is None:
            # What cannot be sent must not come among the topics that the metadata is asked for.
            as_text(topic, "topic")
        if topic in cluster.invalid_topics or not topic:
            raise InvalidTopicError(f"{topic!r} is not a valid name of a topic")
        self._metadata.add(topic, self._clock())
        count = cluster.partition_count_for_topic(topic)
        return cluster if count and partition < count else None

    def _wait_for_cluster(self, topic: str, partition: int, deadline: float) -> Steps[Cluster]:
        cluster = self._known_cluster(topic, partition)
        if cluster is not None:
            return cluster
        with self.parts.metrics.times.spent(METADATA_WAIT):
            while (cluster := self._known_cluster(topic, partition)) is None:
                version = self._metadata.request_update_for_topic(topic)
                self.parts.client.wakeup()
                try:
                    left = max(0.0, deadline - self._clock())
                    yield from self._waits.wait_for_metadata(self._metadata, version, left)
                except KafkaTimeoutError:
                    raise self._metadata_timeout(topic, partition) from None
                self._metadata.raise_error_for_topic(topic)
        return cluster

    def _metadata_timeout(self, topic: str, partition: int) -> KafkaTimeoutError:
        waited = f"after max.block.ms ({self.max_block * 1000:.0f} ms)"
        count = self._metadata.fetch().partition_count_for_topic(topic)
        if count:
            return KafkaTimeoutError(f"Topic {topic!r} has {count} partitions, none numbered {partition}, {waited}")
        nodes = ", ".join(f"{node.host}:{node.port}" for node in self._metadata.fetch().nodes)
        code = self._metadata.error_for_topic(topic)
        if code:
            return KafkaTimeoutError(f"Topic {topic!r} is not in the metadata of {nodes} {waited}: {name_of(code)}")
        return KafkaTimeoutError(
            f"No metadata of topic {topic!r} came from {nodes} {waited}"
            f"{self.parts.client.failure_to_connect or '; is a broker listening there?'}"
        )

    def partitions_for(self, topic: str) -> Steps[list[PartitionInfo]]:
        """See `Producer.partitions_for`."""
        self.check_open()
        topic = as_text(topic, "topic")
        cluster = yield from self._wait_for_cluster(topic, -1, self._clock() + self.max_block)
        return list(cluster.partitions_for_topic(topic))

    # Waiting and asking

    def flush(self, timeout: float | None) -> Steps[None]:
        """See `Producer.flush`."""
        self._waits.check_may_wait("flush()")
        timeout = arguments.timeout(timeout)
        with self.parts.metrics.times.spent(FLUSH):
            self._accumulator.begin_flush()
            try:
                self.parts.client.wakeup()
                results = self._accumulator.incomplete_results()
                is_flushed = yield from self._waits.wait_for_results(results, timeout)
            finally:
                self._accumulator.end_flush()
        self.parts.exit.raise_noted()
        if not is_flushed:
            raise KafkaTimeoutError(
                f"{self._accumulator.incomplete_record_count()} records were not acknowledged within {timeout} s; they "
                "are still being sent"
            )

    def client_instance_id(self, sender: ClientTelemetrySender, timeout: float | None) -> Steps[bytes]:
        """See `Producer.client_instance_id`."""
        self._waits.check_may_wait("client_instance_id()")
        timeout = arguments.timeout(timeout)
        sender.ask_for_instance_id()
        self.parts.client.wakeup()
        seconds = self.max_block if timeout is None else timeout
        yield from self._waits.wait_for_instance_id(sender, seconds)
        return answered(sender, seconds, self.parts.client.failure_to_connect)

    def close(self, timeout: float | None) -> Steps[None]:
        """See `Producer.close`."""
        timeout = arguments.timeout(timeout)
        self.refuse(self.path.closed_reason or CLOSED)
        yield from self._waits.wait_for_end(timeout)
        self.parts.exit.raise_noted()

    # Metrics

    def metric_groups(self) -> list[MetricGroup]:
        """See `Producer.metric_groups`."""
        now, network = self._clock(), [self.parts.client.metrics]
        groups = [
            MetricGroup("producer-metrics", {}, {**network_metrics(network, now), **self._own_metrics(now)}),
            *self.parts.metrics.by_topic(now),
            *node_metrics("producer-node-metrics", network, now),
        ]
        return with_app_info(groups, self._started_at_ms)

    def topic_metric_groups(self) -> list[MetricGroup]:
        """Those of the topics."""
        return self.parts.metrics.by_topic(self._clock())

    def _own_metrics(self, now: float) -> dict[str, float]:
        pool, age = self.parts.pool, self._metadata.age(now)
        return {
            **self.parts.metrics.as_dict(now),
            **pool.metrics(now),
            "buffer-total-bytes": pool.total_memory,
            "buffer-available-bytes": pool.available_memory,
            "waiting-threads": pool.queued,
            "requests-in-flight": self.parts.client.in_flight_request_count(),
            "metadata-age": NAN if math.isinf(age) else age,
        }
