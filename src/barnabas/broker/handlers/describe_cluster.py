"""DescribeCluster: the brokers, and what the client may do to the cluster (KIP-700).

Versions 0-2. v1 endpoint type (KIP-919). v2 fenced brokers (KIP-1073).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AUTHORIZED_OPERATIONS
from barnabas.protocol.kinds import AUTHORIZED_OPERATIONS_NOT_REQUESTED, AclOperation, EndpointType, ResourceType
from barnabas.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_cluster_request import DescribeClusterRequest

API = 60
VERSIONS = (0, 2)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.CLUSTER


def handle(broker: BrokerState, context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """One broker, which is its own controller."""
    if request.endpoint_type != EndpointType.BROKER:
        wrong = errors.MismatchedEndpointTypeError if request.endpoint_type == EndpointType.CONTROLLER else None
        return DescribeClusterResponse(
            error_code=(wrong or errors.UnsupportedEndpointTypeError).code,
            error_message="This listener describes brokers only.",
            endpoint_type=request.endpoint_type,
        )
    host, port = broker.endpoint(context.connection.listener)
    return DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[DescribeClusterBroker(broker_id=broker.node_id, host=host, port=port, rack=broker.rack)],
        cluster_authorized_operations=(
            AUTHORIZED_OPERATIONS[ResourceType.CLUSTER]
            if request.include_cluster_authorized_operations
            else AUTHORIZED_OPERATIONS_NOT_REQUESTED
        ),
    )
