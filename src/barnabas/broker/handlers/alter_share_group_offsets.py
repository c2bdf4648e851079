"""AlterShareGroupOffsets: share-partitions of a group without members begin at other offsets (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.handlers.share_group_offsets import changed
from barnabas.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest

API = 91
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Message | PiecewiseResponse:
    """Each partition has its own result; a group that is not there comes into being."""
    return broker.large_responses.answer(
        changed(
            broker,
            request.group_id,
            lambda offsets, tell: offsets.alter(request, context.instant, tell),
            AlterShareGroupOffsetsResponse,
        )
    )
