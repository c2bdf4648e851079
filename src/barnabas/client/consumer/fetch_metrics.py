"""What fetching counts: Kafka's consumer-fetch-manager-metrics."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from barnabas.network.metric_group import TOPIC, MetricGroup
from barnabas.network.statistic import Statistic

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition

FETCH_GROUP: Final = "consumer-fetch-manager-metrics"


class TopicFetchMetrics:
    """Kafka's consumer-fetch-manager-metrics of one topic. Belongs to the application's thread, others may read."""

    __slots__ = ("bytes_consumed", "records", "sizes")

    def __init__(self) -> None:
        self.bytes_consumed = 0
        self.records = Statistic()
        self.sizes = Statistic()

    def as_dict(self) -> dict[str, float]:
        """Sizes in bytes; averages and maxima are of the fetches that brought something of the topic."""
        return {
            "fetch-size-avg": self.sizes.average,
            "fetch-size-max": self.sizes.maximum,
            "bytes-consumed-total": self.bytes_consumed,
            "records-consumed-total": int(self.records.total),
            "records-per-request-avg": self.records.average,
        }


class FetchMetrics:
    """Counted once per fetch or hand-out, under Kafka's names in `as_dict`. Belongs to the application's thread."""

    __slots__ = ("_latency", "_records", "_sizes", "_throttle", "_topics", "bytes_consumed", "records_consumed")

    def __init__(self) -> None:
        self._latency = Statistic()
        self._throttle = Statistic()
        self._sizes = Statistic()
        self._records = Statistic()
        self._topics: dict[str, TopicFetchMetrics] = {}
        self.bytes_consumed = 0
        self.records_consumed = 0

    def fetched(self, latency: float, throttle_ms: int, size: int) -> None:
        """A fetch was answered after `latency` seconds, with `size` bytes of records."""
        self._latency.record(latency * 1000)
        self._throttle.record(throttle_ms)
        self._sizes.record(size)

    def fetched_of(self, topic: str, size: int) -> None:
        """An answer had so many bytes of records of the topic."""
        self._topic(topic).sizes.record(size)

    def handed_out(self, topic: str, records: int) -> None:
        """These many records of one answer were handed out."""
        self.records_consumed += records
        self._records.record(records)
        self._topic(topic).records.record(records)

    def consumed(self, topic: str, size: int) -> None:
        """All of an answer's records of one partition, which took so many bytes, were handed out."""
        self.bytes_consumed += size
        self._topic(topic).bytes_consumed += size

    def _topic(self, topic: str) -> TopicFetchMetrics:
        metrics = self._topics.get(topic)
        if metrics is None:
            metrics = self._topics[topic] = TopicFetchMetrics()
        return metrics

    def retain_topics(self, assigned: Collection[TopicPartition]) -> None:
        """Forget the topics of which nothing is assigned any more."""
        topics = {partition.topic for partition in assigned}
        self._topics = {topic: metrics for topic, metrics in self._topics.items() if topic in topics}

    def by_topic(self, assigned: Collection[TopicPartition]) -> list[MetricGroup]:
        """The numbers of each topic of which something is assigned."""
        known = self._topics
        topics = sorted({partition.topic for partition in assigned})
        return [MetricGroup(FETCH_GROUP, {TOPIC: topic}, known[topic].as_dict()) for topic in topics if topic in known]

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
