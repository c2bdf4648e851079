"""DescribeGroups: members, subscriptions and assignments of classic groups.

Versions 0-6. v1 throttle time. v2 throttled after the response (KIP-219). v3 authorized operations (KIP-430). v4 group
instance ids (KIP-345). v5 flexible. v6 error message; GROUP_ID_NOT_FOUND in place of the state Dead (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.handlers.described_groups import Classes, answer_groups
from barnabas.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest

API = 15
VERSIONS = (0, 6)

_CLASSES = Classes(DescribeGroupsResponse, DescribedGroup)


def handle(broker: BrokerState, context: RequestContext, request: DescribeGroupsRequest) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def describe(group_id: str) -> DescribedGroup:
        try:
            return broker.group_coordinator.describe_group(group_id, context.api_version)
        except errors.KafkaError as error:
            # Kafka says why only of a group that is not there.
            return DescribedGroup(group_id=group_id, error_code=error.code)

    return answer_groups(broker, context, request, request.groups, describe, _CLASSES)
