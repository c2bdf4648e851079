"""What the broker counts, for Prometheus, under the names that Kafka's JMX beans get there.

The names are those of the Prometheus JMX exporter's example rules for Kafka, all in lower case:
`kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t` is
`kafka_server_brokertopicmetrics_messagesin_total{topic="t"}`.
Nothing is computed before somebody asks; while requests are served plain numbers are counted up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

if TYPE_CHECKING:
    from barnabas.broker.log.log_manager import LogManager
    from barnabas.broker.request import Request
    from barnabas.broker.request_dispatcher import RequestDispatcher
    from barnabas.protocol.message import Message


class _Times:
    """Of one API: how many requests were timed, and the seconds they took."""

    __slots__ = ("count", "local", "throttled", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.local = 0.0
        self.throttled = 0.0


class BrokerMetrics(Collector):
    """Collects the numbers of one broker; an observer of its requests."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, core: RequestDispatcher, logs: LogManager):
        self._core = core
        self._logs = logs
        self._times: dict[str, _Times] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)

    def completed(self, request: Request, response: Message | None, now: float) -> None:
        """Count a request that was answered at `now`."""
        context = request.context
        times = self._times.get(request.api.name)
        if times is None:
            times = self._times[request.api.name] = _Times()
        times.count += 1
        times.local += context.handler_seconds
        times.total += context.handler_seconds + now - context.instant.now
        times.throttled += context.throttle

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self.registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The numbers as they are now."""
        yield from self._requests()
        yield from self._topics()
        yield from self._cluster()
        yield from self._partitions()
        yield from self._connections()

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "kafka_network_requestmetrics_requests", "Requests received", labels=("request", "version")
        )
        for (_, version), api in sorted(self._core.apis.items()):
            requests.add_metric((api.name, str(version)), api.requests)
        yield requests
        for name, what, seconds in (
            ("totaltimems", "from the arrival of requests to their responses", "total"),
            ("localtimems", "in the handlers of requests", "local"),
            ("throttletimems", "that clients were told to wait", "throttled"),
        ):
            summary = SummaryMetricFamily(
                f"kafka_network_requestmetrics_{name}", f"Milliseconds {what}", labels=("request",)
            )
            for api_name, times in sorted(self._times.items()):
                summary.add_metric((api_name,), times.count, getattr(times, seconds) * 1000)
            yield summary

    def _topics(self) -> Iterator[Metric]:
        sums: dict[str, list[int]] = {}
        for partition in self._core.state.replica_manager.partitions():
            found = sums.setdefault(partition.topic, [0, 0, 0])
            found[0] += partition.messages_in
            found[1] += partition.appended
            found[2] += partition.bytes_out
        for index, (name, what) in enumerate(
            (
                ("messagesin", "Records appended"),
                ("bytesin", "Bytes appended"),
                ("bytesout", "Bytes of records fetched"),
            )
        ):
            family = CounterMetricFamily(f"kafka_server_brokertopicmetrics_{name}", what, labels=("topic",))
            for topic in sorted(sums):
                family.add_metric((topic,), sums[topic][index])
            yield family

    def _cluster(self) -> Iterator[Metric]:
        topics = list(self._core.state.metadata.topics())
        offline = self._core.state.replica_manager.offline_count
        partitions = sum(topic.partitions for topic in topics)
        for name, what, value in (
            ("server_replicamanager_partitioncount", "Partitions on this broker", partitions),
            ("server_replicamanager_leadercount", "Partitions that this broker leads", partitions),
            ("server_replicamanager_underreplicatedpartitions", "Partitions with replicas that lag behind", 0),
            ("server_replicamanager_offlinereplicacount", "Replicas that are offline", offline),
            ("controller_kafkacontroller_activecontrollercount", "Whether this node is the controller", 1),
            ("controller_kafkacontroller_activebrokercount", "Brokers of the cluster", 1),
            ("controller_kafkacontroller_globaltopiccount", "Topics of the cluster", len(topics)),
            ("controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster", partitions),
            ("controller_kafkacontroller_offlinepartitionscount", "Partitions without a leader", offline),
            (
                "server_delayedoperationpurgatory_purgatorysize",
                "Requests that wait for something",
                self._core.state.purgatory.parked,
            ),
        ):
            yield GaugeMetricFamily(f"kafka_{name}", what, value)

    def _partitions(self) -> Iterator[Metric]:
        names = ("topic", "partition")
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes on disk", labels=names)
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=names)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Offset of the next record", labels=names)
        segments = GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments", labels=names)
        for name, log in sorted(self._logs.logs.items()):
            labels = (name.topic, str(name.partition))
            size.add_metric(labels, log.size)
            start.add_metric(labels, log.log_start_offset)
            end.add_metric(labels, log.log_end_offset)
            segments.add_metric(labels, log.number_of_segments)
        yield from (size, start, end, segments)

    def _connections(self) -> Iterator[Metric]:
        counts: dict[str, int] = {}
        for connection in self._core.channel.connections.values():
            counts[connection.info.listener] = counts.get(connection.info.listener, 0) + 1
        family = GaugeMetricFamily(
            "kafka_server_socket_server_metrics_connection_count", "Open connections", labels=("listener",)
        )
        for listener in sorted(counts.keys() | self._core.state.advertised.keys()):
            family.add_metric((listener,), counts.get(listener, 0))
        yield family
