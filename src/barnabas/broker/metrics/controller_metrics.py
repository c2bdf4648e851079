"""What is counted of a controller and of the quorum, under the names that Kafka's JMX beans get in Prometheus.

`kafka.controller:type=KafkaController,name=...` (QuorumControllerMetrics, ControllerMetadataMetrics),
`kafka.server:type=MetadataLoader` and `SnapshotEmitter`; `raft_metrics.py` has those of the quorum. Operations wait in
no queue, so nothing tells of one: not EventQueueTimeMs, EventQueueOperationsTimedOutCount, AvgIdleRatio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from barnabas.broker.metrics.percentiles import Percentiles
from barnabas.broker.metrics.raft_metrics import raft_metrics
from barnabas.broker.metrics.request_metrics import RequestMetrics, add_quantiles

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.kraft.controller_node import ControllerNode
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.request import Request
    from barnabas.protocol.message import Message

#: BrokerRegistrationState.
_FENCED, _LEAVING, _ACTIVE = 10, 20, 30


class ControllerMetrics(Collector):
    """Collects the numbers of one controller; those of the cluster are what is committed, as this node knows it."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, node: ControllerNode, clocks: Callable[[], Instant]) -> None:
        self._node = node
        self._clocks = clocks
        self._requests = RequestMetrics(node.core)
        self._operations = Percentiles()
        node.controller.on_operation = self._operations.record
        self.registry = CollectorRegistry()

    def register_all(self) -> None:
        """Register this, the requests, and what is counted of the process, for a process without a broker."""
        self.registry.register(self)
        self.registry.register(_Requests(self._requests, self._clocks))
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Count a request that was answered at `now`."""
        self._requests.completed(request, response, now)

    def sent(self, request: Request, seconds: float, now: float) -> None:
        """Count how long a response waited for the socket."""
        self._requests.sent(request, seconds, now)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        for name, what, value in (*self._of_controller(), *self._of_metadata(), *self._of_loading()):
            yield GaugeMetricFamily(f"kafka_{name}", what, value)
        yield from self._of_brokers()
        yield from self._of_elections()
        yield self._of_operations()
        yield from raft_metrics(self._node.raft, self._clocks().now)

    def _of_controller(self) -> Iterator[tuple[str, str, float]]:
        controller, now_ms = self._node.controller, self._clocks().now_ms
        image = controller.committed_image
        applied = self._node.last_applied_ms
        prefix = "controller_kafkacontroller_"
        yield f"{prefix}activecontrollercount", "Whether this node is the active controller", controller.is_active
        yield f"{prefix}lastappliedrecordoffset", "Offset of the last record that was applied", image.offset
        yield f"{prefix}lastcommittedrecordoffset", "Offset of the last record that is committed", image.offset
        yield f"{prefix}lastappliedrecordtimestamp", "When that record was appended, in ms", applied
        yield (
            f"{prefix}lastappliedrecordlagms",
            "How long ago that was",
            0 if controller.is_active else now_ms - applied,
        )
        counts = controller.counts
        yield f"{prefix}eventqueueoperationsstartedcount", "Operations since the start", counts.operations
        yield f"{prefix}newactivecontrollerscount", "Controllers that became active", counts.new_active_controllers
        yield f"{prefix}metadataerrorcount", "Faults in what was made of the metadata", counts.metadata_errors
        yield f"{prefix}timedoutbrokerheartbeatcount", "Brokers that were not heard of", counts.timed_out_heartbeats

    def _of_elections(self) -> Iterator[Metric]:
        counts = self._node.controller.counts
        for name, what, value in (
            ("uncleanleaderelections", "Leaders that were not in sync, by this controller", counts.unclean_elections),
            (
                "electionfromeligibleleaderreplicas",
                "Leaders elected from the ELR (KIP-966), by this controller",
                counts.elections_from_eligible,
            ),
        ):
            yield CounterMetricFamily(f"kafka_controller_controllerstats_{name}", what, value)

    def _of_operations(self) -> Metric:
        """Return how long operations took; none waits in a queue: they are run as they come."""
        name = "kafka_controller_controllereventmanager_eventqueueprocessingtimems"
        summary = SummaryMetricFamily(name, "Milliseconds that an operation of the active controller took")
        summary.add_metric((), self._operations.count, self._operations.total * 1000)
        add_quantiles(summary, {}, self._operations, self._clocks().now)
        return summary

    def _of_metadata(self) -> Iterator[tuple[str, str, float]]:
        image = self._node.controller.committed_image
        prefix = "controller_kafkacontroller_"
        fenced = sum(one.fenced for one in image.brokers.values())
        offline, not_preferred, total = _count_partitions(image)
        yield f"{prefix}activebrokercount", "Brokers that are not fenced", len(image.brokers) - fenced
        yield f"{prefix}fencedbrokercount", "Brokers that are fenced", fenced
        leaving = sum(one.in_controlled_shutdown and not one.fenced for one in image.brokers.values())
        yield f"{prefix}controlledshutdownbrokercount", "Brokers that are shutting down", leaving
        partition = self._node.raft.replica.partition_state
        ignored = bool(self._node.raft.replica.config.static_voters) and partition.last_voter_set_entry is not None
        yield f"{prefix}ignoredstaticvoters", "Whether controller.quorum.voters counts for nothing", ignored
        yield f"{prefix}globaltopiccount", "Topics of the cluster", len(image.topics)
        yield f"{prefix}globalpartitioncount", "Partitions of the cluster", total
        yield f"{prefix}offlinepartitionscount", "Partitions without a leader", offline
        yield f"{prefix}preferredreplicaimbalancecount", "Partitions that another replica leads", not_preferred

    def _of_loading(self) -> Iterator[tuple[str, str, float]]:
        """Return what the loader and the snapshots of this node are at (MetadataLoaderMetrics, SnapshotEmitter)."""
        node, log = self._node, self._node.raft.replica.log
        latest, image = log.latest_snapshot_id, node.controller.committed_image
        prefix = "server_metadataloader_"
        leader = node.controller.leader_id
        yield f"{prefix}currentcontrollerid", "The active controller; -1: unknown", -1 if leader is None else leader
        yield f"{prefix}currentmetadataversion", "The metadata.version", image.features.get("metadata.version", 0)
        yield f"{prefix}handleloadsnapshotcount", "Snapshots that were loaded", node.controller.counts.loaded_snapshots
        size = None if latest is None else log.snapshot_size(latest)
        age = self._clocks().now - node.snapshots.ended_at
        prefix = "server_snapshotemitter_"
        yield f"{prefix}latestsnapshotgeneratedbytes", "Bytes of the newest snapshot", size or 0
        yield f"{prefix}latestsnapshotgeneratedagems", "Since it was written here, or the start", age * 1000

    def _of_brokers(self) -> Iterator[Metric]:
        controller, now = self._node.controller, self._clocks().now
        prefix = "kafka_controller_kafkacontroller_"
        states = GaugeMetricFamily(
            f"{prefix}brokerregistrationstate",
            "10: fenced, 20: in controlled shutdown, 30: active",
            labels=("broker",),
        )
        for one in controller.committed_image.brokers.values():
            state = _FENCED if one.fenced else _LEAVING if one.in_controlled_shutdown else _ACTIVE
            states.add_metric((str(one.id),), state)
        yield states
        heard = GaugeMetricFamily(
            f"{prefix}timesincelastheartbeatreceivedms", "How long ago a broker was heard of", labels=("broker",)
        )
        if controller.is_active:
            for broker_id, at in controller.managers.cluster.heartbeats.last_heard():
                heard.add_metric((str(broker_id),), (now - at) * 1000)
        yield heard
        levels = GaugeMetricFamily(
            "kafka_server_metadataloader_finalizedlevel", "Levels of the cluster's features", labels=("feature",)
        )
        for feature, level in sorted(controller.committed_image.features.items()):
            levels.add_metric((feature,), level)
        levels.add_metric(("kraft.version",), controller.kraft_version)
        yield levels


class _Requests(Collector):
    def __init__(self, requests: RequestMetrics, clocks: Callable[[], Instant]) -> None:
        self._requests = requests
        self._clocks = clocks

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        return iter(self._requests.collect(self._clocks().now))


def _count_partitions(image: MetadataImage) -> tuple[int, int, int]:
    """Return how many partitions have no leader, have another than the preferred one, and how many there are."""
    offline = not_preferred = total = 0
    for topic in image.topics.values():
        for partition in topic.partitions.values():
            total += 1
            offline += partition.leader < 0
            not_preferred += partition.leader != partition.replicas[0]
    return offline, not_preferred, total
