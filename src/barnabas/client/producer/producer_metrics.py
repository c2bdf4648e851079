"""What `Producer.metrics()` counts, under Kafka's names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.network.metric_group import TOPIC, MetricGroup
from barnabas.network.statistic import Statistic, TimeTotals

if TYPE_CHECKING:
    from barnabas.client.producer.producer_batch import ProducerBatch


FLUSH: Final = "flush"
METADATA_WAIT: Final = "metadata-wait"
TXN_BEGIN: Final = "txn-begin"
# By the operation that is waited for.
TXN_OPERATIONS: Final = {
    "init_transactions()": "txn-init",
    "send_offsets_to_transaction()": "txn-send-offsets",
    "commit_transaction()": "txn-commit",
    "abort_transaction()": "txn-abort",
}


class TopicMetrics:
    """Kafka's producer-topic-metrics of one topic. Belongs to the Sender thread, others may read."""

    __slots__ = ("bytes_sent", "compression_ratio", "failed_records", "record_sends", "retried_records")

    def __init__(self) -> None:
        self.record_sends = 0
        self.bytes_sent = 0
        self.retried_records = 0
        self.failed_records = 0
        self.compression_ratio = Statistic()

    def as_dict(self) -> dict[str, float]:
        """Sizes in bytes; the compression rate is the mean of the batches' rates."""
        return {
            "record-send-total": self.record_sends,
            "byte-total": self.bytes_sent,
            "record-retry-total": self.retried_records,
            "record-error-total": self.failed_records,
            "compression-rate": self.compression_ratio.average,
        }


class ProducerMetrics:
    """Counted once per batch or request by the Sender thread, so that a record costs nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.times = TimeTotals(clock, FLUSH, METADATA_WAIT, TXN_BEGIN, *TXN_OPERATIONS.values())
        self._topics: dict[str, TopicMetrics] = {}
        self.record_sends = 0
        self.bytes_sent = 0
        self.retried_records = 0
        self.failed_records = 0
        self.batch_splits = 0
        # Application threads count errors too.
        self._lock = threading.Lock()
        self._batch_size = Statistic()
        self._compression_ratio = Statistic()
        self._queue_time = Statistic()
        self._record_size = Statistic()
        self._records_per_request = Statistic()
        self._request_latency = Statistic()
        self._throttle_time = Statistic()

    def record_request(self, batches: list[ProducerBatch]) -> None:
        """A ProduceRequest with these batches goes out."""
        records = 0
        for batch in batches:
            size = len(batch.records())
            ratio = batch.compression_ratio
            records += batch.record_count
            self.bytes_sent += size
            self._batch_size.record(size)
            self._compression_ratio.record(ratio)
            topic = self._topic(batch)
            topic.record_sends += batch.record_count
            topic.bytes_sent += size
            topic.compression_ratio.record(ratio)
            self._queue_time.record((batch.drained_at - batch.created_at) * 1000)
            self._record_size.record(batch.max_record_size)
        self.record_sends += records
        self._records_per_request.record(records)

    def record_latency(self, seconds: float, throttle_ms: int) -> None:
        """A broker has answered a ProduceRequest."""
        self._request_latency.record(seconds * 1000)
        self._throttle_time.record(throttle_ms)

    def record_retry(self, batch: ProducerBatch) -> None:
        """A batch goes back into its deque, to go out again."""
        self.retried_records += batch.record_count
        self._topic(batch).retried_records += batch.record_count

    def record_failure(self, batch: ProducerBatch) -> None:
        """The records of a batch have failed."""
        self.record_errors(batch.record_count)
        self._topic(batch).failed_records += batch.record_count

    def record_errors(self, records: int) -> None:
        """Records have failed: a batch, or one that never came into a batch, which counts for no topic."""
        with self._lock:
            self.failed_records += records

    def _topic(self, batch: ProducerBatch) -> TopicMetrics:
        topic = batch.topic_partition.topic
        metrics = self._topics.get(topic)
        if metrics is None:
            metrics = self._topics[topic] = TopicMetrics()
        return metrics

    def retain_topics(self, is_in_use: Callable[[str], bool]) -> None:
        """Forget the other topics. For the Sender thread."""
        for topic in [topic for topic in self._topics if not is_in_use(topic)]:
            del self._topics[topic]

    def by_topic(self) -> list[MetricGroup]:
        """The numbers of each topic that is in use."""
        topics = sorted(self._topics.items())
        return [MetricGroup("producer-topic-metrics", {TOPIC: topic}, metrics.as_dict()) for topic, metrics in topics]

    def snapshot(self) -> dict[str, float]:
        """The numbers; times in milliseconds, sizes in bytes, averages and maxima over the producer's life."""
        return {
            "record-send-total": self.record_sends,
            "byte-total": self.bytes_sent,
            "record-retry-total": self.retried_records,
            "record-error-total": self.failed_records,
            "batch-split-total": self.batch_splits,
            "batch-size-avg": self._batch_size.average,
            "batch-size-max": self._batch_size.maximum,
            "compression-rate-avg": self._compression_ratio.average,
            "record-queue-time-avg": self._queue_time.average,
            "record-queue-time-max": self._queue_time.maximum,
            "record-size-max": self._record_size.maximum,
            "records-per-request-avg": self._records_per_request.average,
            "request-latency-avg": self._request_latency.average,
            "request-latency-max": self._request_latency.maximum,
            "produce-throttle-time-avg": self._throttle_time.average,
            "produce-throttle-time-max": self._throttle_time.maximum,
            **self.times.as_dict(),
        }
