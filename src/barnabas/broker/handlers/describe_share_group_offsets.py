"""DescribeShareGroupOffsets: how far share groups are (KIP-932).

Versions 0-1. v1 lag (KIP-1226).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.piecewise import outcome_of
from barnabas.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
    )

API = 90
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Message | PiecewiseResponse:
    """Each group has its own result; one without topics in the request is told of all that it has."""
    return broker.large_responses.answer(_described(broker, context, request))


def _described(broker: BrokerState, context: RequestContext, request: DescribeShareGroupOffsetsRequest) -> Pieces:
    response = DescribeShareGroupOffsetsResponse()
    for number, asked in enumerate(request.groups):
        if number:
            yield None
        try:
            check_groups(broker.metadata, SHARE_VERSION)
            group = yield from outcome_of(_begin(broker, context, asked))
        except errors.KafkaError as problem:
            group = DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, error_code=problem.code, error_message=str(problem)
            )
        response.groups.append(group)
    return response


def _begin(
    broker: BrokerState, context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup
) -> Callable[[Callable[[DescribeShareGroupOffsetsResponseGroup], None]], None]:
    def begin(tell: Callable[[DescribeShareGroupOffsetsResponseGroup], None]) -> None:
        broker.group_coordinator.share_groups(asked.group_id).offsets.describe(asked, context.instant, tell)

    return begin
