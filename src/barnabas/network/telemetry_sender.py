"""Takes a client's telemetry to a broker (KIP-714): which node, and when."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.network.client_request import Request
    from barnabas.network.internal_ports import InternalSender
    from barnabas.network.node import Node
    from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
    from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse

TELEMETRY_APIS: Final = frozenset((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))


# Seconds that another sender has before it is looked whether it is still there.
_OTHERS_TURN = 1.0


class Telemetry(Protocol):
    """Kafka's ClientTelemetrySender: what is to be sent next, and what the answers mean."""

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for an answer, so that a connection is worth making."""

    @property
    def is_urgent(self) -> bool:
        """Whether what is due must go by the next connection there is."""

    @property
    def is_done(self) -> bool:
        """Whether nothing more is sent."""

    def time_to_next_request(self, now: float) -> float:
        """Seconds until `create_request` is worth a call; infinite while an answer is waited for."""

    def create_request(self, now: float) -> Request | None:
        """Return the request to send now, if there is one."""

    def handle_response(self, now: float, message: GetTelemetrySubscriptionsResponse | PushTelemetryResponse) -> None:
        """Take the answer to the last request."""

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """Note that the last request got no answer; `error` is one that will not go away by trying again."""


class TelemetrySender:
    """The TelemetrySender of Kafka's NetworkClient. It stays with one broker for as long as that can be sent to.

    It uses the connections that there are. A consumer has two NetworkClients, each with a sender of its own for the
    same `Telemetry`; `defers` tells whether the other one is to send what is not urgent.
    """

    def __init__(self, telemetry: Telemetry, defers: Callable[[], bool] | None = None) -> None:
        self._telemetry = telemetry
        self._defers = defers
        self._sticky_node: Node | None = None
        self._is_in_flight = False
        self._is_retired = False

    def retire(self) -> None:
        """Begin nothing any more: the connections are about to be closed."""
        self._is_retired = True

    @property
    def holds_up_the_end(self) -> bool:
        """Whether the client closes, and what it pushes last waits for an answer that comes by this connection."""
        return self._is_in_flight and self._telemetry.is_urgent and not self._telemetry.is_done

    def maybe_update(self, now: float, client: InternalSender) -> float:
        """Send what is due; return the seconds to wait at most until the next call."""
        if self._is_retired:
            return math.inf
        wait = self._telemetry.time_to_next_request(now)
        if wait > 0 or self._telemetry.is_done:
            # At the moment of the end 0, for who waits for it.
            return wait
        if self._defers is not None and not self._telemetry.is_urgent and self._defers():
            return _OTHERS_TURN
        node = self._sticky_node
        if node is None or not client.can_send_request(node.id, now):
            node = self._sticky_node = client.ready_node_with(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, now)
        if node is None:
            return self._wait_for_node(now, client)
        request = self._telemetry.create_request(now)
        if request is not None:
            self._is_in_flight = True
            client.send_internal_request(node.id, request, now)
        # One that the node does not understand has failed already, and a caller may wait for that.
        return 0.0 if self._sticky_node is None else self._telemetry.time_to_next_request(now)

    def _wait_for_node(self, now: float, client: InternalSender) -> float:
        if self._telemetry.is_awaited and not client.has_ready_nodes(now) and not client.is_any_node_connecting(now):
            node = client.least_loaded_node(now)
            if node is not None and client.can_connect(node.id, now):
                client.initiate_connect(node, now)
        # The answer that makes room, or the end of a throttling, is waited for no longer than a broker that is gone.
        return client.reconnect_backoff if self._telemetry.is_awaited or client.has_ready_nodes(now) else math.inf

    def handle_successful_response(
        self, now: float, message: GetTelemetrySubscriptionsResponse | PushTelemetryResponse, version: int
    ) -> None:
        """See `InternalRequests`."""
        self._is_in_flight = False
        self._telemetry.handle_response(now, message)

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """See `InternalRequests`."""
        node, self._sticky_node = self._sticky_node, None
        was_in_flight, self._is_in_flight = self._is_in_flight, False
        if not was_in_flight:
            return  # what is in flight, if anything, is the other client's
        if isinstance(error, UnsupportedVersionError):
            error = UnsupportedVersionError(f"{node} takes no telemetry: {error}")
        self._telemetry.handle_failed_request(now, error)
