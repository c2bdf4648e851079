"""DeleteShareGroupOffsets: what a share group without members has of topics is forgotten (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.piecewise import outcome_of
from barnabas.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest

API = 92
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> Message | PiecewiseResponse:
    """Each topic has its own result."""
    return broker.large_responses.answer(_done(broker, context, request))


def _done(broker: BrokerState, context: RequestContext, request: DeleteShareGroupOffsetsRequest) -> Pieces:
    try:
        check_groups(broker.metadata, SHARE_VERSION)

        def begin(tell: Callable[[DeleteShareGroupOffsetsResponse], None]) -> None:
            broker.group_coordinator.share_groups(request.group_id).offsets.delete(request, context.instant, tell)

        response = yield from outcome_of(begin)
    except errors.KafkaError as problem:
        return DeleteShareGroupOffsetsResponse(error_code=coordinator_error_code(problem), error_message=str(problem))
    # Their states have begun anew, or are gone.
    broker.share_partition_manager.forget_group(request.group_id)
    return response
