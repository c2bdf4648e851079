"""Requests that are a client's own and not one of its callers': what sends them, and who is told of their outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.network.client_request import Request
    from barnabas.network.node import Node


class InternalSender(Protocol):
    """What a `NetworkClient` offers to its `MetadataUpdater` and its `TelemetrySender`."""

    @property
    def reconnect_backoff(self) -> float:
        """Seconds to wait where no node can be asked."""

    def send_internal_request(self, node_id: int, message: Request, now: float) -> None:
        """Send a request whose outcome goes to its owner."""

    def can_send_request(self, node_id: int, now: float) -> bool:
        """Whether a request can be sent to the node now."""

    def can_connect(self, node_id: int, now: float) -> bool:
        """Whether there is no connection and its backoff is over."""

    def initiate_connect(self, node: Node, now: float) -> None:
        """Begin to connect."""

    def least_loaded_node(self, now: float) -> Node | None:
        """Return the node to ask when any will do."""

    def ready_node_with(self, api_key: int, now: float) -> Node | None:
        """Return the node that has an API, and the fewest requests in flight."""

    def has_ready_connection(self, now: float) -> bool:
        """Whether any known node has a ready connection."""

    def has_ready_nodes(self, now: float) -> bool:
        """Whether any connection is ready."""

    def is_any_node_connecting(self, now: float) -> bool:
        """Whether a connection to any known node is being made, and not for too long yet."""


class InternalRequests(Protocol):
    """Sends requests by an `InternalSender`, one at a time, and is told here what became of each."""

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """Take note that there is no answer; `error` is one that will not go away by trying again."""

    def handle_successful_response(self, now: float, message: Any, version: int) -> None:
        """Take the answer to the request, in the version it was asked in."""
