"""How NetworkClient learns which brokers there are."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.network.internal_ports import InternalRequests, InternalSender

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.network.node import Node
    from barnabas.protocol.messages.metadata_response import MetadataResponse


class MetadataUpdater(InternalRequests, Protocol):
    """Keeps the metadata fresh with requests of its own, sent by `InternalSender.send_internal_request`."""

    def fetch_nodes(self) -> list[Node]:
        """Return the brokers known now."""

    def is_update_due(self, now: float) -> bool:
        """Whether a metadata request should go before everything else."""

    def maybe_update(self, now: float, client: InternalSender) -> float:
        """Send a metadata request, or makes a connection for one, when it is time; return the wait to the next call."""

    def handle_server_disconnect(self, now: float, node_id: int, error: KafkaError | None) -> None:
        """Note that a connection ended; `error` is one that will not go away by trying again."""

    def needs_rebootstrap(self, now: float) -> bool:
        """Whether no broker known now can be relied on, so that all must start again (KIP-1102)."""

    def rebootstrap(self, now: float) -> None:
        """Forget the brokers and begin again with the bootstrap servers."""

    def close(self) -> None:
        """No request is answered any more; who waits for metadata stops waiting."""


class ManualMetadataUpdater:
    """Knows the nodes it is told and sends no requests: for callers that manage metadata themselves, and for tests."""

    def __init__(self, nodes: list[Node] | None = None) -> None:
        self.nodes: list[Node] = [] if nodes is None else nodes

    def fetch_nodes(self) -> list[Node]:
        """See `MetadataUpdater`."""
        return self.nodes

    def is_update_due(self, now: float) -> bool:
        """See `MetadataUpdater`: never."""
        return False

    def maybe_update(self, now: float, client: InternalSender) -> float:
        """See `MetadataUpdater`: never."""
        return inf

    def handle_server_disconnect(self, now: float, node_id: int, error: KafkaError | None) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def handle_failed_request(self, now: float, error: KafkaError | None) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def handle_successful_response(self, now: float, message: MetadataResponse, version: int) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def needs_rebootstrap(self, now: float) -> bool:
        """See `MetadataUpdater`: never."""
        return False

    def rebootstrap(self, now: float) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def close(self) -> None:
        """See `MetadataUpdater`: nothing to do."""
