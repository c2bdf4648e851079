"""How NetworkClient learns which brokers there are."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.network.internal_ports import InternalRequests, InternalSender

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.network.client_request import Request
    from barnabas.network.node import Node
    from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
    from barnabas.protocol.messages.metadata_response import MetadataResponse


class MetadataUpdater(InternalRequests, Protocol):
    """Keeps the metadata fresh with requests of its own, sent by `InternalSender.send_internal_request`."""

    #: Whether it can ask about nodes that are silent; where it cannot, `doubt` is not called.
    can_doubt: bool

    def fetch_nodes(self) -> list[Node]:
        """Return the brokers known now."""

    def is_update_due(self, now: float) -> bool:
        """Whether a metadata request should go before everything else."""

    def maybe_update(self, now: float, client: InternalSender) -> float:
        """Send a metadata request, or makes a connection for one, when it is time; return the wait to the next call."""

    def handle_server_disconnect(self, now: float, node_id: int, error: KafkaError | None) -> None:
        """Note that a connection ended; `error` is one that will not go away by trying again."""

    def is_gone(self, node_id: int, since: float) -> bool:
        """Whether the cluster has said since then which nodes it has, and not listed this one."""

    def time_to_next_doubt(self, now: float) -> float:
        """Seconds until the silence of a node is to be told by `doubt`."""

    def doubt(self, now: float) -> None:
        """Ask for metadata, for a node is silent."""

    def give_up_request(self, now: float) -> None:
        """Go on without the answer to the request that was sent: the node that has it is silent."""

    def handle_late_response(
        self, now: float, request: Request, message: MetadataResponse | DescribeClusterResponse, version: int
    ) -> None:
        """Take the answer to a request that was given up, if it is of use still."""

    def needs_rebootstrap(self, now: float) -> bool:
        """Whether no broker known now can be relied on, so that all must start again (KIP-1102)."""

    def rebootstrap(self, now: float) -> None:
        """Forget the brokers and begin again with the bootstrap servers."""

    def close(self) -> None:
        """No request is answered any more; who waits for metadata stops waiting."""


class ManualMetadataUpdater:
    """Knows the nodes it is told and sends no requests: for callers that manage metadata themselves, and for tests."""

    can_doubt = False

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

    def is_gone(self, node_id: int, since: float) -> bool:
        """See `MetadataUpdater`: never."""
        return False

    def time_to_next_doubt(self, now: float) -> float:
        """See `MetadataUpdater`: never."""
        return inf

    def doubt(self, now: float) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def give_up_request(self, now: float) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def handle_late_response(
        self, now: float, request: Request, message: MetadataResponse | DescribeClusterResponse, version: int
    ) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def needs_rebootstrap(self, now: float) -> bool:
        """See `MetadataUpdater`: never."""
        return False

    def rebootstrap(self, now: float) -> None:
        """See `MetadataUpdater`: nothing to do."""

    def close(self) -> None:
        """See `MetadataUpdater`: nothing to do."""
