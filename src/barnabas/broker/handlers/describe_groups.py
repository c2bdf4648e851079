"""DescribeGroups: members, subscriptions and assignments of classic groups.

Versions 0-6. v1 throttle time. v2 throttled after the response (KIP-219). v3 authorized operations (KIP-430). v4 group
instance ids (KIP-345). v5 flexible. v6 error message; GROUP_ID_NOT_FOUND in place of the state Dead (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest

API = 15
VERSIONS = (0, 6)


#: What a group and one of its members are worth, in partitions of a Metadata response.
_GROUP_WEIGHT, _MEMBER_WEIGHT = 10, 10


def handle(broker: BrokerState, context: RequestContext, request: DescribeGroupsRequest) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def make(group_id: str) -> tuple[DescribedGroup, int]:
        group = _described(broker, group_id, context.api_version)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.authorized_operations(context, ResourceType.GROUP, group_id)
        return group, _GROUP_WEIGHT + _MEMBER_WEIGHT * len(group.members)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeGroupsResponse, "groups", context.api_version),
        dict.fromkeys(request.groups),
        make,
        lambda groups: DescribeGroupsResponse(groups=groups),
    )


def _described(broker: BrokerState, group_id: str, version: int) -> DescribedGroup:
    try:
        return broker.group_coordinator.describe_group(group_id, version)
    except errors.KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
