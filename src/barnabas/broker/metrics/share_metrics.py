"""What is counted of share groups, under Kafka's names; where none was ever used, nothing is loaded for it.

FetchLockTimeMs and FetchLockRatio are not told: here no fetch locks a share-partition. TopicPartitionsAcquireTimeMs is
how long a fetch waited until one of its share-partitions was loaded and had room for more records in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator
    from barnabas.broker.share.latencies import Latencies
    from barnabas.broker.share.share_partition_manager import SharePartitionManager

_SESSIONS = "kafka_server_sharesessioncache"
_GROUPS = "kafka_server_sharegroupmetrics"
_PARTITIONS = "kafka_server_sharepartitionmetrics"
_TOPICS = "kafka_server_brokertopicmetrics"
_COORDINATOR = "kafka_server_share_coordinator_metrics"
_OF_PARTITION = ("group", "topic", "partition")
_REQUESTS = {
    ApiKey.SHARE_FETCH: ("sharefetch", "Partitions that share consumers have asked for"),
    ApiKey.SHARE_ACKNOWLEDGE: ("shareacknowledgement", "Partitions of which share consumers have acknowledged records"),
}


class ShareMetrics:
    """The numbers of the share-partitions that are led here, and of those whose state is kept here."""

    def __init__(
        self, led: Callable[[], SharePartitionManager | None], kept: Callable[[], ShareCoordinator | None]
    ) -> None:
        self._led = led
        self._kept = kept

    def collect(self, now: float) -> Iterator[Metric]:
        """Return the numbers as they are now (monotonic seconds)."""
        manager, coordinator = self._led(), self._kept()
        if manager is not None:
            yield from _sessions(manager)
            yield from _groups(manager, now)
            yield from _partitions(manager, now)
            yield from _requests(manager)
        if coordinator is not None:
            yield from _states(coordinator, now)


def _sessions(manager: SharePartitionManager) -> Iterator[Metric]:
    sessions = manager.sessions
    yield GaugeMetricFamily(f"{_SESSIONS}_sharesessionscount", "Share sessions", len(sessions))
    what = "Partitions of all share sessions"
    yield GaugeMetricFamily(f"{_SESSIONS}_sharepartitionscount", what, sessions.partitions)
    what = "Share sessions that were given up for others; this broker refuses the others"
    yield CounterMetricFamily(f"{_SESSIONS}_sharesessionevictions", what, 0)


def _groups(manager: SharePartitionManager, now: float) -> Iterator[Metric]:
    from barnabas.broker.share.share_group_metrics import ACKNOWLEDGEMENT_NAMES

    metrics = manager.metrics
    what = "Records that were acknowledged"
    family = CounterMetricFamily(f"{_GROUPS}_recordacknowledgements", what, labels=("acktype",))
    for kind, name in ACKNOWLEDGEMENT_NAMES.items():
        family.add_metric((name,), metrics.acknowledged[kind])
    yield family
    for name, what, milliseconds in (
        ("avg", "Average time of loading a share-partition", metrics.loads.average(now) * 1000),
        ("max", "Longest time of loading a share-partition", metrics.loads.largest(now) * 1000),
    ):
        yield GaugeMetricFamily(f"{_GROUPS}_partitionloadtimems_{name}", what, milliseconds)
    yield CounterMetricFamily(f"{_GROUPS}_partitionloadtimems_count", "Loaded share-partitions", metrics.loads.count)
    what = "Which share of the partitions of a fetch could be acquired from, in percent"
    shares = _Amounts(f"{_GROUPS}_requesttopicpartitionsfetchratio", what, ("group",))
    what = "Milliseconds until a fetch had a partition that it could acquire from"
    waits = _Amounts(f"{_GROUPS}_topicpartitionsacquiretimems", what, ("group",), scale=1000)
    for group_id in metrics.shares:
        shares.add((group_id,), metrics.shares[group_id], now)
        waits.add((group_id,), metrics.waits[group_id], now)
    yield from (*shares.families, *waits.families)


class _Amounts:
    """Average and maximum of something, and how often it was counted, by labels."""

    def __init__(self, name: str, what: str, labels: tuple[str, ...], scale: float = 1) -> None:
        self._scale = scale
        self._average = GaugeMetricFamily(f"{name}_avg", f"{what}: average", labels=labels)
        self._largest = GaugeMetricFamily(f"{name}_max", f"{what}: maximum", labels=labels)
        self._count = CounterMetricFamily(f"{name}_count", f"{what}: how often", labels=labels)
        self.families: tuple[Metric, ...] = (self._average, self._largest, self._count)

    def add(self, labels: tuple[str, ...], found: Latencies, now: float) -> None:
        """Tell what was counted under these labels."""
        self._average.add_metric(labels, found.average(now) * self._scale)
        self._largest.add_metric(labels, found.largest(now) * self._scale)
        self._count.add_metric(labels, found.count)


def _partitions(manager: SharePartitionManager, now: float) -> Iterator[Metric]:
    messages = GaugeMetricFamily(f"{_PARTITIONS}_inflightmessagecount", "Records in flight", labels=_OF_PARTITION)
    batches = GaugeMetricFamily(f"{_PARTITIONS}_inflightbatchcount", "Ranges in flight", labels=_OF_PARTITION)
    what = "Records that were freed because their locks had ended"
    expired = CounterMetricFamily(f"{_PARTITIONS}_acquisitionlocktimeout", what, labels=_OF_PARTITION)
    what = "Records in a range that was delivered for the first time"
    sizes = _Amounts(f"{_PARTITIONS}_inflightbatchmessagecount", what, _OF_PARTITION)
    for led in manager.led_share_partitions:
        if led.state is None:
            continue
        labels = (led.key.group_id, led.replica.topic, str(led.key.partition))
        messages.add_metric(labels, led.state.records.count)
        batches.add_metric(labels, len(led.state.records))
        expired.add_metric(labels, led.expired_locks)
        sizes.add(labels, led.new_batches, now)
    yield from (messages, batches, expired, *sizes.families)


def _requests(manager: SharePartitionManager) -> Iterator[Metric]:
    metrics = manager.metrics
    for api, (name, what) in _REQUESTS.items():
        for kind, counts in (("total", metrics.requests), ("failed", metrics.failed)):
            family = CounterMetricFamily(f"{_TOPICS}_{kind}{name}requests", what, labels=("topic",))
            for topic, key in sorted(counts):
                if key == api:
                    family.add_metric((topic,), counts[topic, key])
            yield family


def _states(coordinator: ShareCoordinator, now: float) -> Iterator[Metric]:
    counts = coordinator.count_partitions()
    what = "Partitions of __share_group_state that this broker coordinates"
    family = GaugeMetricFamily(f"{_COORDINATOR}_num_partitions", what, labels=("state",))
    for state in ("loading", "active", "failed"):
        family.add_metric((state,), counts.get(state, 0))
    yield family
    writes = coordinator.writes
    yield CounterMetricFamily(f"{_COORDINATOR}_write", "Writes of states", writes.count)
    for name, what, milliseconds in (
        ("avg", "Average time of a write, until it is committed", writes.average(now) * 1000),
        ("max", "Longest time of a write, until it is committed", writes.largest(now) * 1000),
    ):
        yield GaugeMetricFamily(f"{_COORDINATOR}_write_latency_{name}", what, milliseconds)
