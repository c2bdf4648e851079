"""ConsumerGroupDescribe: members, epochs and assignments of consumer groups (KIP-848).

Versions 0-1. v1 type of each member (KIP-1099).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.handlers.described_groups import Classes, answer_groups
from barnabas.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse, DescribedGroup

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest

API = 69
VERSIONS = (0, 1)

_CLASSES = Classes(ConsumerGroupDescribeResponse, DescribedGroup)


def handle(
    broker: BrokerState, context: RequestContext, request: ConsumerGroupDescribeRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""
    describe = broker.group_coordinator.describe_consumer_group
    return answer_groups(broker, context, request, request.group_ids, describe, _CLASSES)
