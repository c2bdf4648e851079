"""DeleteGroups: groups without members, with what they committed (KIP-229).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.piecewise import ArrayField, Pieces, PiecewiseResponse, outcome_of, pieces_of
from barnabas.protocol.messages.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest

API = 42
VERSIONS = (0, 2)


#: What an append is worth, in partitions of a Metadata response.
_WEIGHT = 25


def handle(broker: BrokerState, context: RequestContext, request: DeleteGroupsRequest) -> Message | PiecewiseResponse:
    """Each group has its own result; a share group goes when the share coordinator has forgotten its states."""
    return broker.large_responses.answer(_deleted(broker, context, list(dict.fromkeys(request.groups_names))))


def _deleted(broker: BrokerState, context: RequestContext, group_ids: Sequence[str]) -> Pieces:
    problems: dict[str, errors.KafkaError | None] = {}
    for group_id in group_ids:
        problems[group_id] = yield from outcome_of(partial(_forget_states, broker, context, group_id))

    def delete(group_id: str) -> tuple[DeletableGroupResult, int]:
        return _delete(broker, context, group_id, problems[group_id]), _WEIGHT

    array = ArrayField(DeleteGroupsResponse, "results", context.api_version)
    return (yield from pieces_of(array, group_ids, delete, lambda results: DeleteGroupsResponse(results=results)))


def _forget_states(
    broker: BrokerState, context: RequestContext, group_id: str, tell: Callable[[errors.KafkaError | None], None]
) -> None:
    try:
        groups = broker.group_coordinator.share_groups(group_id)
    except errors.KafkaError:
        # What keeps the group from being found keeps it from being deleted, too.
        tell(None)
    else:
        groups.forget_states(group_id, context.instant, tell)


def _delete(
    broker: BrokerState, context: RequestContext, group_id: str, problem: errors.KafkaError | None
) -> DeletableGroupResult:
    error_code = 0
    try:
        if problem is not None:
            raise problem
        broker.group_coordinator.delete_group(group_id, context.instant)
    except errors.KafkaError as error:
        error_code = coordinator_error_code(error)
    return DeletableGroupResult(group_id=group_id, error_code=error_code)
