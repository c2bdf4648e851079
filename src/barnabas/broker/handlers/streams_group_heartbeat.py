"""StreamsGroupHeartbeat: members of streams groups join, stay, get their tasks and leave (KIP-1071).

Versions 0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.coordinator.coordinator_errors import coordinator_error_code
from barnabas.broker.features import STREAMS_VERSION, check_groups
from barnabas.broker.groups.streams.topic_configuration import MISSING_INTERNAL_TOPICS
from barnabas.broker.handlers.registry import handler_for
from barnabas.broker.metadata.cluster_metadata import INTERNAL_TOPICS
from barnabas.broker.topic_admin import check_topic_name
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.kinds import AclOperation, ResourceType
from barnabas.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.groups.streams.topology import InternalTopic
    from barnabas.broker.request_context import RequestContext
    from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest, Topology

API = 88
VERSIONS = (0, 0)

#: So many topics that could not be made are told of.
_MOST_PROBLEMS = 3


def handle(
    broker: BrokerState, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse:
    """Answer once what has changed is in the log; internal topics that are missing are being made then."""
    try:
        check_groups(broker.metadata, STREAMS_VERSION)
        if request.topology is not None:
            _check_names(request.topology)
        groups = broker.group_coordinator.streams_groups(request.group_id)
        response, missing = groups.heartbeat(context, request)
    except errors.KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=coordinator_error_code(error), error_message=str(error))
    if missing:
        _create(broker, context, missing, response)
    return response


def topic_names(topology: Topology) -> list[str]:
    """Return the names of all topics of a topology, each once."""
    names: dict[str, None] = {}
    for part in topology.subtopologies:
        names.update(dict.fromkeys((*part.source_topics, *part.repartition_sink_topics)))
        names.update(dict.fromkeys(topic.name for topic in part.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in part.state_changelog_topics))
    return list(names)


def _check_names(topology: Topology) -> None:
    names = topic_names(topology)
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        raise errors.StreamsInvalidTopologyError(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        )
    try:
        for name in names:
            check_topic_name(name)
    except errors.InvalidTopicError as problem:
        raise errors.StreamsInvalidTopologyError(str(problem)) from problem


def _create(
    broker: BrokerState,
    context: RequestContext,
    missing: tuple[InternalTopic, ...],
    response: StreamsGroupHeartbeatResponse,
) -> None:
    names = [topic.name for topic in missing]
    told = next(one for one in response.status or () if one.status_code == MISSING_INTERNAL_TOPICS)
    denied = _denied(broker, context, names)
    if denied:
        told.status_detail += f"; Unauthorized to CREATE on topics {', '.join(denied)}."
        return
    patience = 2 * response.heartbeat_interval_ms / 1000
    handle = handler_for(ApiKey.CREATE_TOPICS)
    if broker.member is not None:
        handle = broker.member.handler(ApiKey.CREATE_TOPICS, handle)
    broker.streams_internal_topics.create(context, missing, patience, partial(handle, broker))
    problems = broker.streams_internal_topics.problems(names, context.now)
    if problems:
        shown = ", ".join(f"{name} ({problem})" for name, problem in list(problems.items())[:_MOST_PROBLEMS])
        left = len(problems) - _MOST_PROBLEMS
        told.status_detail += f"; Creation failed: {shown}{f' and {left} more' if left > 0 else ''}."


def _denied(broker: BrokerState, context: RequestContext, names: list[str]) -> list[str]:
    """Return the topics that the member may not make."""
    authorization = broker.authorization
    if authorization is None or authorization.allows_cluster(context, AclOperation.CREATE, tell=False):
        return []
    create = AclOperation.CREATE
    return [name for name in names if not authorization.allows(context, create, ResourceType.TOPIC, name)]
