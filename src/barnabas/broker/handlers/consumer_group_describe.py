"""ConsumerGroupDescribe: members, epochs and assignments of consumer groups (KIP-848).

Versions 0-1. v1 type of each member (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest

API = 69
VERSIONS = (0, 1)


#: What a group and one of its members are worth, in partitions of a Metadata response.
_GROUP_WEIGHT, _MEMBER_WEIGHT = 10, 10


def handle(
    broker: BrokerState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def make(group_id: str) -> tuple[DescribedGroup, int]:
        group = _described(broker, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.authorized_operations(context, ResourceType.GROUP, group_id)
        return group, _GROUP_WEIGHT + _MEMBER_WEIGHT * len(group.members)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(ConsumerGroupDescribeResponse, "groups", context.api_version),
        dict.fromkeys(request.group_ids),
        make,
        lambda groups: ConsumerGroupDescribeResponse(groups=groups),
    )


def _described(broker: BrokerState, group_id: str) -> DescribedGroup:
    try:
        return broker.group_coordinator.describe_consumer_group(group_id)
    except errors.KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
