"""The metadata of an admin client: brokers and the controller, or the controllers alone; no topics."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from barnabas.client.cluster import Cluster
from barnabas.client.metadata import Metadata, MetadataQuery, MetadataRefresh
from barnabas.errors import KafkaError, MismatchedEndpointTypeError, for_code
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.kinds import EndpointType
from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterResponse
from barnabas.protocol.messages.metadata_response import MetadataResponse, MetadataResponseBroker

if TYPE_CHECKING:
    from barnabas.client.metadata import MetadataAnswer

FIRST_DESCRIBE_CLUSTER_WITH_ENDPOINTS = 1


class AdminMetadata(Metadata):
    """Asks for no topics, so that it stays small however large the cluster is.

    With `uses_controllers` (`bootstrap.controllers`, KIP-919) its nodes are the controllers, which answer no Metadata
    request: it asks by DescribeCluster.
    """

    def __init__(self, refresh: MetadataRefresh, *, uses_controllers: bool) -> None:
        super().__init__(refresh)
        self.uses_controllers = uses_controllers

    def topics_of_interest(self, *, only_new: bool) -> Collection[str]:
        """See `Metadata`."""
        return ()

    @property
    def allow_auto_topic_creation(self) -> bool:
        """See `Metadata`."""
        return False

    def new_query(self, now: float) -> MetadataQuery:
        """See `Metadata`."""
        query = super().new_query(now)
        if not self.uses_controllers:
            return query
        message = DescribeClusterRequest(endpoint_type=EndpointType.CONTROLLER)
        high = stable_versions(ApiKey.DESCRIBE_CLUSTER)[1]
        builder = RequestBuilder(
            ApiKey.DESCRIBE_CLUSTER, lambda _: message, FIRST_DESCRIBE_CLUSTER_WITH_ENDPOINTS, high
        )
        return query._replace(message=builder)

    @property
    def wanted_endpoint(self) -> str:
        """See `Metadata`."""
        if self.uses_controllers:
            return "bootstrap.controllers must lead to controllers of Kafka 3.7 or later"
        return f"{super().wanted_endpoint}, which an admin client asks with bootstrap.controllers"

    def refusal(self, response: MetadataAnswer) -> KafkaError | None:
        """See `Metadata`; a broker's answer to a question for controllers is one."""
        if not isinstance(response, DescribeClusterResponse):
            return None
        if response.error_code:
            error = for_code(response.error_code, response.error_message)
            return None if error.retriable else error
        if response.endpoint_type != EndpointType.CONTROLLER:
            return MismatchedEndpointTypeError(
                f"bootstrap.controllers leads to an endpoint of type {response.endpoint_type}, not to a controller"
            )
        return None

    def forget_controller(self) -> None:
        """Forget the controller, which has moved: none is known until the next update."""
        with self._changed:
            known = self._cluster
            self._cluster = Cluster(
                known.nodes, cluster_id=known.cluster_id, is_bootstrap_configured=known.is_bootstrap_configured
            )

    def update(self, response: MetadataAnswer, now: float, **query: Any) -> None:
        """See `Metadata`."""
        super().update(
            _as_metadata(response) if isinstance(response, DescribeClusterResponse) else response, now, **query
        )


def _as_metadata(cluster: DescribeClusterResponse) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node.broker_id, host=node.host, port=node.port, rack=node.rack)
        for node in cluster.brokers
    ]
    return MetadataResponse(brokers=brokers, cluster_id=cluster.cluster_id, controller_id=cluster.controller_id)
