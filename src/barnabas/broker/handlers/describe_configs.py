"""DescribeConfigs: settings of topics, brokers, groups, loggers and client metrics (KIP-133, KIP-226, KIP-569).

Versions 1-4. v2 throttled after the response (KIP-219). v3 types and documentation (KIP-569). v4 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker import config_helper
from barnabas.broker.config_helper import ConfigInfo
from barnabas.broker.metadata.cluster_metadata import BROKERS, CLIENT_METRICS
from barnabas.broker.piecewise import ArrayField, Bound, PiecewiseResponse, answer_in_pieces
from barnabas.broker.topic_admin import check_topic_name
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

API = 32
VERSIONS = (1, 4)

#: What one setting is worth, in partitions of a Metadata response.
_WEIGHT = 3


def handle(
    broker: BrokerState, context: RequestContext, request: DescribeConfigsRequest
) -> Message | PiecewiseResponse:
    """All settings of each resource, or those that were asked for; a resource is described once."""
    asked = {(resource.resource_type, resource.resource_name): resource for resource in request.resources}

    def make(resource: DescribeConfigsResource) -> tuple[DescribeConfigsResult, int]:
        result = _describe(broker, request, resource)
        return result, 1 + _WEIGHT * len(result.configs)

    return answer_in_pieces(
        broker.large_responses,
        ArrayField(DescribeConfigsResponse, "results", context.api_version),
        asked.values(),
        make,
        lambda results: DescribeConfigsResponse(results=results),
        Bound(broker.response_room, _refuse),
    )


def _refuse(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    # With documentation and synonyms a name of ten bytes is answered by ten thousand.
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=errors.PolicyViolationError.code,
        error_message=(
            "The settings of all these resources are too much for one response. Describe fewer resources at once, only "
            "the settings that are needed, or leave out documentation and synonyms."
        ),
    )


def _describe(
    broker: BrokerState, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        entries = _entries(broker, resource.resource_type, resource.resource_name)
    except errors.KafkaError as problem:
        result.error_code, result.error_message = problem.code, str(problem)
        return result
    wanted = resource.configuration_keys
    result.configs = [_shown(entry, request) for entry in entries if not wanted or entry.name in wanted]
    return result


def _entries(broker: BrokerState, kind: int, name: str) -> list[ConfigInfo]:
    if kind == ConfigResourceType.TOPIC:
        check_topic_name(name)
        topic = broker.metadata.topic(name)
        if topic is None:
            raise errors.UnknownTopicOrPartitionError(f"There is no topic {name!r}.")
        return config_helper.topic_entries(broker.config, topic)
    if kind == ConfigResourceType.BROKER:
        if not name:
            stored = {**broker.config.dynamic_default, **broker.metadata.configs(BROKERS, "")}
            return config_helper.broker_default_entries(broker.config, stored)
        _check_broker_id(broker, name, " or empty string,")
        return config_helper.broker_entries(broker.config)
    if kind == ConfigResourceType.BROKER_LOGGER:
        if not name:
            raise errors.InvalidRequestError("Broker id must not be empty")
        _check_broker_id(broker, name, "")
        return config_helper.logger_entries(broker.loggers.levels())
    if kind == ConfigResourceType.CLIENT_METRICS:
        if not name:
            raise errors.InvalidRequestError("Client metrics subscription name must not be empty")
        return config_helper.client_metrics_entries(broker.metadata.configs(CLIENT_METRICS, name))
    if kind == ConfigResourceType.GROUP:
        if not name:
            raise errors.InvalidRequestError("Group name must not be empty")
        return config_helper.group_entries(broker.config, broker.metadata.group_configs(name))
    raise errors.InvalidRequestError(f"Unexpected resource type {kind} for resource {name}")


def _check_broker_id(broker: BrokerState, name: str, also: str) -> None:
    if not name.isascii() or not name.lstrip("+-").isdigit():
        raise errors.InvalidRequestError(f"Broker id must be an integer, but it is: {name}")
    if int(name) != broker.node_id:
        raise errors.InvalidRequestError(f"Unexpected broker id, expected {broker.node_id}{also} but received {name}")


def _shown(entry: ConfigInfo, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if request.include_documentation else None,
    )
