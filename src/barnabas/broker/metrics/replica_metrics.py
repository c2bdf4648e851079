"""What a broker tells of replication: its partitions, ISRs, fetchers, and bytes between brokers (ReplicaManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

if TYPE_CHECKING:
    from barnabas.broker.partition import Partition
    from barnabas.broker.replica_manager import ReplicaManager

_MANAGER = "kafka_server_replicamanager_"
_TOPICS = "kafka_server_brokertopicmetrics_"


class ReplicaMetrics:
    """Collects them of a broker that is one of several."""

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        manager = self._manager
        led = [partition for partition in manager.partitions() if partition.is_leader]
        counts = (
            ("underreplicatedpartitions", "Partitions led here with replicas that lag", _count(led, _is_under)),
            ("underminisrpartitioncount", "Partitions led here that refuse acks=all", _count(led, _is_under_min)),
            ("atminisrpartitioncount", "Partitions led here that may lose no replica", _count(led, _is_at_min)),
            ("reassigningpartitions", "Partitions led here that are reassigned", _count(led, _is_reassigning)),
        )
        for name, what, value in counts:
            yield GaugeMetricFamily(_MANAGER + name, what, value)
        changes = manager.isr_changes
        yield CounterMetricFamily(f"{_MANAGER}isrexpands", "Followers taken into an ISR", changes.expands)
        yield CounterMetricFamily(f"{_MANAGER}isrshrinks", "ISRs that followers were taken out of", changes.shrinks)
        yield CounterMetricFamily(f"{_MANAGER}failedisrupdates", "Changes of ISRs that were refused", changes.failed)
        yield from self._bytes(led)
        yield from self._lags()
        yield from self._fetchers()
        yield from _of_partitions(led)

    def _bytes(self, led: list[Partition]) -> Iterator[Metric]:
        partitions = self._manager.partitions()
        reassigned = [partition for partition in led if _is_reassigning(partition)]
        sums: tuple[tuple[str, str, int], ...] = (
            ("replicationbytesin", "Bytes fetched from leaders", sum(one.bytes_followed for one in partitions)),
            ("replicationbytesout", "Bytes fetched by followers", sum(one.bytes_to_followers for one in partitions)),
            (
                "reassignmentbytesout",
                "Bytes fetched by followers of partitions that are reassigned now",
                sum(one.bytes_to_followers for one in reassigned),
            ),
        )
        coming = sum(one.bytes_followed for one in partitions if _is_reassigning(one))
        sums += (("reassignmentbytesin", "Bytes fetched of partitions that are reassigned now", coming),)
        for name, what, value in sums:
            yield CounterMetricFamily(_TOPICS + name, what, value)

    def _lags(self) -> Iterator[Metric]:
        lags = self._manager.fetcher_lags()
        yield GaugeMetricFamily(
            "kafka_server_replicafetchermanager_maxlag",
            "Records that the follower which is farthest behind lacks",
            max(lags.values(), default=0),
        )
        family = GaugeMetricFamily(
            "kafka_server_fetcherlagmetrics_consumerlag",
            "Records that this broker lacks as a follower",
            labels=("topic", "partition"),
        )
        for name in sorted(lags):
            family.add_metric((name.topic, str(name.partition)), lags[name])
        yield family

    def _fetchers(self) -> Iterator[Metric]:
        fetchers = self._manager.fetchers
        yield GaugeMetricFamily(
            "kafka_server_replicafetchermanager_failedpartitionscount",
            "Partitions that are not fetched any more, for their records cannot be taken, or another epoch has begun",
            sum(len(fetcher.failed) for fetcher in fetchers.values()),
        )
        labels = ("clientid", "broker")
        requests = CounterMetricFamily("kafka_server_fetcherstats_requests", "Requests to a leader", labels=labels)
        received = CounterMetricFamily("kafka_server_fetcherstats_bytes", "Bytes of records from it", labels=labels)
        for (leader, number), fetcher in sorted(fetchers.items()):
            values = (f"ReplicaFetcherThread-{number}-{leader}", str(leader))
            requests.add_metric(values, fetcher.requests)
            received.add_metric(values, fetcher.bytes_in)
        yield requests
        yield received


def _of_partitions(led: list[Partition]) -> Iterator[Metric]:
    """Return what Kafka tells of each partition where it leads (`kafka.cluster:type=Partition`)."""
    for name, what, value in _OF_PARTITIONS:
        family = GaugeMetricFamily(f"kafka_cluster_partition_{name}", what, labels=("topic", "partition"))
        for partition in led:
            family.add_metric((partition.topic, str(partition.index)), value(partition))
        yield family


def _count(partitions: list[Partition], holds: Callable[[Partition], bool]) -> int:
    return sum(1 for partition in partitions if holds(partition))


def _is_under(partition: Partition) -> bool:
    in_sync = partition.in_sync
    return in_sync is not None and len(in_sync.state.isr) <= len(in_sync.replicas)


def _margin(partition: Partition) -> int:
    """By how many replicas the ISR is larger than has to be for acks=all; a sole replica always is all there are."""
    in_sync = partition.in_sync
    if in_sync is None:
        return 0
    return len(in_sync.state.isr) - in_sync.effective_min_isr(partition.log.config.min_insync_replicas)


def _is_under_min(partition: Partition) -> bool:
    return _margin(partition) < 0


def _is_at_min(partition: Partition) -> bool:
    return _margin(partition) == 0


def _is_reassigning(partition: Partition) -> bool:
    return partition.is_reassigning


def _replicas(partition: Partition) -> int:
    return 1 if partition.in_sync is None else len(partition.in_sync.replicas) + 1


def _in_sync(partition: Partition) -> int:
    return 1 if partition.in_sync is None else len(partition.in_sync.state.isr)


def _unstable(partition: Partition) -> int:
    return partition.log.high_watermark - partition.log.last_stable_offset


_OF_PARTITIONS: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    ("replicascount", "Replicas of a partition that is led here", _replicas),
    ("insyncreplicascount", "Those of them that are in sync", _in_sync),
    ("underreplicated", "1 where a replica is not in sync", _is_under),
    ("underminisr", "1 where acks=all is refused", _is_under_min),
    ("atminisr", "1 where no replica may be lost", _is_at_min),
    ("laststableoffsetlag", "How many committed offsets are not read by read_committed yet", _unstable),
)
