"""AlterConfigs: all settings of a resource at once; those that are not named go back to their defaults (KIP-133)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AclOperation, ResourceType
from barnabas.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource

API = 33
VERSIONS = (0, 2)
OPERATION = AclOperation.ALTER_CONFIGS
RESOURCE = ResourceType.CLUSTER


def handle(broker: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Each resource is changed as a whole or not at all, and has its own result."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    responses = []
    for resource in request.resources:
        kind, name = resource.resource_type, resource.resource_name
        response = AlterConfigsResourceResponse(resource_type=kind, resource_name=name, error_message=None)
        try:
            if times[kind, name] > 1:
                raise errors.InvalidRequestError("Each resource must appear at most once.")
            broker.config_admin.replace(kind, name, _configs(resource), validate_only=request.validate_only)
        except errors.KafkaError as problem:
            response.error_code, response.error_message = problem.code, str(problem)
        responses.append(response)
    return AlterConfigsResponse(responses=responses)


def _configs(resource: AlterConfigsResource) -> dict[str, str]:
    found: dict[str, str] = {}
    for config in resource.configs:
        if config.name in found:
            raise errors.InvalidRequestError(f"Error due to duplicate config keys: {config.name}")
        if config.value is None:
            raise errors.InvalidRequestError(f"Null value not supported for : {config.name}")
        found[config.name] = config.value
    return found
