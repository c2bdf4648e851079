"""StreamsGroupDescribe: members, tasks and topologies of streams groups (KIP-1071).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.features import STREAMS_VERSION, check_groups
from barnabas.broker.handlers.described_groups import Classes, answer_groups
from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest

API = 89
VERSIONS = (0, 0)

_CLASSES = Classes(StreamsGroupDescribeResponse, DescribedGroup)


def handle(
    broker: BrokerState, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def describe(group_id: str) -> DescribedGroup:
        check_groups(broker.metadata, STREAMS_VERSION)
        return broker.group_coordinator.streams_groups(group_id).describe(group_id)

    return answer_groups(broker, context, request, request.group_ids, describe, _CLASSES)
