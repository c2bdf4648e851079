"""Heartbeat: a member is alive; the answer tells it when to join again.

Versions 0-4. v1 throttle time. v2 throttled after the response (KIP-219). v3 group instance id (KIP-345). v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.heartbeat_request import HeartbeatRequest
    from barnabas.protocol.messages.heartbeat_response import HeartbeatResponse

API = 12
VERSIONS = (0, 4)


def handle(broker: BrokerState, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Answered at once."""
    return broker.group_coordinator.heartbeat(context, request)
