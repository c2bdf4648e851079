"""IncrementalAlterConfigs: changes of single settings (KIP-339).

Versions 0-1. v1 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.config_admin import Change, changing
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse, answer_in_pieces
from barnabas.protocol.kinds import AclOperation, ResourceType
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
OPERATION = AclOperation.ALTER_CONFIGS
RESOURCE = ResourceType.CLUSTER


def handle(
    broker: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> Message | PiecewiseResponse:
    """Each resource is changed as a whole or not at all, and has its own result."""

    def change(resource: AlterConfigsResource) -> None:
        changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
        broker.config_admin.alter(
            resource.resource_type, resource.resource_name, changes, validate_only=request.validate_only
        )

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(IncrementalAlterConfigsResponse, "responses", context.api_version),
        request.resources,
        changing(request.resources, change, AlterConfigsResourceResponse),
        lambda responses: IncrementalAlterConfigsResponse(responses=responses),
    )
