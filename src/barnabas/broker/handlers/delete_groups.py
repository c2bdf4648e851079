"""DeleteGroups: groups without members, with what they committed (KIP-229).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest

API = 42
VERSIONS = (0, 2)


#: What an append is worth, in partitions of a Metadata response.
_WEIGHT = 25


def handle(broker: BrokerState, context: RequestContext, request: DeleteGroupsRequest) -> Message | PiecewiseResponse:
    """Each group has its own result."""
    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DeleteGroupsResponse, "results", context.api_version),
        dict.fromkeys(request.groups_names),
        lambda group_id: (_delete(broker, context, group_id), _WEIGHT),
        lambda results: DeleteGroupsResponse(results=results),
    )


def _delete(broker: BrokerState, context: RequestContext, group_id: str) -> DeletableGroupResult:
    error_code = 0
    try:
        broker.group_coordinator.delete_group(group_id, context.instant)
    except errors.KafkaError as error:
        error_code = coordinator_error_code(error)
    return DeletableGroupResult(group_id=group_id, error_code=error_code)
