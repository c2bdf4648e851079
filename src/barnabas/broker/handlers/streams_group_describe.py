"""StreamsGroupDescribe: members, tasks and topologies of streams groups (KIP-1071).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import STREAMS_VERSION, finalized
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.kinds import ResourceType
from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest

API = 89
VERSIONS = (0, 0)

#: What a group and one of its members are worth, in partitions of a Metadata response.
_GROUP_WEIGHT, _MEMBER_WEIGHT = 10, 10


def handle(
    broker: BrokerState, context: RequestContext, request: StreamsGroupDescribeRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result, once."""

    def make(group_id: str) -> tuple[DescribedGroup, int]:
        group = _described(broker, group_id)
        if request.include_authorized_operations and not group.error_code:
            group.authorized_operations = broker.authorized_operations(context, ResourceType.GROUP, group_id)
        return group, _GROUP_WEIGHT + _MEMBER_WEIGHT * len(group.members)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(StreamsGroupDescribeResponse, "groups", context.api_version),
        dict.fromkeys(request.group_ids),
        make,
        lambda groups: StreamsGroupDescribeResponse(groups=groups),
    )


def _described(broker: BrokerState, group_id: str) -> DescribedGroup:
    try:
        if finalized(broker.metadata)[STREAMS_VERSION] < 1:
            raise errors.UnsupportedVersionError("Streams groups are switched off: streams.version is at 0.")
        return broker.group_coordinator.streams_groups(group_id).describe(group_id)
    except errors.KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=str(error))
