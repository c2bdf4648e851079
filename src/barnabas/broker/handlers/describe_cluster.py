"""DescribeCluster: the brokers, and what the client may do to the cluster (KIP-700).

Versions 0-2. v1 endpoint type (KIP-919). v2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.security.acl_binding import CLUSTER_NAME
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, EndpointType, ResourceType
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest

API = 60
VERSIONS = (0, 2)


def handle(broker: BrokerState, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """All brokers that are alive, with the fenced ones if they are asked for."""
    if request.endpoint_type != EndpointType.BROKER:
        wrong = errors.MismatchedEndpointTypeError if request.endpoint_type == EndpointType.CONTROLLER else None
        return DescribeClusterResponse(
            error_code=(wrong or errors.UnsupportedEndpointTypeError).code,
            error_message="This listener describes brokers only.",
            endpoint_type=request.endpoint_type,
        )
    nodes = broker.view.brokers(context.connection.listener, fenced=request.include_fenced_brokers)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.view.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.id, host=node.host, port=node.port, rack=node.rack, is_fenced=node.is_fenced
            )
            for node in nodes
        ],
        cluster_authorized_operations=(
            broker.authorized_operations(context, ResourceType.CLUSTER, CLUSTER_NAME)
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_REQUESTED
        ),
    )
