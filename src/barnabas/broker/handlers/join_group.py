"""JoinGroup: become a member of a group, or stay one in its next generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.kinds import AclOperation, ResourceType

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.join_group_request import JoinGroupRequest
    from barnabas.protocol.messages.join_group_response import JoinGroupResponse

API = 11
VERSIONS = (0, 9)
OPERATION = AclOperation.READ
RESOURCE = ResourceType.GROUP


def handle(
    broker: BrokerState, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | DelayedOperation:
    """Answered when every member has joined."""
    return broker.group_coordinator.join_group(context, request)
