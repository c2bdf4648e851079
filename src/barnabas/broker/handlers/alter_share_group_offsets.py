"""AlterShareGroupOffsets: share-partitions of a group without members begin at other offsets (KIP-932).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import SHARE_VERSION, check_groups
from barnabas.broker.piecewise import outcome_of
from barnabas.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.piecewise import Pieces, PiecewiseResponse
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest

API = 91
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> Message | PiecewiseResponse:
    """Each partition has its own result; a group that is not there comes into being."""
    return broker.large_responses.answer(_done(broker, context, request))


def _done(broker: BrokerState, context: RequestContext, request: AlterShareGroupOffsetsRequest) -> Pieces:
    try:
        check_groups(broker.metadata, SHARE_VERSION)

        def begin(tell: Callable[[AlterShareGroupOffsetsResponse], None]) -> None:
            broker.group_coordinator.share_groups(request.group_id).offsets.alter(request, context.instant, tell)

        response = yield from outcome_of(begin)
    except errors.KafkaError as problem:
        return AlterShareGroupOffsetsResponse(error_code=coordinator_error_code(problem), error_message=str(problem))
    # Their states have begun anew, or are gone.
    broker.share_partition_manager.forget_group(request.group_id)
    return response
