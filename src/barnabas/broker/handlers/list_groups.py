"""ListGroups: the groups of this broker, by state (KIP-518) and type (KIP-848).

Versions 0-5. v1 throttle time. v2 throttled after the response (KIP-219). v3 flexible. v4 states (KIP-518). v5 types
(KIP-848).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.list_groups_response import ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.list_groups_request import ListGroupsRequest

API = 16
VERSIONS = (0, 5)


def handle(broker: BrokerState, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """Empty filters let everything through."""
    try:
        groups = broker.group_coordinator.list_groups(request.states_filter, request.types_filter)
    except errors.KafkaError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=groups)
