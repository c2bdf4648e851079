"""What a NetworkClient counts, under the names of Kafka's selector and node metrics."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.network.metric_group import MetricGroup, node_tags
from barnabas.network.statistic import NAN, Statistic


class NodeMetrics:
    """The requests to one node: sizes in bytes, times in milliseconds."""

    __slots__ = ("latency", "received", "sizes")

    def __init__(self) -> None:
        self.latency = Statistic()
        self.received = Statistic()
        self.sizes = Statistic()


class NetworkMetrics:
    """Counted once per request, response and connection by the thread that polls; any thread may read."""

    __slots__ = ("connections_created", "failed_authentications", "nodes", "open_connections")

    def __init__(self) -> None:
        self.connections_created = 0
        self.failed_authentications = 0
        self.open_connections = 0
        self.nodes: dict[int, NodeMetrics] = {}

    def sent(self, node_id: int, size: int) -> None:
        """A request of so many bytes goes out."""
        self._node(node_id).sizes.record(size)

    def answered(self, node_id: int, size: int, seconds: float) -> None:
        """A response of so many bytes came, so long after its request went out."""
        node = self._node(node_id)
        node.received.record(size)
        node.latency.record(seconds * 1000)

    def _node(self, node_id: int) -> NodeMetrics:
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = NodeMetrics()
        return node


def network_metrics(clients: Iterable[NetworkMetrics]) -> dict[str, float]:
    """The numbers of all connections of the NetworkClients of one client: their sums, means and maxima."""
    all_metrics = list(clients)
    nodes = [node for metrics in all_metrics for node in list(metrics.nodes.values())]
    created = sum(metrics.connections_created for metrics in all_metrics)
    is_open = sum(metrics.open_connections for metrics in all_metrics)
    return {
        "connection-count": is_open,
        "connection-creation-total": created,
        "connection-close-total": max(created - is_open, 0),
        "failed-authentication-total": sum(metrics.failed_authentications for metrics in all_metrics),
        **_of_nodes(nodes),
    }


def node_metrics(group: str, clients: Iterable[NetworkMetrics]) -> list[MetricGroup]:
    """Kafka's node metrics, in the group of that name; bootstrap servers and coordinators have numbers of their own."""
    by_id: dict[int, list[NodeMetrics]] = {}
    for metrics in clients:
        for node_id, node in list(metrics.nodes.items()):
            by_id.setdefault(node_id, []).append(node)
    return [MetricGroup(group, node_tags(node_id), _of_nodes(nodes)) for node_id, nodes in sorted(by_id.items())]


def _of_nodes(nodes: list[NodeMetrics]) -> dict[str, float]:
    sizes = [node.sizes for node in nodes]
    received = [node.received for node in nodes]
    latencies = [node.latency for node in nodes]
    return {
        "request-total": sum(one.count for one in sizes),
        "request-size-avg": _average(sizes),
        "request-size-max": _maximum(sizes),
        "outgoing-byte-total": sum(one.total for one in sizes),
        "response-total": sum(one.count for one in received),
        "incoming-byte-total": sum(one.total for one in received),
        "request-latency-avg": _average(latencies),
        "request-latency-max": _maximum(latencies),
    }


def _average(statistics: list[Statistic]) -> float:
    count = sum(one.count for one in statistics)
    return sum(one.total for one in statistics) / count if count else NAN


def _maximum(statistics: list[Statistic]) -> float:
    return max((one.maximum for one in statistics if one.count), default=NAN)
