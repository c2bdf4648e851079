"""GetTelemetrySubscriptions: which of its metrics a client is asked to push (KIP-714).

Versions 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.client_metrics.client_metrics_manager import accepted_compression_types, telemetry_client
from barnabas.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest

API = 71
VERSIONS = (0, 0)


def handle(
    broker: BrokerState, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    """Ask for sums since the client began, so that a missed push loses nothing."""
    manager = broker.client_metrics
    if manager is None:
        return GetTelemetrySubscriptionsResponse(error_code=errors.UnsupportedVersionError.code)
    try:
        instance_id, subscription = manager.subscription(
            request.client_instance_id, telemetry_client(context), context.now
        )
    except errors.KafkaError as problem:
        return GetTelemetrySubscriptionsResponse(error_code=problem.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.id,
        accepted_compression_types=accepted_compression_types(),
        push_interval_ms=subscription.push_interval_ms,
        telemetry_max_bytes=manager.max_bytes,
        delta_temporality=False,
        requested_metrics=list(subscription.metrics),
    )
