"""The rules of requests about streams groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.security.authorizable_request import GROUP_DENIED, TOPIC_DENIED, Asked, Verdict
from barnabas.broker.security.group_rules import describing
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType

if TYPE_CHECKING:
    from barnabas.protocol.messages.streams_group_describe_response import DescribedGroup
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


def _topics(group: DescribedGroup) -> set[str]:
    found: set[str] = set()
    for part in () if group.topology is None else group.topology.subtopologies or ():
        found.update(part.source_topics, part.repartition_sink_topics)
        found.update(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics))
    return found


def _hide(group: DescribedGroup) -> None:
    group.topology = None
    group.group_state, group.group_epoch, group.assignment_epoch = "", 0, 0


describe = describing(_topics, "The described group uses topics that the client is not authorized to describe.", _hide)
