"""What a NetworkClient counts, under the names of Kafka's selector and node metrics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.network.metric_group import MetricGroup, node_tags
from barnabas.network.sampled_stat import DEFAULT, MetricConfig, Reading, Statistic

if TYPE_CHECKING:
    from barnabas.network.selectable import Authentication


class NodeMetrics:
    """The requests to one node: sizes in bytes, times in milliseconds."""

    __slots__ = ("latency", "received", "sizes")

    def __init__(self, config: MetricConfig) -> None:
        self.latency = Statistic(config)
        self.received = Statistic(config)
        self.sizes = Statistic(config)


class NetworkMetrics:
    """Counted once per request, response and connection by the thread that polls; any thread may read."""

    __slots__ = (
        "_config",
        "_opened_at",
        "authenticated",
        "authentication_failed",
        "connections_closed",
        "connections_created",
        "nodes",
        "open_connections",
        "reauthenticated",
        "reauthentication_failed",
    )

    def __init__(self, config: MetricConfig = DEFAULT) -> None:
        self._config = config
        self.connections_created = Statistic(config)
        self.connections_closed = Statistic(config)
        self.authenticated = Statistic(config)
        self.authentication_failed = Statistic(config)
        # What it took, in milliseconds.
        self.reauthenticated = Statistic(config)
        self.reauthentication_failed = Statistic(config)
        self.open_connections = 0
        self._opened_at = 0.0
        self.nodes: dict[int, NodeMetrics] = {}

    def on_sent(self, node_id: int, size: int, now: float) -> None:
        """Note that a request of so many bytes goes out."""
        self._node(node_id).sizes.record(size, now)

    def on_answered(self, node_id: int, size: int, sent_at: float, now: float) -> None:
        """Note that a response of so many bytes came to the request that went out then."""
        node = self._node(node_id)
        node.received.record(size, now)
        node.latency.record((now - sent_at) * 1000, now)

    def on_opened(self, now: float) -> None:
        """There is a connection more."""
        self.open_connections += 1
        self._opened_at = now
        self.connections_created.record(1, now)

    def on_closed(self, now: float) -> None:
        """There is a connection less."""
        self.open_connections -= 1
        self.connections_closed.record(1, now)

    def on_all_closed(self) -> None:
        """Note that the client has ended; at an unknown time, which matters to no rate any more."""
        while self.open_connections:
            self.on_closed(self._opened_at)

    def on_authenticated(self, authentication: Authentication, now: float) -> None:
        """Note that a broker has accepted the client."""
        if authentication.renewed_in is None:
            self.authenticated.record(1, now)
        else:
            self.reauthenticated.record(authentication.renewed_in * 1000, now)

    def on_authentication_failed(self, now: float, *, was_accepted: bool) -> None:
        """Note that a broker has refused the client, which it may have accepted before."""
        (self.reauthentication_failed if was_accepted else self.authentication_failed).record(1, now)

    def _node(self, node_id: int) -> NodeMetrics:
        node = self.nodes.get(node_id)
        if node is None:
            node = self.nodes[node_id] = NodeMetrics(self._config)
        return node


def network_metrics(clients: Iterable[NetworkMetrics], now: float) -> dict[str, float]:
    """Return the numbers of all connections of the NetworkClients of one client: their sums, means and maxima."""
    all_metrics = list(clients)
    nodes = [node for metrics in all_metrics for node in list(metrics.nodes.values())]

    def reading(name: str) -> Reading:
        return Reading.of([getattr(metrics, name) for metrics in all_metrics], now)

    renewed = reading("reauthenticated")
    both_ways = Reading.of([statistic for node in nodes for statistic in (node.sizes, node.received)], now)
    return {
        "connection-count": sum(metrics.open_connections for metrics in all_metrics),
        **reading("connections_created").counted("connection-creation"),
        **reading("connections_closed").counted("connection-close"),
        **reading("authenticated").counted("successful-authentication"),
        **reading("authentication_failed").counted("failed-authentication"),
        **renewed.counted("successful-reauthentication"),
        **renewed.averaged("reauthentication-latency"),
        **reading("reauthentication_failed").counted("failed-reauthentication"),
        **both_ways.counted("network-io"),
        **_of_nodes(nodes, now),
    }


def node_metrics(group: str, clients: Iterable[NetworkMetrics], now: float) -> list[MetricGroup]:
    """Kafka's node metrics, in the group of that name; bootstrap servers and coordinators have numbers of their own."""
    by_id: dict[int, list[NodeMetrics]] = {}
    for metrics in clients:
        for node_id, node in list(metrics.nodes.items()):
            by_id.setdefault(node_id, []).append(node)
    return [MetricGroup(group, node_tags(node_id), _of_nodes(nodes, now)) for node_id, nodes in sorted(by_id.items())]


def _of_nodes(nodes: list[NodeMetrics], now: float) -> dict[str, float]:
    sizes = Reading.of([node.sizes for node in nodes], now)
    received = Reading.of([node.received for node in nodes], now)
    return {
        **sizes.counted("request"),
        **sizes.averaged("request-size"),
        **sizes.metered("outgoing-byte"),
        **received.counted("response"),
        **received.metered("incoming-byte"),
        **Reading.of([node.latency for node in nodes], now).averaged("request-latency"),
    }
