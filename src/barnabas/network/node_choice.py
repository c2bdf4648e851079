"""Which node is asked where several could be: the least loaded one, or one that knows an API."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.network.broker_connections import BrokerConnections
    from barnabas.network.exponential_backoff import RandomSource
    from barnabas.network.in_flight_requests import InFlightRequests
    from barnabas.network.metadata_updater import MetadataUpdater
    from barnabas.network.node import Node
    from barnabas.network.silent_nodes import SilentNodes


class NodeChoice:
    """Chooses among the nodes that the metadata name, by their connections; changes nothing.

    `can_send(node_id, now)` says whether a request can be sent to a node now.
    """

    __slots__ = ("_can_send", "_connections", "_in_flight", "_random", "_silent", "_states", "_updater")

    def __init__(
        self,
        connections: BrokerConnections,
        in_flight: InFlightRequests,
        silent: SilentNodes,
        updater: MetadataUpdater,
        random: RandomSource,
        can_send: Callable[[int, float], bool],
    ) -> None:
        self._connections = connections
        self._states = connections.states
        self._in_flight = in_flight
        self._silent = silent
        self._updater = updater
        self._random = random
        self._can_send = can_send

    def least_loaded(self, now: float) -> Node | None:
        """Return the node to ask when any will do.

        One that is ready with the fewest requests in flight, else one that is connecting, else one that may be
        connected to (the one tried longest ago). None when all are in their backoff. One that is silent only where no
        other can be asked, now or when it has answered.
        """
        nodes = self._updater.fetch_nodes()
        others = [node for node in nodes if not self._silent.is_silent(node.id, now)]
        found = self._least_loaded_of(others, now)
        if found is None and len(others) < len(nodes) and not any(self._states.is_ready(n.id, now) for n in others):
            found = self._least_loaded_of(nodes, now)
        return found

    def _least_loaded_of(self, nodes: list[Node], now: float) -> Node | None:
        best: Node | None = None
        fewest = math.inf
        connecting: Node | None = None
        connectable: Node | None = None
        offset = int(self._random.random() * len(nodes))
        states = self._states
        for index in range(len(nodes)):
            node = nodes[(offset + index) % len(nodes)]
            if self._can_send(node.id, now):
                count = self._in_flight.count(node.id)
                if count == 0:
                    return node
                if count < fewest:
                    best, fewest = node, count
            elif states.is_preparing(node.id):
                connecting = node
            elif states.can_connect(node.id, now) and (
                connectable is None or states.last_attempt(connectable.id) > states.last_attempt(node.id)
            ):
                connectable = node
        return best or connecting or connectable

    def ready_with(self, api_key: int, now: float) -> Node | None:
        """Return the node that can be sent to now and has the fewest requests in flight.

        Of those with the API if there are any; None when none can be sent to.
        """
        versions = self._connections.api_versions
        ready = [node_id for node_id in versions.nodes() if self._can_send(node_id, now)]
        knowing = [node_id for node_id in ready if versions.supports(node_id, api_key)]
        best = min(knowing or ready, key=self._in_flight.count, default=None)
        return None if best is None else self._connections.node(best)

    def is_any_ready(self, now: float) -> bool:
        """Whether any known node has a ready connection, busy or not."""
        return any(self._states.is_ready(node.id, now) for node in self._updater.fetch_nodes())

    def is_any_connecting(self, now: float) -> bool:
        """Whether a connection to any known node is being made, and not for too long yet."""
        nodes = self._updater.fetch_nodes()
        return any(self._states.is_connecting(n.id) and not self._silent.is_silent(n.id, now) for n in nodes)
