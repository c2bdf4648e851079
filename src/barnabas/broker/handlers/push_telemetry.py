"""PushTelemetry: the metrics of a client (KIP-714).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_metrics.client_metrics_manager import telemetry_client
from barnabas.protocol.messages.push_telemetry_response import PushTelemetryResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.push_telemetry_request import PushTelemetryRequest

API = 72
VERSIONS = (0, 0)


def handle(broker: BrokerState, context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Taken at once, or refused with the reason's code."""
    manager = broker.client_metrics
    if manager is None:
        return PushTelemetryResponse(error_code=errors.UnsupportedVersionError.code)
    try:
        manager.push(telemetry_client(context), request, context.now)
    except errors.KafkaError as problem:
        return PushTelemetryResponse(error_code=problem.code)
    return PushTelemetryResponse()
