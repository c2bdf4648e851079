"""IncrementalAlterConfigs for the controller's loggers: they change at once, and in no record (KIP-412, KIP-919)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.config_admin_manager import Change
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.incremental_alter_configs_request import (
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )


def with_loggers(handle: Handler) -> Handler:
    """Return a handler that sets the levels of loggers itself, and leaves all other resources to `handle`."""

    def handle_all(
        broker: BrokerState, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> Message | DelayedOperation | None:
        loggers = [one for one in request.resources if one.resource_type == ConfigResourceType.BROKER_LOGGER]
        if not loggers:
            return handle(broker, context, request)
        done = [_set(broker, one, validate_only=request.validate_only) for one in loggers]
        request.resources = [one for one in request.resources if one not in loggers]
        if not request.resources:
            return IncrementalAlterConfigsResponse(responses=done)

        def joined(response: IncrementalAlterConfigsResponse) -> IncrementalAlterConfigsResponse:
            response.responses += done
            return response

        result = handle(broker, context, request)
        if not isinstance(result, DelayedOperation):
            assert isinstance(result, IncrementalAlterConfigsResponse)
            return joined(result)
        before = context.amend
        context.amend = joined if before is None else lambda response: before(joined(response))
        return result

    return handle_all


def _set(broker: BrokerState, resource: AlterConfigsResource, *, validate_only: bool) -> AlterConfigsResourceResponse:
    code, text = 0, None
    changes = [Change(one.name, one.config_operation, one.value) for one in resource.configs]
    try:
        broker.config_admin.alter(resource.resource_type, resource.resource_name, changes, validate_only=validate_only)
    except errors.KafkaError as problem:
        code, text = problem.code, str(problem)
    return AlterConfigsResourceResponse(code, text, resource.resource_type, resource.resource_name)
