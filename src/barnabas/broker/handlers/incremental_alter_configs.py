"""IncrementalAlterConfigs: changes of single settings (KIP-339).

Versions 0-1. v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config_admin_manager import Change, Planned
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.incremental_alter_configs_request import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

API = 44
VERSIONS = (0, 1)


def handle(
    broker: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Message | PiecewiseResponse:
    """Each resource is changed as a whole or not at all, and has its own result."""
    admin = broker.config_admin

    def plan(resource: AlterConfigsResource) -> Planned | None:
        changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
        return admin.alter(resource.resource_type, resource.resource_name, changes, validate_only=request.validate_only)

    array = ArrayField(IncrementalAlterConfigsResponse, "responses", context.api_version)
    return broker.large_responses.answer(admin.alter_all(request.resources, plan, array, AlterConfigsResourceResponse))
