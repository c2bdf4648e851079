"""SyncGroup: the leader hands in the assignment, every member gets its part.

Versions 0-5. v1 throttle time. v2 throttled after the response (KIP-219). v3 group instance id (KIP-345). v4 flexible.
v5 protocol type and name, which must be the group's (KIP-559).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.protocol.messages.sync_group_response import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.purgatory import DelayedOperation
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.sync_group_request import SyncGroupRequest

API = 14
VERSIONS = (0, 5)

#: From this version on a member has to say which protocol it believes in (KIP-559).
_PROTOCOL_REQUIRED_FROM = 5


def handle(
    broker: BrokerState, context: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | DelayedOperation:
    """Answered when the leader's assignment is in the log."""
    incomplete = request.protocol_type is None or request.protocol_name is None
    if context.api_version >= _PROTOCOL_REQUIRED_FROM and incomplete:
        return SyncGroupResponse(error_code=errors.InconsistentGroupProtocolError.code)
    return broker.group_coordinator.sync_group(context, request)
