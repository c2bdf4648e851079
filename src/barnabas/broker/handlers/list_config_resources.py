"""ListConfigResources: which resources there are that can have settings (KIP-1142).

Versions 0-1. v1 all kinds of resources (KIP-1142); v0 lists client metrics only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import CLIENT_METRICS, GROUPS
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse
from barnabas.protocol.thresholds import LIST_CONFIG_RESOURCES_TYPES_FROM

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.list_config_resources_request import ListConfigResourcesRequest

API = 74
VERSIONS = (0, 1)

_ALL = (
    ConfigResourceType.TOPIC,
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.GROUP,
)


def handle(
    broker: BrokerState, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Version 0 (ListClientMetricsResources) knows client metrics only; an empty list asks for every type."""
    asked = (
        [ConfigResourceType.CLIENT_METRICS]
        if context.api_version < LIST_CONFIG_RESOURCES_TYPES_FROM
        else request.resource_types or list(_ALL)
    )
    if not set(asked) <= set(_ALL):
        return ListConfigResourcesResponse(error_code=errors.UnsupportedVersionError.code)
    found = [
        ConfigResource(resource_name=name, resource_type=kind) for kind in _ALL if kind in asked
        for name in _names(broker, kind)
    ]  # fmt: skip
    return ListConfigResourcesResponse(config_resources=found)


def _names(broker: BrokerState, kind: int) -> list[str]:
    if kind == ConfigResourceType.TOPIC:
        return [topic.name for topic in broker.metadata.topics()]
    if kind == ConfigResourceType.GROUP:
        return broker.metadata.configured(GROUPS)
    if kind == ConfigResourceType.CLIENT_METRICS:
        return broker.metadata.configured(CLIENT_METRICS)
    return [str(broker.node_id)]
