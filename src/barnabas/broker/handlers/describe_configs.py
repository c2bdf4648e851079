"""DescribeConfigs: the settings of topics and of the broker (KIP-133, KIP-226, KIP-569)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.acl import AclOperation, ResourceType
from barnabas.broker.config_entries import ConfigEntry, broker_entries, topic_entries
from barnabas.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

API = 32
VERSIONS = (1, 4)
OPERATION = AclOperation.DESCRIBE_CONFIGS
RESOURCE = ResourceType.TOPIC

#: The codes of ConfigResource.Type.
_TOPIC = 2
_BROKER = 4


def handle(broker: BrokerState, context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """All settings of each resource, or those that were asked for."""
    return DescribeConfigsResponse(results=[_describe(broker, request, resource) for resource in request.resources])


def _describe(
    broker: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        entries = _entries(broker, resource)
    except errors.KafkaError as problem:
        result.error_code, result.error_message = problem.code, str(problem)
        return result
    wanted = resource.configuration_keys
    result.configs = [
        _shown(entry, request.include_synonyms) for entry in entries if not wanted or entry.name in wanted
    ]
    return result


def _entries(broker: BrokerState, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    if resource.resource_type == _TOPIC:
        topic = broker.metadata.topic(resource.resource_name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"There is no topic {resource.resource_name!r}.")
        return topic_entries(broker.config, topic)
    if resource.resource_type == _BROKER:
        if resource.resource_name not in ("", str(broker.node_id)):
            raise errors.InvalidRequestError(
                f"Broker {resource.resource_name!r} was asked for, but this is broker {broker.node_id}."
            )
        # "" stands for what holds for all brokers because it was set while they ran, and nothing was.
        return broker_entries(broker.config) if resource.resource_name else []
    raise errors.InvalidRequestError(f"Settings of resources of type {resource.resource_type} are not kept here.")


def _shown(entry: ConfigEntry, with_synonyms: bool) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if with_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
    )
