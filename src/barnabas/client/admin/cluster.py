"""The operation on the cluster itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.client.admin.api_handler import Outcome, Scope, StaticLookup
from barnabas.network.node import Node
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest


class ClusterDescription(NamedTuple):
    """The cluster's id, its brokers and which of them is the controller (None when there is none now)."""

    cluster_id: str
    nodes: list[Node]
    controller: Node | None


class DescribeClusterHandler:
    """DescribeCluster, from any broker; its only key is "cluster"."""

    name = "describe_cluster"

    def __init__(self) -> None:
        self.lookup: StaticLookup[str] = StaticLookup(Scope.ANY)

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeClusterRequest:
        """See `AdminApiHandler`."""
        return DescribeClusterRequest()

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, ClusterDescription]) -> None:
        """See `AdminApiHandler`."""
        if outcome.is_success(keys[0], response.error_code, response.error_message):
            nodes = {b.broker_id: Node(b.broker_id, b.host, b.port, b.rack) for b in response.brokers}
            description = ClusterDescription(
                response.cluster_id, list(nodes.values()), nodes.get(response.controller_id)
            )
            outcome.complete(keys[0], description)
