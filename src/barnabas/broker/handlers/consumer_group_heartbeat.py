"""ConsumerGroupHeartbeat: members of consumer groups join, stay, get their partitions and leave (KIP-848).

Versions 0-1. v1 topics by regular expression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import GROUP_VERSION, check_groups
from barnabas.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

API = 68
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Answered at once, once what has changed is in the log."""
    try:
        check_groups(broker.metadata, GROUP_VERSION)
        return broker.group_coordinator.consumer_group_heartbeat(context, request)
    except errors.KafkaError as error:
        return ConsumerGroupHeartbeatResponse(
            error_code=coordinator_error_code(error), error_message=str(error), assignment=None
        )
