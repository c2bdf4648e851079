"""The rules of requests about share groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.broker.security.authorizable_request import GROUP_DENIED, TOPIC_DENIED, Asked, Verdict
from barnabas.broker.security.group_rules import describing
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import ResourceType

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_share_group_offsets_request import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestTopic,
    )
    from barnabas.protocol.messages.delete_share_group_offsets_request import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsRequestTopic,
    )
    from barnabas.protocol.messages.describe_share_group_offsets_request import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestTopic,
    )
    from barnabas.protocol.messages.describe_share_group_offsets_response import (
        DescribeShareGroupOffsetsResponse,
        DescribeShareGroupOffsetsResponseTopic,
    )
    from barnabas.protocol.messages.share_group_describe_response import DescribedGroup

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def one_of_group(asked: Asked[Any]) -> Verdict:
    """Ask for the group; for its topics the handler asks, for its sessions know more."""
    group_id = asked.request.group_id
    if group_id is None or asked.may(Op.READ, _GROUP, group_id):
        return None
    return asked.refuse(GROUP_DENIED)


def _topics_of_consumers(group: DescribedGroup) -> set[str]:
    names = {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}
    return names | {name for member in group.members for name in member.subscribed_topic_names}


share_group_describe = describing(_topics_of_consumers)


def alter_offsets(asked: Asked[AlterShareGroupOffsetsRequest]) -> Verdict:
    """Ask for the group first, then for each topic."""
    if not asked.may(Op.READ, _GROUP, asked.request.group_id):
        return asked.refuse(GROUP_DENIED)
    return asked.without("topics", "responses", lambda topic: _may_read(asked, topic), TOPIC_DENIED)


def delete_offsets(asked: Asked[DeleteShareGroupOffsetsRequest]) -> Verdict:
    """Ask for the group first, then for each topic."""
    if not asked.may(Op.DELETE, _GROUP, asked.request.group_id):
        return asked.refuse(GROUP_DENIED)
    return asked.without("topics", "responses", lambda topic: _may_read(asked, topic), TOPIC_DENIED)


def _may_read(
    asked: Asked[Any], topic: AlterShareGroupOffsetsRequestTopic | DeleteShareGroupOffsetsRequestTopic
) -> bool:
    return asked.may(Op.READ, _TOPIC, topic.topic_name)


def describe_offsets(asked: Asked[DescribeShareGroupOffsetsRequest]) -> Verdict:
    """Refuse groups that may not be described; of the others leave out, or refuse, topics that may not."""
    from barnabas.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse

    verdict = asked.without(
        "groups", "groups", lambda group: asked.may(Op.DESCRIBE, _GROUP, group.group_id), GROUP_DENIED
    )
    if verdict is not None and not callable(verdict):
        assert isinstance(verdict, DescribeShareGroupOffsetsResponse)
        return _without_topics(verdict)
    refusals: dict[str, list[Any]] = {}
    asks_for_all = {group.group_id for group in asked.request.groups if group.topics is None}
    for group in asked.request.groups:
        denied = [one for one in group.topics or () if not asked.may(Op.DESCRIBE, _TOPIC, one.topic_name)]
        if denied:
            refusals[group.group_id] = [_refused_topic(topic) for topic in denied]
            group.topics = [topic for topic in group.topics or () if topic not in denied]

    def amend(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group in response.groups:
            if group.group_id in asks_for_all:
                shown = (one for one in group.topics if asked.may(Op.DESCRIBE, _TOPIC, one.topic_name, tell=False))
                group.topics = list(shown)
            elif not group.error_code:
                group.topics = [*group.topics, *refusals.get(group.group_id, ())]
        return _without_topics(verdict(response) if callable(verdict) else response)

    return amend


def _without_topics(response: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
    for group in response.groups:
        if group.error_code == GROUP_DENIED:
            group.topics = []
    return response


def _refused_topic(topic: DescribeShareGroupOffsetsRequestTopic) -> DescribeShareGroupOffsetsResponseTopic:
    from barnabas.protocol.messages.describe_share_group_offsets_response import (
        DescribeShareGroupOffsetsResponsePartition,
        DescribeShareGroupOffsetsResponseTopic,
    )

    partitions = [
        DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=-1, error_code=TOPIC_DENIED)
        for index in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)
