"""IncrementalAlterConfigs: changes of single settings (KIP-339)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AclOperation, ResourceType
from barnabas.broker.config_admin import Change
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest

API = 44
VERSIONS = (0, 1)
OPERATION = AclOperation.ALTER_CONFIGS
RESOURCE = ResourceType.CLUSTER


def handle(
    broker: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Each resource is changed as a whole or not at all, and has its own result."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
        try:
            if times[kind, name] > 1:
                raise errors.InvalidRequestError("Each resource must appear at most once.")
            changes = [Change(config.name, config.config_operation, config.value) for config in resource.configs]
            broker.config_admin.alter(kind, name, changes, validate_only=request.validate_only)
        except errors.KafkaError as problem:
            response.error_code, response.error_message = problem.code, str(problem)
        responses.append(response)
    return IncrementalAlterConfigsResponse(responses=responses)
