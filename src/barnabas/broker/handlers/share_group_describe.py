"""ShareGroupDescribe: members, epochs and assignments of share groups (KIP-932).

Versions 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.handlers.described_groups import Classes, answer_groups
from barnabas.protocol.messages.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest

API = 77
VERSIONS = (1, 1)

_CLASSES = Classes(ShareGroupDescribeResponse, DescribedGroup)


def handle(
    broker: BrokerState, context: RequestContext, request: ShareGroupDescribeRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def describe(group_id: str) -> DescribedGroup:
        check_groups(broker.metadata, SHARE_VERSION)
        return broker.group_coordinator.share_groups(group_id).describe(group_id)

    return answer_groups(broker, context, request, request.group_ids, describe, _CLASSES)
