"""What fetching counts: Kafka's consumer-fetch-manager-metrics."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from barnabas.errors import IllegalStateError
from barnabas.network.metric_group import PARTITION, TOPIC, MetricGroup
from barnabas.network.sampled_stat import DEFAULT, NAN, MetricConfig, Statistic

if TYPE_CHECKING:
    from barnabas.client.consumer.subscription_state import SubscriptionState
    from barnabas.protocol.topic_partition import TopicPartition

FETCH_GROUP: Final = "consumer-fetch-manager-metrics"


class _Consumed:
    """What was fetched and handed out, of one topic or of all."""

    __slots__ = ("bytes", "per_request", "records", "sizes")

    def __init__(self, config: MetricConfig) -> None:
        self.bytes = Statistic(config)
        self.per_request = Statistic(config)
        self.records = Statistic(config)
        self.sizes = Statistic(config)

    def as_dict(self, now: float) -> dict[str, float]:
        """Sizes in bytes; averages and maxima of a topic are of the fetches that brought something of it."""
        return {
            **self.sizes.at(now).averaged("fetch-size"),
            **self.bytes.at(now).metered("bytes-consumed"),
            **self.records.at(now).metered("records-consumed"),
            "records-per-request-avg": self.per_request.at(now).average,
        }


class _Distances:
    """How far one partition's position was from the end and from the beginning of the log, in records."""

    __slots__ = ("lag", "lead")

    def __init__(self, config: MetricConfig) -> None:
        self.lag = Statistic(config)
        self.lead = Statistic(config)


class FetchMetricsAggregator:
    """Adds up the records of one answer, which are handed out partition by partition, until none is left."""

    __slots__ = ("_left", "_metrics", "_records")

    def __init__(self, metrics: FetchMetrics) -> None:
        self._metrics = metrics
        self._left = 0
        self._records: dict[str, int] = {}

    def expect(self) -> None:
        """One more partition has data in the answer."""
        self._left += 1

    def on_partition_end(self, topic: str, records: int, now: float) -> None:
        """All data of one of its partitions was handed out, so many records, or dropped."""
        self._records[topic] = self._records.get(topic, 0) + records
        self._left -= 1
        if not self._left:
            self._metrics.on_response_end(self._records, now)


class FetchMetrics:
    """Counted once per fetch or hand-out. Belongs to the application's thread, any may read."""

    __slots__ = ("_all", "_config", "_lag", "_latency", "_lead", "_partitions", "_throttle", "_topics")

    def __init__(self, config: MetricConfig = DEFAULT) -> None:
        self._config = config
        self._all = _Consumed(config)
        self._lag = Statistic(config)
        self._latency = Statistic(config)
        self._lead = Statistic(config)
        self._throttle = Statistic(config)
        self._partitions: dict[TopicPartition, _Distances] = {}
        self._topics: dict[str, _Consumed] = {}

    def on_fetched(self, latency: float, throttle_ms: int, size: int, now: float) -> None:
        """Note that a fetch was answered after `latency` seconds, with `size` bytes of records."""
        self._latency.record(latency * 1000, now)
        self._throttle.record(throttle_ms, now)
        self._all.sizes.record(size, now)

    def fetched_of(self, topic: str, size: int, now: float) -> None:
        """Note that an answer had so many bytes of records of the topic."""
        self._topic(topic).sizes.record(size, now)

    def handed_out(self, topic: str, records: int, now: float) -> None:
        """Note that these many records of one answer were handed out."""
        self._all.records.record(records, now)
        self._topic(topic).records.record(records, now)

    def on_response_end(self, records: dict[str, int], now: float) -> None:
        """All records of one answer were handed out, so many of each topic."""
        self._all.per_request.record(sum(records.values()), now)
        for topic, count in records.items():
            if topic in self._topics:
                self._topics[topic].per_request.record(count, now)

    def on_consumed(self, topic: str, size: int, now: float) -> None:
        """All of an answer's records of one partition, which took so many bytes, were handed out."""
        self._all.bytes.record(size, now)
        self._topic(topic).bytes.record(size, now)

    def moved_on(self, partition: TopicPartition, lag: int | None, lead: int | None, now: float) -> None:
        """Note that the position has changed; both distances are in records, None where they are not known."""
        distances = self._partitions.get(partition)
        if distances is None:
            distances = self._partitions[partition] = _Distances(self._config)
        if lag is not None:
            self._lag.record(lag, now)
            distances.lag.record(lag, now)
        if lead is not None:
            self._lead.record(lead, now)
            distances.lead.record(lead, now)

    def _topic(self, topic: str) -> _Consumed:
        metrics = self._topics.get(topic)
        if metrics is None:
            metrics = self._topics[topic] = _Consumed(self._config)
        return metrics

    def retain(self, assigned: Collection[TopicPartition]) -> None:
        """Forget the partitions that are not assigned any more, and the topics that have none left."""
        topics = {partition.topic for partition in assigned}
        self._topics = {topic: metrics for topic, metrics in self._topics.items() if topic in topics}
        self._partitions = {name: distances for name, distances in self._partitions.items() if name in assigned}

    def groups(self, subscriptions: SubscriptionState, now: float, *, read_committed: bool) -> list[MetricGroup]:
        """Return the numbers of all, by topic, and by partition, of those assigned now."""
        known = self._topics
        topics = sorted({partition.topic for partition in subscriptions.assigned_partitions} & known.keys())
        return [
            MetricGroup(FETCH_GROUP, {}, self.as_dict(now)),
            *(MetricGroup(FETCH_GROUP, {TOPIC: topic}, known[topic].as_dict(now)) for topic in topics),
            *self._by_partition(subscriptions, now, read_committed=read_committed),
        ]

    def as_dict(self, now: float) -> dict[str, float]:
        """Return the numbers of all; times in milliseconds, sizes in bytes."""
        latency = self._latency.at(now)
        return {
            **latency.counted("fetch"),
            **latency.averaged("fetch-latency"),
            **self._all.as_dict(now),
            **self._throttle.at(now).averaged("fetch-throttle-time"),
            "records-lag-max": self._lag.at(now).maximum,
            "records-lead-min": self._lead.at(now).minimum,
        }

    def _by_partition(self, subscriptions: SubscriptionState, now: float, *, read_committed: bool) -> list[MetricGroup]:
        found = []
        for partition in subscriptions.assigned_partitions:
            try:
                lag_now = subscriptions.partition_lag(partition, read_committed=read_committed)
                lead_now = subscriptions.partition_lead(partition)
            except IllegalStateError:
                # Another thread asks, and the partition was given up meanwhile.
                continue
            replica = subscriptions.preferred_read_replicas.get(partition)
            distances = self._partitions.get(partition) or _Distances(self._config)
            lag, lead = distances.lag.at(now), distances.lead.at(now)
            values = {
                "records-lag": NAN if lag_now is None else lag_now,
                "records-lag-avg": lag.average,
                "records-lag-max": lag.maximum,
                "records-lead": NAN if lead_now is None else lead_now,
                "records-lead-avg": lead.average,
                "records-lead-min": lead.minimum,
                "preferred-read-replica": -1 if replica is None else replica,
            }
            tags = {TOPIC: partition.topic, PARTITION: str(partition.partition)}
            found.append(MetricGroup(FETCH_GROUP, tags, values))
        return found
