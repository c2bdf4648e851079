"""AlterConfigs: all settings of a resource at once; those that are not named go back to their defaults (KIP-133).

Versions 0-2. v1 throttled after the response (KIP-219). v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.config_admin_manager import Planned
from barnabas.broker.piecewise import ArrayField, PiecewiseResponse
from barnabas.protocol.messages.alter_configs_response import AlterConfigsResourceResponse, AlterConfigsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.alter_configs_request import AlterConfigsRequest, AlterConfigsResource

API = 33
VERSIONS = (0, 2)


def handle(broker: BrokerState, context: RequestContext, request: AlterConfigsRequest) -> Message | PiecewiseResponse:
    """Each resource is changed as a whole or not at all, and has its own result."""
    admin = broker.config_admin

    def plan(resource: AlterConfigsResource) -> Planned | None:
        configs = _configs(resource)
        return admin.replace(
            resource.resource_type, resource.resource_name, configs, validate_only=request.validate_only
        )

    array = ArrayField(AlterConfigsResponse, "responses", context.api_version)
    return broker.large_responses.answer(admin.alter_all(request.resources, plan, array, AlterConfigsResourceResponse))


def _configs(resource: AlterConfigsResource) -> dict[str, str]:
    found: dict[str, str] = {}
    for config in resource.configs:
        if config.name in found:
            raise errors.InvalidRequestError(f"Error due to duplicate config keys: {config.name}")
        if config.value is None:
            raise errors.InvalidRequestError(f"Null value not supported for : {config.name}")
        found[config.name] = config.value
    return found
