"""What the producers for threads and for event loops have in common."""

from __future__ import annotations

import math
import random
from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from barnabas.client.client_utils import create_network_client, metric_config
from barnabas.client.producer.append import FutureRecordMetadata, SendPath, TopicInfo, new_future
from barnabas.client.producer.buffer_pool import BufferPool
from barnabas.client.producer.produce_request_result import ProduceRequestResult, run_callback
from barnabas.client.producer.producer_config import IN_FLIGHT, ProducerConfig
from barnabas.client.producer.producer_interceptors import InterceptingSendPath, ProducerInterceptors
from barnabas.client.producer.producer_metrics import ProducerMetrics
from barnabas.client.producer.record_accumulator import RecordAccumulator
from barnabas.client.producer.record_metadata import RecordMetadata
from barnabas.client.producer.sender import Sender
from barnabas.client.producer.transactions.idempotence import IdempotenceManager
from barnabas.client.producer.transactions.manager import TransactionManager
from barnabas.client.producer_metadata import ProducerMetadata
from barnabas.client.serializers import resolve_serializer
from barnabas.client.telemetry.reports_telemetry import ReportsTelemetry
from barnabas.errors import ApiError, IllegalArgumentError, InvalidTopicError, KafkaTimeoutError, name_of
from barnabas.network.metric_group import Measured, MetricGroup, by_topic, with_app_info
from barnabas.network.network_metrics import network_metrics, node_metrics
from barnabas.network.statistic import NAN, MetricConfig
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.builder import RecordBatchBuilder

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.transactions.sequences import BatchNumbering
    from barnabas.network.selectable import Selectable

if TYPE_CHECKING:
    import typing_extensions

    # What the serializers take; anything, where settings do not tell a type checker.
    K = typing_extensions.TypeVar("K", default=Any)
    V = typing_extensions.TypeVar("V", default=Any)
else:
    K = TypeVar("K")
    V = TypeVar("V")
DeliveryCallback = Callable[[RecordMetadata, "BaseException | None"], object]

CLOSED = "The producer is closed; a closed producer takes no records, make a new one"


class ProducerBase(ReportsTelemetry, Measured, Generic[K, V]):
    """Puts a producer together and does what takes no waiting; whoever derives from it drives the Sender.

    `clock` gives monotonic seconds, `wall_clock_ms` epoch milliseconds, `selector` makes the way to the network (None
    for sockets).
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None,
        settings: Mapping[str, Any],
        *,
        clock: Callable[[], float],
        wall_clock_ms: Callable[[], int],
        rng: random.Random,
        selector: Callable[[ProducerConfig], Selectable] | None = None,
        buffer_pool: Callable[[int, Callable[[], float], MetricConfig], BufferPool] = BufferPool,
    ) -> None:
        self._config = settled = ProducerConfig(config, settings)
        self._clock = clock
        self._started_at_ms = wall_clock_ms()
        self._key_serializer = resolve_serializer(settled["key.serializer"], "key.serializer")
        self._value_serializer = resolve_serializer(settled["value.serializer"], "value.serializer")
        self._partitioner = settled.partitioner()
        self._max_block = settled.get_seconds("max.block.ms")
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
            selector=None if selector is None else selector(settled),
        )  # fmt: skip
        metric_window = metric_config(settled)
        self._metrics = ProducerMetrics(clock, metric_window)
        self._transactions = self._make_transactions(settled, rng)
        is_idempotent = settled.idempotent and self._transactions is None
        idempotence = IdempotenceManager() if is_idempotent else None
        pool = buffer_pool(settled.get_int("buffer.memory"), clock, metric_window)
        self._accumulator = self._make_accumulator(settled, self._transactions or idempotence, rng, pool)
        self._metadata.add_listener(self._accumulator.metadata_changed)
        # The metadata must not keep the producer itself: one that nobody holds any more is noticed.
        self._metadata.add_listener(partial(_forget_idle_topics, self._metrics, self._metadata))
        if self._transactions is not None:
            self._transactions.states.refuse_records_by(self._accumulator.refuse)
        self._sender = Sender(
            self._client, self._metadata, self._accumulator, settled.sender_config(), self._metrics,
            idempotence, self._transactions,
        )  # fmt: skip
        self._interceptors = ProducerInterceptors(settled["interceptor.classes"], settled.given, settled.client_id)
        self._send_path: SendPath | InterceptingSendPath = self._make_send_path(settled)
        self._report_telemetry(
            settled, self.metric_groups, self._telemetry_labels, self._client,
            random=rng, wall_clock_ms=wall_clock_ms,
        )  # fmt: skip

    def _telemetry_labels(self) -> dict[str, str | None]:
        return {"transactional_id": self._config.transactional_id}

    def _make_transactions(self, config: ProducerConfig, rng: random.Random) -> TransactionManager | None:
        if config.transactional_id is None:
            return None
        two_phases = config.get_bool("transaction.two.phase.commit.enable")
        return TransactionManager(
            config.transactional_id,
            2**31 - 1 if two_phases else config.get_int("transaction.timeout.ms"),
            config.retry_backoff(rng),
            self._client.api_versions,
            two_phases,
        )

    def _make_accumulator(
        self, config: ProducerConfig, numbering: BatchNumbering | None, rng: random.Random, pool: BufferPool
    ) -> RecordAccumulator:
        codec, level = config.compression()
        return RecordAccumulator(
            batch_size=config.get_int("batch.size"),
            linger=config.get_seconds("linger.ms"),
            delivery_timeout=config.delivery_timeout,
            retry_backoff=config.retry_backoff(rng),
            buffer_pool=pool,
            new_builder=partial(_new_builder, codec, level),
            clock=self._clock,
            rng=rng,
            numbering=numbering,
            adaptive_partitioning=self._partitioner is None
            and config.get_bool("partitioner.adaptive.partitioning.enable"),
            availability_timeout=config.get_seconds("partitioner.availability.timeout.ms"),
            compresses=codec != "none",
        )

    def _make_send_path(self, config: ProducerConfig) -> SendPath:
        return SendPath(
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
        self._metrics.record_errors(1, self._clock())
        if self._transactions is not None:
            self._transactions.record_not_taken(error)
        return future

    @abstractmethod
    def _await_metadata(self, topic: str, partition: int) -> tuple[TopicInfo, float]:
        """Bring what is kept for the topic up to date with the metadata; returns it and the seconds that took."""

    @abstractmethod
    def _append_slowly(
        self, topic: str, info: TopicInfo, partition: int, timestamp: int, key: bytes | None, value: bytes | None,
        headers: tuple[Any, ...], on_delivery: Any, size: int, key_object: Any, value_object: Any, waited: float,
    ) -> FutureRecordMetadata:  # fmt: skip
        """Append where it takes a new batch or a custom partitioner, and wake the Sender if there is a new batch."""

    def _known_cluster(self, topic: str, partition: int) -> Cluster | None:
        """The snapshot if it has the topic and the partition (-1 for any), else None; notes that the topic is used."""
        cluster = self._metadata.fetch()
        if topic in cluster.invalid_topics or not topic:
            raise InvalidTopicError(f"{topic!r} is not a valid name of a topic")
        self._metadata.add(topic, self._clock())
        count = cluster.partition_count_for_topic(topic)
        return cluster if count and partition < count else None

    def _topic_info(self, topic: str, cluster: Cluster, version: int) -> TopicInfo:
        """What is kept for the topic, brought up to date with a snapshot that is as new as `version`."""
        info = self._accumulator.topic_info(topic)
        info.partition_count = cluster.partition_count_for_topic(topic) or 0
        info.metadata_version = version
        return info

    def _metadata_timeout(self, topic: str, partition: int) -> KafkaTimeoutError:
        waited = f"after max.block.ms ({self._max_block * 1000:.0f} ms)"
        count = self._metadata.fetch().partition_count_for_topic(topic)
        if count:
            return KafkaTimeoutError(f"Topic {topic!r} has {count} partitions, none numbered {partition}, {waited}")
        nodes = ", ".join(f"{node.host}:{node.port}" for node in self._metadata.fetch().nodes)
        code = self._metadata.error_for_topic(topic)
        if code:
            return KafkaTimeoutError(f"Topic {topic!r} is not in the metadata of {nodes} {waited}: {name_of(code)}")
        return KafkaTimeoutError(
            f"No metadata of topic {topic!r} came from {nodes} {waited}"
            f"{self._client.failure_to_connect or '; is a broker listening there?'}"
        )

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

    def metric_groups(self) -> list[MetricGroup]:
        """All that is counted, in Kafka's groups: `producer-metrics`, and those of topics and of nodes.

        Sizes are in bytes, times in milliseconds, `...-ns-total` in nanoseconds, `metadata-age` in seconds; a topic is
        forgotten when it was idle for metadata.max.idle.ms. May be called from any thread.
        """
        now, network = self._clock(), [self._client.metrics]
        groups = [
            MetricGroup("producer-metrics", {}, {**network_metrics(network, now), **self._own_metrics(now)}),
            *self._metrics.by_topic(now),
            *node_metrics("producer-node-metrics", network, now),
        ]
        return with_app_info(groups, self._started_at_ms)

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's producer-topic-metrics by topic, until it was idle for metadata.max.idle.ms; from any thread."""
        return by_topic(self._metrics.by_topic(self._clock()))

    def _own_metrics(self, now: float) -> dict[str, float]:
        pool, age = self._accumulator.free, self._metadata.age(now)
        return {
            **self._metrics.as_dict(now),
            **pool.metrics(now),
            "buffer-total-bytes": pool.total_memory,
            "buffer-available-bytes": pool.available_memory,
            "waiting-threads": pool.queued,
            "requests-in-flight": self._client.in_flight_request_count(),
            "metadata-age": NAN if math.isinf(age) else age,
        }

    def refuse(self, reason: str) -> None:
        """Take no records any more, without touching thread or sockets; for a forked child."""
        self._send_path.closed_reason = reason

    def __repr__(self) -> str:
        return f"<Producer {self._config.client_id}>"


def _forget_idle_topics(metrics: ProducerMetrics, metadata: ProducerMetadata, _: Cluster) -> None:
    metrics.retain_topics(metadata.contains_topic)


def _new_builder(codec: str, level: int | None, capacity: int, ratio: float) -> RecordBatchBuilder:
    return RecordBatchBuilder(capacity, codec, level, 0, ratio)
