"""DeleteShareGroupOffsets: what a share group without members has of topics is forgotten (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.handlers.share_group_offsets import changed
from barnabas.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest

API = 92
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Message | PiecewiseResponse:
    """Each topic has its own result."""
    return broker.large_responses.answer(
        changed(
            broker,
            request.group_id,
            lambda offsets, tell: offsets.delete(request, context.instant, tell),
            DeleteShareGroupOffsetsResponse,
        )
    )
