"""What the broker counts, for Prometheus, under the names that Kafka's JMX beans get there.

The names are those of the Prometheus JMX exporter's example rules for Kafka, all in lower case:
`kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t` is
`kafka_server_brokertopicmetrics_messagesin_total{topic="t"}`. What Kafka does not count is called `barnabas_...`.
Nothing is computed before a scrape; while requests are served plain numbers are counted up.
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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from barnabas.broker.metrics.coordinator_metrics import CoordinatorMetrics
from barnabas.broker.metrics.idle_share import IdleShare
from barnabas.broker.metrics.log_metrics import LogMetrics
from barnabas.broker.metrics.replica_metrics import ReplicaMetrics
from barnabas.broker.metrics.request_metrics import RequestMetrics
from barnabas.broker.metrics.share_metrics import ShareMetrics
from barnabas.broker.metrics.zookeeper_controller_metrics import controller_families
from barnabas.broker.network.login_counts import LoginOutcome

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.node import BrokerNode
    from barnabas.broker.request import Request, ServedApi
    from barnabas.protocol.message import Message

_OUTCOMES = {
    LoginOutcome.SUCCESSFUL: "Clients that have authenticated",
    LoginOutcome.FAILED: "Clients that have not authenticated: wrong passwords, untrusted certificates and the like",
    LoginOutcome.RENEWED: "Sessions that were renewed (KIP-368)",
    LoginOutcome.NOT_RENEWED: "Sessions whose renewal has failed",
    LoginOutcome.EXPIRED: "Connections closed because they went on after the end of their session",
}


_PURGATORY = "kafka_server_delayedoperationpurgatory_"


class BrokerMetrics(Collector):
    """Collects the numbers of one broker; an observer of its requests."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, node: BrokerNode, clocks: Callable[[], Instant], thread_time: Callable[[], float]):
        """`thread_time` is the processor time of the thread that asks, which is the broker's own, in seconds."""
        self._core = node.core
        self._clocks = clocks
        self._requests = RequestMetrics(node.core)
        self._logs = LogMetrics(node.logs)
        self._coordinators = CoordinatorMetrics(lambda: node.loaded_groups, lambda: node.loaded_transactions)
        self._shares = ShareMetrics(lambda: node.loaded_share_partitions, lambda: node.loaded_shares)
        self._idle = IdleShare(thread_time)
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Count a request that was answered at `now`."""
        self._requests.completed(request, response, now)

    def sent(self, request: Request, seconds: float, now: float) -> None:
        """Count how long a response waited for the socket."""
        self._requests.sent(request, seconds, now)

    def answered_at_once(self, api: ServedApi, answer: bytes, seconds: float, now: float) -> None:
        """Count what a shortcut answered."""
        self._requests.answered_at_once(api, answer, seconds, now)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Return the numbers as they are now."""
        now, now_ms = self._clocks()
        flushing = self._logs.take_flush_seconds(now)
        yield from self._requests.collect(now)
        yield from self._topics()
        yield from self._cluster()
        yield from self._waiting()
        yield from self._logs.collect(now)
        yield from self._coordinators.collect(now_ms)
        yield from self._shares.collect(now)
        yield from self._connections()
        idle = self._idle.share(now, flushing)
        for name in ("server_kafkarequesthandlerpool_requesthandler", "network_socketserver_networkprocessor"):
            yield GaugeMetricFamily(
                f"kafka_{name}avgidlepercent", "Share of its time since the last look in which the broker waited", idle
            )

    def _topics(self) -> Iterator[Metric]:
        sums: dict[str, list[int]] = {}
        for partition in self._core.state.replica_manager.partitions():
            found = sums.setdefault(partition.topic, [0, 0, 0])
            found[0] += partition.messages_in
            found[1] += partition.appended - partition.bytes_followed
            found[2] += partition.bytes_out
        for index, (name, what) in enumerate(
            (
                ("messagesin", "Records appended"),
                ("bytesin", "Bytes that producers appended"),
                ("bytesout", "Bytes of records that consumers fetched"),
            )
        ):
            family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", what, labels=("topic",))
            for topic in sorted(sums):
                family.add_metric((topic,), sums[topic][index])
            yield family

    def _member(self) -> Iterator[Metric]:
        """Return what a broker has that is one of several; the controllers tell of the cluster."""
        state = self._core.state
        partitions = state.replica_manager.partitions()
        for name, what, value in (
            ("kafkaserver_brokerstate", "3: the broker runs", 3),
            ("replicamanager_partitioncount", "Replicas on this broker", len(partitions)),
            ("replicamanager_leadercount", "Partitions that this broker leads", sum(p.is_leader for p in partitions)),
            ("replicamanager_offlinereplicacount", "Replicas that are offline", state.replica_manager.offline_count),
        ):
            yield GaugeMetricFamily(f"kafka_server_{name}", what, value)
        for name, what, number in () if state.member is None else state.member.controller_numbers():
            yield GaugeMetricFamily(f"kafka_{name}", what, number)
        stats = None if state.member is None else state.member.controller_stats
        if stats is not None:
            yield from controller_families(stats)
        yield from ReplicaMetrics(state.replica_manager).collect()

    def _cluster(self) -> Iterator[Metric]:
        state = self._core.state
        if state.member is not None:
            yield from self._member()
            return
        topics = list(state.metadata.topics())
        partitions = sum(topic.partitions for topic in topics)
        least = str(state.config.get_int("min.insync.replicas"))
        # Each partition has one replica, which is in sync: writes with acks=all fail where more are demanded.
        under_min_isr = sum(t.partitions for t in topics if int(t.configs.get("min.insync.replicas", least)) > 1)
        offline = state.replica_manager.offline_count
        for name, what, value in (
            ("server_kafkaserver_brokerstate", "3: the broker runs", 3),
            ("server_replicamanager_partitioncount", "Partitions on this broker", partitions),
            ("server_replicamanager_leadercount", "Partitions that this broker leads and serves", partitions - offline),
            ("server_replicamanager_underreplicatedpartitions", "Partitions with replicas that lag behind", 0),
            ("server_replicamanager_underminisrpartitioncount", "Partitions that refuse acks=all", under_min_isr),
            ("server_replicamanager_offlinereplicacount", "Replicas that are offline", offline),
            ("controller_kafkacontroller_activecontrollercount", "Whether this node is the controller", 1),
            ("controller_kafkacontroller_activebrokercount", "Brokers of the cluster", 1),
            ("controller_kafkacontroller_globaltopiccount", "Topics of the cluster", len(topics)),
            ("controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster", partitions),
            ("controller_kafkacontroller_offlinepartitionscount", "Partitions that nobody serves", offline),
        ):
            yield GaugeMetricFamily(f"kafka_{name}", what, value)

    def _waiting(self) -> Iterator[Metric]:
        """Return what requests leave behind: fetch sessions, and operations that wait."""
        state = self._core.state
        sessions, cache = state.fetch_sessions, "kafka_server_fetchsessioncache_"
        for name, what, value in (
            (f"{cache}numincrementalfetchsessions", "Fetch sessions (KIP-227)", len(sessions)),
            (f"{cache}numincrementalfetchpartitionscached", "Partitions in all fetch sessions", sessions.partitions),
            (f"{_PURGATORY}purgatorysize", "Requests that wait", state.purgatory.parked),
            (f"{_PURGATORY}numdelayedoperations", "Requests that wait", state.purgatory.parked),
        ):
            yield GaugeMetricFamily(name, what, value)
        clients = state.client_metrics
        told, what = "kafka_server_client_metrics_", "Clients that are known by what they push (KIP-714)"
        yield GaugeMetricFamily(f"{told}instance_count", what, 0 if clients is None else len(clients))
        what, unknown = "Pushes for another subscription", 0 if clients is None else clients.unknown_subscriptions
        yield CounterMetricFamily(f"{told}unknown_subscription_request_count", what, unknown)
        evicted = "Fetch sessions that had to go for others"
        yield CounterMetricFamily(f"{cache}incrementalfetchsessionevictions", evicted, sessions.evictions)

    def _connections(self) -> Iterator[Metric]:
        counts: dict[str, int] = dict.fromkeys(self._core.state.advertised, 0)
        software: dict[tuple[str, str, str], int] = {}
        for connection in self._core.channel.connections.values():
            info = connection.info
            counts[info.listener] = counts.get(info.listener, 0) + 1
            client = (info.listener, info.client_software_name, info.client_software_version)
            software[client] = software.get(client, 0) + 1
        family = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count", "Open connections", labels=("listener",)
        )
        for listener in sorted(counts):
            family.add_metric((listener,), counts[listener])
        yield family
        clients = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connections",
            "Open connections by what clients say they are (KIP-511)",
            labels=("listener", "client_software_name", "client_software_version"),
        )
        for client in sorted(software):
            clients.add_metric(client, software[client])
        yield clients
        yield from self._logins()
        yield GaugeMetricFamily(
            "barnabas_throttled_connections", "Connections that wait for a quota", self._core.channel.muted
        )

    def _logins(self) -> Iterator[Metric]:
        counts = self._core.channel.logins.by_kind
        for outcome, what in _OUTCOMES.items():
            name = f"kafka_server_socket_server_metrics_{outcome.value}"
            family = CounterMetricFamily(name, what, labels=("listener", "mechanism"))
            for kind in sorted(one for one in counts if one.outcome is outcome):
                family.add_metric((kind.listener, kind.mechanism), counts[kind])
            yield family
