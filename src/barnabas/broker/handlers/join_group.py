"""JoinGroup: become a member of a group, or stay one in its next generation.

Versions 0-9. v1 rebalance timeout. v2 throttle time. v3 throttled after the response (KIP-219). v4 a new member is
first given an id (KIP-394). v5 group instance id (KIP-345). v6 flexible. v7 protocol type in the response, the
protocol's name may be null (KIP-559). v8 reason (KIP-800). v9 a static leader that returns may skip the assignment
(KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.join_group_request import JoinGroupRequest
    from barnabas.protocol.messages.join_group_response import JoinGroupResponse

API = 11
VERSIONS = (0, 9)


def handle(
    broker: BrokerState, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | DelayedOperation:
    """Answered when every member has joined."""
    return broker.group_coordinator.join_group(context, request)
