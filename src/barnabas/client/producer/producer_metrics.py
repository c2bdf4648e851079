"""What `Producer.metrics()` counts, under Kafka's names."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from barnabas.network.statistic import Statistic

if TYPE_CHECKING:
    from barnabas.client.producer.producer_batch import ProducerBatch


class ProducerMetrics:
    """Counted once per batch or request by the Sender thread, so that a record costs nothing."""

    def __init__(self) -> None:
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
            records += batch.record_count
            self.bytes_sent += size
            self._batch_size.record(size)
            self._compression_ratio.record(size / batch.uncompressed_size)
            self._queue_time.record((batch.drained_at - batch.created_at) * 1000)
            self._record_size.record(batch.max_record_size)
        self.record_sends += records
        self._records_per_request.record(records)

    def record_latency(self, seconds: float, throttle_ms: int) -> None:
        """A broker has answered a ProduceRequest."""
        self._request_latency.record(seconds * 1000)
        self._throttle_time.record(throttle_ms)

    def record_retries(self, records: int) -> None:
        """A batch goes back into its deque, to go out again."""
        self.retried_records += records

    def record_errors(self, records: int) -> None:
        """Records have failed: a batch, or one that never came into a batch."""
        with self._lock:
            self.failed_records += records

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
        }
