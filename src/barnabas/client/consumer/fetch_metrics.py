"""What fetching counts: Kafka's consumer-fetch-manager-metrics."""

from __future__ import annotations

from barnabas.network.statistic import Statistic


class FetchMetrics:
    """Counted once per fetch or hand-out, under Kafka's names in `as_dict`. Belongs to the application's thread."""

    __slots__ = ("_latency", "_records", "_sizes", "_throttle", "bytes_consumed", "records_consumed")

    def __init__(self) -> None:
        self._latency = Statistic()
        self._throttle = Statistic()
        self._sizes = Statistic()
        self._records = Statistic()
        self.bytes_consumed = 0
        self.records_consumed = 0

    def fetched(self, latency: float, throttle_ms: int, size: int) -> None:
        """A fetch was answered after `latency` seconds, with `size` bytes of records."""
        self._latency.record(latency * 1000)
        self._throttle.record(throttle_ms)
        self._sizes.record(size)

    def handed_out(self, records: int) -> None:
        """These many records of one answer were handed out."""
        self.records_consumed += records
        self._records.record(records)

    def as_dict(self) -> dict[str, float]:
        """Times in milliseconds, sizes in bytes, averages and maxima over the consumer's life."""
        return {
            "fetch-total": self._latency.count,
            "fetch-latency-avg": self._latency.average,
            "fetch-latency-max": self._latency.maximum,
            "fetch-size-avg": self._sizes.average,
            "fetch-size-max": self._sizes.maximum,
            "fetch-throttle-time-avg": self._throttle.average,
            "fetch-throttle-time-max": self._throttle.maximum,
            "bytes-consumed-total": self.bytes_consumed,
            "records-consumed-total": self.records_consumed,
            "records-per-request-avg": self._records.average,
        }
