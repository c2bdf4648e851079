"""What `Producer.metrics()` counts, under Kafka's names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.network.metric_group import TOPIC, MetricGroup
from barnabas.network.sampled_stat import DEFAULT, MetricConfig, Statistic, TimeTotals

if TYPE_CHECKING:
    from barnabas.client.producer.producer_batch import ProducerBatch


FLUSH: Final = "flush"
METADATA_WAIT: Final = "metadata-wait"
TXN_BEGIN: Final = "txn-begin"
TXN_PREPARE: Final = "txn-prepare"
# By the operation that is waited for.
TXN_OPERATIONS: Final = {
    "init_transactions()": "txn-init",
    "send_offsets_to_transaction()": "txn-send-offsets",
    "commit_transaction()": "txn-commit",
    "abort_transaction()": "txn-abort",
}


class TopicMetrics:
    """Kafka's producer-topic-metrics of one topic. Belongs to the Sender thread, others may read."""

    __slots__ = ("bytes", "compression_ratio", "failed_records", "records", "retried_records")

    def __init__(self, config: MetricConfig) -> None:
        self.records = Statistic(config)
        self.bytes = Statistic(config)
        self.retried_records = Statistic(config)
        self.failed_records = Statistic(config)
        self.compression_ratio = Statistic(config)

    def as_dict(self, now: float) -> dict[str, float]:
        """Sizes in bytes; the compression rate is the mean of the batches' rates."""
        return {
            **self.records.at(now).metered("record-send"),
            **self.bytes.at(now).metered("byte"),
            **self.retried_records.at(now).metered("record-retry"),
            **self.failed_records.at(now).metered("record-error"),
            "compression-rate": self.compression_ratio.at(now).average,
        }


class ProducerMetrics:
    """Counted once per batch or request by the Sender thread, so that a record costs nothing."""

    def __init__(self, clock: Callable[[], float], config: MetricConfig = DEFAULT) -> None:
        self.times = TimeTotals(clock, FLUSH, METADATA_WAIT, TXN_BEGIN, TXN_PREPARE, *TXN_OPERATIONS.values())
        self._config = config
        self._topics: dict[str, TopicMetrics] = {}
        # Application threads count errors too.
        self._lock = threading.Lock()
        self._batch_size = Statistic(config)
        self._batch_splits = Statistic(config)
        self._compression_ratio = Statistic(config)
        self._failed_records = Statistic(config)
        self._queue_time = Statistic(config)
        self._record_size = Statistic(config)
        self._records_per_request = Statistic(config)
        self._request_latency = Statistic(config)
        self._retried_records = Statistic(config)
        self._throttle_time = Statistic(config)

    def record_request(self, batches: list[ProducerBatch], now: float) -> None:
        """Note that a ProduceRequest with these batches goes out."""
        records = 0
        for batch in batches:
            size = len(batch.records())
            ratio = size / batch.uncompressed_size
            count = batch.record_count
            records += count
            self._batch_size.record(size, now)
            self._compression_ratio.record(ratio, now)
            topic = self._topic(batch)
            topic.records.record(count, now)
            topic.bytes.record(size, now)
            topic.compression_ratio.record(ratio, now)
            self._queue_time.record((batch.drained_at - batch.created_at) * 1000, now)
            self._record_size.record(batch.max_record_size, now)
        self._records_per_request.record(records, now)

    def record_latency(self, seconds: float, throttle_ms: int, now: float) -> None:
        """Note that a broker has answered a ProduceRequest."""
        self._request_latency.record(seconds * 1000, now)
        self._throttle_time.record(throttle_ms, now)

    def record_retry(self, batch: ProducerBatch, now: float) -> None:
        """Note that a batch goes back into its deque, to go out again."""
        self._retried_records.record(batch.record_count, now)
        self._topic(batch).retried_records.record(batch.record_count, now)

    def record_split(self, now: float) -> None:
        """Note that a batch was too large for the broker."""
        self._batch_splits.record(1, now)

    def record_failure(self, batch: ProducerBatch, now: float) -> None:
        """Note that the records of a batch have failed."""
        self.record_errors(batch.record_count, now)
        self._topic(batch).failed_records.record(batch.record_count, now)

    def record_errors(self, records: int, now: float) -> None:
        """Note that records have failed: a batch, or one that never came into a batch, which counts for no topic."""
        with self._lock:
            self._failed_records.record(records, now)

    def _topic(self, batch: ProducerBatch) -> TopicMetrics:
        topic = batch.topic_partition.topic
        metrics = self._topics.get(topic)
        if metrics is None:
            metrics = self._topics[topic] = TopicMetrics(self._config)
        return metrics

    def retain_topics(self, is_in_use: Callable[[str], bool]) -> None:
        """Forget the other topics. For the Sender thread."""
        for topic in [topic for topic in self._topics if not is_in_use(topic)]:
            del self._topics[topic]

    def by_topic(self, now: float) -> list[MetricGroup]:
        """Return the numbers of each topic that is in use."""
        topics = sorted(self._topics.items())
        return [
            MetricGroup("producer-topic-metrics", {TOPIC: topic}, metrics.as_dict(now)) for topic, metrics in topics
        ]

    def as_dict(self, now: float) -> dict[str, float]:
        """Return the numbers; times in milliseconds, sizes in bytes."""
        batch_size, requests = self._batch_size.at(now), self._records_per_request.at(now)
        return {
            **requests.metered("record-send"),
            "records-per-request-avg": requests.average,
            **batch_size.metered("byte"),
            **batch_size.averaged("batch-size"),
            **self._retried_records.at(now).metered("record-retry"),
            **self._failed_records.at(now).metered("record-error"),
            **self._batch_splits.at(now).metered("batch-split"),
            "compression-rate-avg": self._compression_ratio.at(now).average,
            **self._queue_time.at(now).averaged("record-queue-time"),
            **self._record_size.at(now).averaged("record-size"),
            **self._request_latency.at(now).averaged("request-latency"),
            **self._throttle_time.at(now).averaged("produce-throttle-time"),
            **self.times.as_dict(),
        }
