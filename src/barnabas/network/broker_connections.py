"""A NetworkClient's connections: which there are, how far each has come, what each broker understands."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.network.api_versions import ApiVersions
from barnabas.network.cluster_connection_states import ClusterConnectionStates
from barnabas.network.connection_log import ConnectionLog
from barnabas.network.idle_expiry_manager import IdleExpiryManager
from barnabas.network.network_metrics import NetworkMetrics
from barnabas.network.node import Node
from barnabas.network.selectable import Disconnection, Selectable

if TYPE_CHECKING:
    from barnabas.errors import AuthenticationError
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse

log = logging.getLogger("barnabas.network")

_LARGEST_FRAME = 2**31 - 1


class BrokerConnections:
    """Makes, notes and ends connections; what is sent on them is the NetworkClient's, whose thread owns this."""

    def __init__(
        self,
        selector: Selectable,
        states: ClusterConnectionStates,
        client_id: str,
        metrics: NetworkMetrics,
        max_idle: float,
    ) -> None:
        self._selector = selector
        self.states = states
        self.api_versions = ApiVersions()
        #: Why the last attempt to connect failed; empty since one succeeded.
        self.last_failure = ""
        self._client_id = client_id
        self._metrics = metrics
        self._log = ConnectionLog(client_id)
        self._idle_expiry = IdleExpiryManager(max_idle)
        # Bootstrap servers too, which the metadata forgets.
        self._nodes: dict[int, Node] = {}

    # --- made

    def connect(self, node: Node, now: float) -> None:
        """Begin to connect to a node that `states` allow to be connected to."""
        attempt = self.states.connecting(node.id, now, node.host)
        self._nodes[node.id] = node
        log.debug("%s: connecting to node %s", self._client_id, node)
        self._selector.connect(node.id, node.host, node.port, attempt)

    def on_opened(self, now: float) -> None:
        """Take note of what the last poll of the selector connected and let in."""
        for node_id in self._selector.connected:
            self.api_versions.on_connected(node_id)
            self._idle_expiry.on_used(node_id, now)
            self._metrics.on_opened(now)
        for authentication in self._selector.authentications:
            self._metrics.on_authenticated(authentication, now)

    def handle_api_versions(self, node_id: int, version: int, message: ApiVersionsResponse, now: float) -> bool:
        """Take in what the broker says that it understands; False for an error after which there is nothing to ask."""
        if not self.api_versions.handle_response(node_id, version, message):
            log.warning(
                "%s: node %s answered the ApiVersions request with error %s; disconnecting",
                self._client_id,
                node_id,
                message.error_code,
            )
            return False
        if self.api_versions.get(node_id) is not None:
            self._selector.set_max_receive_size(node_id, _LARGEST_FRAME)
            self.states.ready(node_id)
            self.last_failure = ""
            self._log.ready(node_id, now)
            if anatomy.active is not None:
                core = anatomy.active.number_of(self._selector)
                anatomy.active.record(anatomy.events.NodeConnected(self._client_id, core, node_id))
        return True

    def on_used(self, node_id: int, now: float) -> None:
        """Note that the connection carried something."""
        self._idle_expiry.on_used(node_id, now)

    # --- asked

    def node(self, node_id: int) -> Node:
        """Return the node that a connection leads to."""
        return self._nodes[node_id]

    def can_carry(self, node_id: int, now: float) -> bool:
        """Whether the connection is ready, not throttled, and has sent what it was given."""
        return (
            self.states.is_ready(node_id, now)
            and self._selector.is_channel_ready(node_id)
            and not self._selector.is_send_in_progress(node_id)
        )

    # --- ended

    def broken(self, node_id: int, disconnection: Disconnection, now: float, unanswered: int) -> None:
        """Take note of a connection that ended with so many requests unanswered, or of an attempt that failed."""
        was_preparing = self.states.is_preparing(node_id)
        failure = self._log.disconnected(
            node_id, disconnection, now, was_preparing=was_preparing, unanswered=unanswered
        )
        self.last_failure = failure or self.last_failure
        if disconnection.authentication_error is not None:
            self._metrics.on_authentication_failed(now, was_accepted=disconnection.was_authenticated)
        self._note_end(node_id, now, disconnection.authentication_error)

    def close(self, node_id: int, now: float) -> None:
        """End a connection."""
        self._selector.close(node_id)
        self._note_end(node_id, now, None)

    def close_idle(self, now: float, is_busy: Callable[[int], object]) -> None:
        """End the connections that nothing was sent on for too long; one that waits for an answer is not idle."""
        for node_id in self._idle_expiry.idle(now, is_busy):
            # Not news about the cluster: unlike other disconnections it does not ask for fresh metadata, which would
            # only make the connection again.
            log.debug("%s: closing the idle connection to node %s", self._client_id, node_id)
            self.close(node_id, now)

    def close_after_error(self, node_id: int, now: float) -> None:
        """End a connection whose state may be half changed."""
        self._selector.close(node_id)
        if not self.states.is_disconnected(node_id):
            self.states.disconnected(node_id, now)
        self._forget(node_id, now)

    def _note_end(self, node_id: int, now: float, error: AuthenticationError | None) -> None:
        if error is None:
            self.states.disconnected(node_id, now)
        else:
            self.states.authentication_failed(node_id, now, error)
        self._forget(node_id, now)

    def _forget(self, node_id: int, now: float) -> None:
        self.api_versions.forget(node_id)
        self._nodes.pop(node_id, None)
        if self._idle_expiry.forget(node_id):
            self._metrics.on_closed(now)
            if anatomy.active is not None:
                core = anatomy.active.number_of(self._selector)
                anatomy.active.record(anatomy.events.NodeDisconnected(self._client_id, core, node_id))
