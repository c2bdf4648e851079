"""DescribeGroups: members, subscriptions and assignments of classic groups.

Versions 0-6. v1 throttle time. v2 throttled after the response (KIP-219). v3 authorized operations (KIP-430). v4 group
instance ids (KIP-345). v5 flexible. v6 error message; GROUP_ID_NOT_FOUND in place of the state Dead (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AUTHORIZED_OPERATIONS
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest

API = 15
VERSIONS = (0, 6)
OPERATION = AclOperation.DESCRIBE
RESOURCE = ResourceType.GROUP


def handle(broker: BrokerState, context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Each group has its own result."""
    groups = [_described(broker, group_id, context.api_version) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = AUTHORIZED_OPERATIONS[ResourceType.GROUP]
    return DescribeGroupsResponse(groups=groups)


def _described(broker: BrokerState, group_id: str, version: int) -> DescribedGroup:
    try:
        return broker.group_coordinator.describe_group(group_id, version)
    except errors.KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
