"""The state of the connection to every node, and when it may be tried again."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING

from barnabas.errors import IllegalStateError
from barnabas.network.exponential_backoff import ExponentialBackoff, RandomSource

if TYPE_CHECKING:
    from barnabas.errors import AuthenticationError
    from barnabas.network.connection_settings import ConnectionSettings


class ConnectionState(IntEnum):
    """Where a connection stands; the way is downwards, and from everywhere to DISCONNECTED."""

    DISCONNECTED = 0
    AUTHENTICATION_FAILED = 1
    CONNECTING = 2
    CHECKING_API_VERSIONS = 3
    READY = 4


_ENDED = (ConnectionState.DISCONNECTED, ConnectionState.AUTHENTICATION_FAILED)
_CONNECTED = (ConnectionState.CHECKING_API_VERSIONS, ConnectionState.READY)


class _NodeConnectionState:
    __slots__ = (
        "attempts",
        "authentication_error",
        "failed_attempts",
        "failed_setups",
        "host",
        "last_attempt",
        "number",
        "reconnect_backoff",
        "setup_timeout",
        "state",
        "throttled_until",
    )

    def __init__(self, host: str, reconnect_backoff: float, setup_timeout: float) -> None:
        self.host = host
        self.state = ConnectionState.CONNECTING
        self.authentication_error: AuthenticationError | None = None
        self.number = 0
        self.last_attempt = -math.inf
        self.attempts = 0
        self.failed_attempts = 0
        self.failed_setups = 0
        self.reconnect_backoff = reconnect_backoff
        self.setup_timeout = setup_timeout
        self.throttled_until = -math.inf


class ClusterConnectionStates:
    """Kafka's ClusterConnectionStates; all durations in seconds, `now` is monotonic.

    After each failure a node is left alone for longer: `reconnect.backoff.ms`, doubled up to
    `reconnect.backoff.max.ms`; and each time that a connection could not be made within
    `socket.connection.setup.timeout.ms` the next attempt may take twice as long, up to its maximum (KIP-601).
    """

    def __init__(self, settings: ConnectionSettings, random: RandomSource) -> None:
        self._reconnect_backoff = ExponentialBackoff(settings.reconnect_backoff, settings.reconnect_backoff_max, random)
        self._setup_timeout = ExponentialBackoff(
            settings.connection_setup_timeout, settings.connection_setup_timeout_max, random
        )
        self._nodes: dict[int, _NodeConnectionState] = {}
        self._connecting: set[int] = set()
        self._made = 0

    def can_connect(self, node_id: int, now: float) -> bool:
        """Whether there is no connection and its backoff is over."""
        node = self._nodes.get(node_id)
        return node is None or (node.state in _ENDED and node.last_attempt + node.reconnect_backoff <= now)

    def connection_delay(self, node_id: int, now: float) -> float:
        """How long nothing can be sent to a node: until its backoff is over, or its connection must be made.

        Infinite for one that is connected: then only an event changes something.
        """
        node = self._nodes.get(node_id)
        if node is None:
            return 0.0
        if node.state == ConnectionState.CONNECTING:
            return node.setup_timeout
        if node.state in _ENDED:
            return max(node.last_attempt + node.reconnect_backoff - now, 0.0)
        return math.inf

    def connecting(self, node_id: int, now: float, host: str) -> int:
        """Return a connection is being made; gives how often this has been tried on this host without success."""
        node = self._nodes.get(node_id)
        if node is None or node.host != host:
            node = _NodeConnectionState(host, self._reconnect_backoff.backoff(0), self._setup_timeout.backoff(0))
            self._nodes[node_id] = node
        node.state = ConnectionState.CONNECTING
        node.last_attempt = now
        self._connecting.add(node_id)
        attempt = node.attempts
        node.attempts += 1
        return attempt

    def checking_api_versions(self, node_id: int) -> None:
        """Note that the connection is made; what the broker understands is being asked."""
        node = self._node(node_id)
        node.state = ConnectionState.CHECKING_API_VERSIONS
        self._reset_setup_timeout(node)
        self._connecting.discard(node_id)

    def ready(self, node_id: int) -> None:
        """Note that requests can be sent."""
        node = self._node(node_id)
        self._made += 1
        node.number = self._made
        node.state = ConnectionState.READY
        node.authentication_error = None
        node.attempts = 0
        node.failed_attempts = 0
        node.reconnect_backoff = self._reconnect_backoff.backoff(0)
        self._reset_setup_timeout(node)
        self._connecting.discard(node_id)

    def disconnected(self, node_id: int, now: float) -> None:
        """Note that the connection ended or could not be made."""
        node = self._node(node_id)
        self._back_off(node, now)
        if node.state == ConnectionState.CONNECTING:
            node.failed_setups += 1
            node.setup_timeout = self._setup_timeout.backoff(node.failed_setups)
        else:
            self._reset_setup_timeout(node)
        # In any state: an exception from outside may have come before the attempt was taken out.
        self._connecting.discard(node_id)
        node.state = ConnectionState.DISCONNECTED
        node.authentication_error = None

    def authentication_failed(self, node_id: int, now: float, error: AuthenticationError) -> None:
        """Note that the broker did not accept who the client says it is."""
        node = self._node(node_id)
        self._back_off(node, now)
        self._connecting.discard(node_id)
        node.authentication_error = error
        node.state = ConnectionState.AUTHENTICATION_FAILED

    def _back_off(self, node: _NodeConnectionState, now: float) -> None:
        node.last_attempt = now
        node.reconnect_backoff = self._reconnect_backoff.backoff(node.failed_attempts)
        node.failed_attempts += 1

    def _reset_setup_timeout(self, node: _NodeConnectionState) -> None:
        if node.failed_setups:
            node.failed_setups = 0
            node.setup_timeout = self._setup_timeout.backoff(0)

    def throttle(self, node_id: int, until: float) -> None:
        """Nothing may be sent to the node before `until`; an earlier time than the present one changes nothing."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.throttled_until = max(node.throttled_until, until)

    def throttle_delay(self, node_id: int, now: float) -> float:
        """Seconds for which the broker asked not to be sent anything; 0 when it did not."""
        node = self._nodes.get(node_id)
        return 0.0 if node is None else max(node.throttled_until - now, 0.0)

    def poll_delay(self, node_id: int, now: float) -> float:
        """How long it makes no sense to look at the node again: its throttling, or else its `connection_delay`."""
        throttled = self.throttle_delay(node_id, now)
        return throttled if throttled > 0 and self.is_connected(node_id) else self.connection_delay(node_id, now)

    def is_ready(self, node_id: int, now: float) -> bool:
        """Whether the connection can carry requests and is not throttled."""
        node = self._nodes.get(node_id)
        return node is not None and node.state == ConnectionState.READY and node.throttled_until <= now

    def has_ready_nodes(self, now: float) -> bool:
        """Whether any node is ready."""
        return any(self.is_ready(node_id, now) for node_id in self._nodes)

    def is_connecting(self, node_id: int) -> bool:
        """Whether a connection is being made."""
        return node_id in self._connecting

    def is_preparing(self, node_id: int) -> bool:
        """Whether the connection is on its way to be ready."""
        node = self._nodes.get(node_id)
        return node is not None and node.state in (ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS)

    def is_connected(self, node_id: int) -> bool:
        """Whether there is a connection, ready or not."""
        node = self._nodes.get(node_id)
        return node is not None and node.state in _CONNECTED

    def is_disconnected(self, node_id: int) -> bool:
        """Whether there was a connection, or an attempt, that ended."""
        node = self._nodes.get(node_id)
        return node is not None and node.state in _ENDED

    def state(self, node_id: int) -> ConnectionState | None:
        """Return the state of a node that was ever connected to, else None."""
        node = self._nodes.get(node_id)
        return None if node is None else node.state

    def authentication_error(self, node_id: int) -> AuthenticationError | None:
        """Why the broker did not let the client in, since its last success."""
        node = self._nodes.get(node_id)
        return None if node is None else node.authentication_error

    def last_attempt(self, node_id: int) -> float:
        """When a connection was last tried or lost; minus infinity when never."""
        node = self._nodes.get(node_id)
        return -math.inf if node is None else node.last_attempt

    def number(self, node_id: int) -> int:
        """Which of all the connections of this client the node's last one is, from 1 on; 0 when it had none."""
        node = self._nodes.get(node_id)
        return 0 if node is None else node.number

    def setup_timeout(self, node_id: int) -> float:
        """How long the present attempt may take."""
        return self._node(node_id).setup_timeout

    def nodes_with_setup_timeout(self, now: float) -> list[int]:
        """Return the nodes whose connection was not made in time."""
        if not self._connecting:
            return []
        nodes = self._nodes
        return [n for n in self._connecting if nodes[n].last_attempt + nodes[n].setup_timeout <= now]

    def time_to_next_setup_timeout(self, now: float) -> float:
        """Seconds until the first attempt counts as failed; infinite when none is in progress."""
        if not self._connecting:
            return math.inf
        nodes = self._nodes
        return min(nodes[n].last_attempt + nodes[n].setup_timeout - now for n in self._connecting)

    def nodes_connecting(self) -> list[int]:
        """List the nodes that a connection is being made to."""
        return list(self._connecting)

    def nodes(self) -> list[int]:
        """List the nodes that a connection was tried to."""
        return list(self._nodes)

    def remove(self, node_id: int) -> None:
        """Forget a node."""
        self._nodes.pop(node_id, None)
        self._connecting.discard(node_id)

    def _node(self, node_id: int) -> _NodeConnectionState:
        node = self._nodes.get(node_id)
        if node is None:
            raise IllegalStateError(f"there is no connection to node {node_id}")
        return node
