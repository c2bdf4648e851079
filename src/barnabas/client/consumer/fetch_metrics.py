"""What fetching counts."""

from __future__ import annotations


class FetchMetrics:
    """Counters of one consumer, under Kafka's names in `as_dict`. Belongs to the application's thread."""

    __slots__ = ("bytes_consumed", "fetch_latency_max", "fetch_latency_total", "fetches", "records_consumed")

    def __init__(self) -> None:
        self.fetches = 0
        self.fetch_latency_total = 0.0
        self.fetch_latency_max = 0.0
        self.bytes_consumed = 0
        self.records_consumed = 0

    def fetched(self, latency: float) -> None:
        """A fetch was answered after `latency` seconds."""
        self.fetches += 1
        self.fetch_latency_total += latency
        self.fetch_latency_max = max(self.fetch_latency_max, latency)

    def as_dict(self) -> dict[str, float]:
        """Kafka's consumer-fetch-manager-metrics; latencies in milliseconds."""
        return {
            "fetch-total": self.fetches,
            "fetch-latency-avg": 1000 * self.fetch_latency_total / self.fetches if self.fetches else 0.0,
            "fetch-latency-max": 1000 * self.fetch_latency_max,
            "bytes-consumed-total": self.bytes_consumed,
            "records-consumed-total": self.records_consumed,
        }
