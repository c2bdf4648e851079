"""The rules of requests about streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.security.authorizable_request import GROUP_DENIED, TOPIC_DENIED, Asked, Verdict
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType

if TYPE_CHECKING:
    from barnabas.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
    from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
    from barnabas.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def heartbeat(asked: Asked[StreamsGroupHeartbeatRequest]) -> Verdict:
    """Ask for the group, and that all topics of the topology may be described."""
    from barnabas.broker.handlers.streams_group_heartbeat import topic_names

    request = asked.request
    if not asked.may(Op.READ, _GROUP, request.group_id):
        return asked.refuse(GROUP_DENIED)
    names = topic_names(request.topology) if request.topology is not None else ()
    if not all(asked.may(Op.DESCRIBE, _TOPIC, name) for name in names):
        return asked.refuse(TOPIC_DENIED)
    return None


def describe(asked: Asked[StreamsGroupDescribeRequest]) -> Verdict:
    """Refuse groups that may not be described, and those whose topology has topics that may not."""
    verdict = asked.without("group_ids", "groups", lambda name: asked.may(Op.DESCRIBE, _GROUP, name), GROUP_DENIED)
    if verdict is not None and not callable(verdict):
        return verdict

    def amend(response: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        for group in response.groups:
            if not all(asked.may(Op.DESCRIBE, _TOPIC, name, tell=False) for name in _topics(group)):
                group.error_code = TOPIC_DENIED
                group.error_message = "The described group uses topics that the client is not authorized to describe."
                group.members, group.topology = [], None
                group.group_state, group.group_epoch, group.assignment_epoch = "", 0, 0
        return verdict(response) if callable(verdict) else response

    return amend


def _topics(group: DescribedGroup) -> set[str]:
    found: set[str] = set()
    for part in () if group.topology is None else group.topology.subtopologies or ():
        found.update(part.source_topics, part.repartition_sink_topics)
        found.update(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))
    return found
