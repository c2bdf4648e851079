"""What a share consumer counts of its fetches and acknowledgements: Kafka's consumer-share-fetch-manager-metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.network.sampled_stat import DEFAULT, MetricConfig, Statistic

if TYPE_CHECKING:
    from barnabas.protocol.messages.share_fetch_response import ShareFetchResponse

SHARE_FETCH_GROUP: Final = "consumer-share-fetch-manager-metrics"


class ShareFetchMetrics:
    """Counted once per request or hand-out. Belongs to the application's thread, any may read."""

    __slots__ = ("_bytes", "_failed", "_latency", "_records", "_sent", "_throttle")

    def __init__(self, config: MetricConfig = DEFAULT) -> None:
        self._bytes = Statistic(config)
        self._failed = Statistic(config)
        self._latency = Statistic(config)
        self._records = Statistic(config)
        self._sent = Statistic(config)
        self._throttle = Statistic(config)

    def on_fetched(self, latency: float, message: ShareFetchResponse, now: float) -> None:
        """Note that a fetch was answered after `latency` seconds."""
        self._latency.record(latency * 1000, now)
        self._throttle.record(message.throttle_time_ms, now)
        found = [
            partition for topic in message.responses for partition in topic.partitions if partition.acquired_records
        ]
        if found:
            self._bytes.record(sum(len(partition.records or b"") for partition in found), now)
            acquired = [run for partition in found for run in partition.acquired_records]
            self._records.record(sum(run.last_offset - run.first_offset + 1 for run in acquired), now)

    def sent(self, acknowledgements: int, now: float) -> None:
        """Note that so many records were acknowledged to a broker."""
        if acknowledgements:
            self._sent.record(acknowledgements, now)

    def failed(self, acknowledgements: int, now: float) -> None:
        """Note that the acknowledgements of so many records failed."""
        self._failed.record(acknowledgements, now)

    def as_dict(self, now: float) -> dict[str, float]:
        """Return latencies in milliseconds, sizes in bytes."""
        records, latency = self._records.at(now), self._latency.at(now)
        return {
            **self._bytes.at(now).averaged("fetch-size"),
            **self._bytes.at(now).metered("bytes-consumed"),
            **records.averaged("records-per-request"),
            **records.metered("records-consumed"),
            **self._sent.at(now).metered("acknowledgements-send"),
            **self._failed.at(now).metered("acknowledgements-error"),
            **latency.averaged("fetch-latency"),
            **latency.counted("fetch"),
            **self._throttle.at(now).averaged("fetch-throttle-time"),
        }
