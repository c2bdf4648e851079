"""What is counted of share groups, under Kafka's names; where none was ever used, nothing is loaded for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from barnabas.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from barnabas.broker.share.coordinator.share_coordinator import ShareCoordinator
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
            yield from _partitions(manager)
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


def _partitions(manager: SharePartitionManager) -> Iterator[Metric]:
    messages = GaugeMetricFamily(f"{_PARTITIONS}_inflightmessagecount", "Records in flight", labels=_OF_PARTITION)
    batches = GaugeMetricFamily(f"{_PARTITIONS}_inflightbatchcount", "Ranges in flight", labels=_OF_PARTITION)
    what = "Records that were freed because their locks had ended"
    expired = CounterMetricFamily(f"{_PARTITIONS}_acquisitionlocktimeout", what, labels=_OF_PARTITION)
    for led in manager.led_share_partitions:
        if led.state is None:
            continue
        labels = (led.key.group_id, led.replica.topic, str(led.key.partition))
        messages.add_metric(labels, led.state.records.count)
        batches.add_metric(labels, len(led.state.records))
        expired.add_metric(labels, led.expired_locks)
    yield from (messages, batches, expired)


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
