"""One request in flight to each node, and pauses after failures (RequestManager)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from barnabas.network.node import Node


class _Connection:
    """What is known of the way to a node."""

    __slots__ = ("backoff_until", "correlation_id", "timeout_at")

    def __init__(self) -> None:
        self.correlation_id: int | None = None
        self.timeout_at = inf
        self.backoff_until = -inf


class RequestManager:
    """Says when a node may be sent to; a response counts only while its request is the one in flight."""

    __slots__ = ("_connections", "_random", "bootstrap", "request_timeout", "retry_backoff")

    def __init__(self, bootstrap: Sequence[Node], retry_backoff: float, request_timeout: float, random: Random) -> None:
        self.bootstrap = list(bootstrap)
        self.retry_backoff = retry_backoff
        self.request_timeout = request_timeout
        self._random = random
        self._connections: dict[int, _Connection] = {}

    def is_ready(self, node_id: int, now: float) -> bool:
        """Say whether a request may be sent to a node; one that has taken too long is given up."""
        connection = self._connections.get(node_id)
        if connection is None:
            return True
        if connection.correlation_id is not None and now >= connection.timeout_at:
            connection.correlation_id = None
        return connection.correlation_id is None and now >= connection.backoff_until

    def ready_at(self, node_id: int) -> float:
        """Return when to look at a node again."""
        connection = self._connections.get(node_id)
        if connection is None:
            return -inf
        return connection.timeout_at if connection.correlation_id is not None else connection.backoff_until

    def has_timed_out(self, node_id: int, now: float) -> bool:
        """Say whether the request in flight to a node has taken too long."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.correlation_id is not None and now >= connection.timeout_at

    def is_backing_off(self, node_id: int, now: float) -> bool:
        """Say whether a node is let alone after a failure."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.correlation_id is None and now < connection.backoff_until

    def has_in_flight(self, now: float) -> bool:
        """Say whether any request is in flight."""
        return any(
            connection.correlation_id is not None and now < connection.timeout_at
            for connection in self._connections.values()
        )

    def find_ready(self, nodes: Sequence[Node], now: float) -> Node | None:
        """Return a node to ask, any of those that may be; None while one is asked already."""
        if self.has_in_flight(now):
            return None
        ready = [node for node in nodes if self.is_ready(node.id, now)]
        return self._random.choice(ready) if ready else None

    def ready_at_any(self, nodes: Sequence[Node], now: float) -> float:
        """Return when to look again for one of the nodes that may be asked."""
        in_flight = [
            found.timeout_at
            for found in self._connections.values()
            if found.correlation_id is not None and now < found.timeout_at
        ]
        if in_flight:
            return min(in_flight)
        return min((self.ready_at(node.id) for node in nodes), default=inf)

    def sent(self, node_id: int, correlation_id: int, now: float) -> None:
        """Take note of a request."""
        connection = self._connections.setdefault(node_id, _Connection())
        connection.correlation_id = correlation_id
        connection.timeout_at = now + self.request_timeout
        connection.backoff_until = -inf

    def is_expected(self, node_id: int, correlation_id: int) -> bool:
        """Say whether this request is the one in flight."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.correlation_id == correlation_id

    def finished(self, node_id: int, correlation_id: int, *, success: bool, now: float) -> None:
        """Take note of how a request ended; after a failure the node is let alone for a while."""
        connection = self._connections.get(node_id)
        if connection is not None and connection.correlation_id == correlation_id:
            connection.correlation_id = None
            if not success:
                connection.backoff_until = now + self.retry_backoff

    def reset(self, node_id: int) -> None:
        """Forget a node."""
        self._connections.pop(node_id, None)

    def reset_all(self) -> None:
        """Forget all nodes: what is in flight is not waited for."""
        self._connections.clear()
