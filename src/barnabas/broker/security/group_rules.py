"""The rules of requests about groups and their offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.security.authorizable_request import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Asked,
    Verdict,
)
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import CoordinatorType, ResourceType
from barnabas.protocol.thresholds import FIND_COORDINATOR_KEYS_FROM, OFFSET_FETCH_GROUPS_FROM

if TYPE_CHECKING:
    from barnabas.protocol.messages.consumer_group_describe_response import (
        ConsumerGroupDescribeResponse,
        DescribedGroup,
    )
    from barnabas.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
    from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
    from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
    from barnabas.protocol.messages.list_groups_response import ListGroupsResponse
    from barnabas.protocol.messages.offset_commit_request import OffsetCommitRequest
    from barnabas.protocol.messages.offset_delete_request import OffsetDeleteRequest
    from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopics
    from barnabas.protocol.messages.offset_fetch_response import (
        OffsetFetchResponse,
        OffsetFetchResponseTopic,
        OffsetFetchResponseTopics,
    )
    from barnabas.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
    from barnabas.protocol.messages.streams_group_describe_response import StreamsGroupDescribeResponse

    GroupsDescribed = TypeVar(
        "GroupsDescribed", ConsumerGroupDescribeResponse, ShareGroupDescribeResponse, StreamsGroupDescribeResponse
    )

_GROUP, _TOPIC = ResourceType.GROUP, ResourceType.TOPIC


def one(operation: Op) -> Callable[[Asked[Any]], Verdict]:
    """Return the rule that the group of a request needs an operation."""

    def rule(asked: Asked[Any]) -> Verdict:
        return None if asked.may(operation, _GROUP, asked.request.group_id) else asked.refuse(GROUP_DENIED)

    return rule


def each(array: str, answers: str, operation: Op) -> Callable[[Asked[Any]], Verdict]:
    """Return the rule that each group of an array of names needs an operation."""

    def rule(asked: Asked[Any]) -> Verdict:
        return asked.without(array, answers, lambda name: asked.may(operation, _GROUP, name), GROUP_DENIED)

    return rule


def offset_commit(asked: Asked[OffsetCommitRequest]) -> Verdict:
    """Ask for the group first, then for each topic."""
    if not asked.may(Op.READ, _GROUP, asked.request.group_id):
        return asked.refuse(GROUP_DENIED)
    return asked.without("topics", "topics", lambda topic: asked.may_topic(Op.READ, topic), TOPIC_DENIED)


def offset_delete(asked: Asked[OffsetDeleteRequest]) -> Verdict:
    """Ask for the group first, then for each topic."""
    if not asked.may(Op.DELETE, _GROUP, asked.request.group_id):
        return asked.refuse(GROUP_DENIED)
    return asked.without("topics", "topics", lambda topic: asked.may_topic(Op.READ, topic), TOPIC_DENIED)


def list_groups(asked: Asked[ListGroupsRequest]) -> Verdict:
    """Show all to who may describe the cluster, others the groups that they may describe."""
    if asked.may_cluster(Op.DESCRIBE, tell=False):
        return None

    def amend(response: ListGroupsResponse) -> ListGroupsResponse:
        response.groups = [
            group for group in response.groups if asked.may(Op.DESCRIBE, _GROUP, group.group_id, tell=False)
        ]
        return response

    return amend


def offset_fetch(asked: Asked[OffsetFetchRequest]) -> Verdict:
    """Refuse groups that may not be described; of the others leave out, or refuse, topics that may not."""
    from barnabas.protocol.messages.offset_fetch_response import OffsetFetchResponse

    if asked.context.api_version < OFFSET_FETCH_GROUPS_FROM:
        return _offset_fetch_of_one(asked)
    request = asked.request
    verdict = asked.without(
        "groups", "groups", lambda group: asked.may(Op.DESCRIBE, _GROUP, group.group_id), GROUP_DENIED
    )
    if verdict is not None and not callable(verdict):
        assert isinstance(verdict, OffsetFetchResponse)
        return _without_topics(verdict)
    refusals: dict[str, list[Any]] = {}
    for group in request.groups:
        if group.topics is not None:
            denied = [topic for topic in group.topics if not asked.may_topic(Op.DESCRIBE, topic)]
            if denied:
                refusals[group.group_id] = [_refused_topic(topic) for topic in denied]
                group.topics = [topic for topic in group.topics if topic not in denied]
    asks_for_all = {group.group_id for group in request.groups if group.topics is None}
    if verdict is None and not refusals and not asks_for_all:
        return None

    def amend(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.group_id in asks_for_all:
                group.topics = [topic for topic in group.topics if _is_shown(asked, topic)]
            if not group.error_code:
                group.topics = [*group.topics, *refusals.get(group.group_id, ())]
        return _without_topics(verdict(response) if callable(verdict) else response)

    return amend


def _without_topics(response: OffsetFetchResponse) -> OffsetFetchResponse:
    for group in response.groups:
        if group.error_code == GROUP_DENIED:
            group.topics = []
    return response


def _is_shown(asked: Asked[Any], topic: OffsetFetchResponseTopic | OffsetFetchResponseTopics) -> bool:
    name = asked.name_of(topic)
    return name is not None and asked.may(Op.DESCRIBE, _TOPIC, name, tell=False)


def _refused_topic(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    from barnabas.protocol.messages.offset_fetch_response import (
        OffsetFetchResponsePartitions,
        OffsetFetchResponseTopics,
    )

    partitions = [
        OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, metadata="", error_code=TOPIC_DENIED)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions)


def _offset_fetch_of_one(asked: Asked[OffsetFetchRequest]) -> Verdict:
    request = asked.request
    if not asked.may(Op.DESCRIBE, _GROUP, request.group_id):
        return asked.refuse(GROUP_DENIED)
    if request.topics is not None:
        return asked.without("topics", "topics", lambda topic: asked.may_topic(Op.DESCRIBE, topic), TOPIC_DENIED)

    def amend(response: OffsetFetchResponse) -> OffsetFetchResponse:
        response.topics = [topic for topic in response.topics if _is_shown(asked, topic)]
        return response

    return amend


def find_coordinator(asked: Asked[FindCoordinatorRequest]) -> Verdict:
    """Ask for each key, by the kind of what it names."""
    request = asked.request

    def allowed(key: str) -> bool:
        if request.key_type == CoordinatorType.GROUP:
            return asked.may(Op.DESCRIBE, _GROUP, key)
        if request.key_type == CoordinatorType.TRANSACTION:
            return asked.may(Op.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return asked.may_cluster(Op.CLUSTER_ACTION)

    codes: dict[int, int] = {CoordinatorType.GROUP: GROUP_DENIED, CoordinatorType.TRANSACTION: TRANSACTION_DENIED}
    code = codes.get(request.key_type, CLUSTER_DENIED)
    if asked.context.api_version >= FIND_COORDINATOR_KEYS_FROM:
        return asked.without("coordinator_keys", "coordinators", allowed, code)
    return None if allowed(request.key) else asked.refuse(code)


def consumer_group_heartbeat(asked: Asked[ConsumerGroupHeartbeatRequest]) -> Verdict:
    """Ask for the group, and that all topics of the subscription may be described."""
    request = asked.request
    if not asked.may(Op.READ, _GROUP, request.group_id):
        return asked.refuse(GROUP_DENIED)
    names = request.subscribed_topic_names or []
    if not all(asked.may(Op.DESCRIBE, _TOPIC, name) for name in names):
        return asked.refuse(TOPIC_DENIED)
    return None


def describing(
    topics_of: Callable[[Any], set[str]],
    message: str = "The group has described topic(s) that the client is not authorized to describe.",
    hide: Callable[[Any], None] = lambda group: None,
) -> Callable[[Asked[Any]], Verdict]:
    """Return the rule that refuses groups that may not be described, and those of whose topics one may not.

    `hide(group)` takes away what those are not to show beside their members.
    """

    def rule(asked: Asked[Any]) -> Verdict:
        verdict = asked.without("group_ids", "groups", lambda name: asked.may(Op.DESCRIBE, _GROUP, name), GROUP_DENIED)
        if verdict is not None and not callable(verdict):
            return verdict

        def amend(response: GroupsDescribed) -> GroupsDescribed:
            for group in response.groups:
                if not all(asked.may(Op.DESCRIBE, _TOPIC, name, tell=False) for name in topics_of(group)):
                    group.error_code, group.error_message, group.members = TOPIC_DENIED, message, []
                    hide(group)
            return verdict(response) if callable(verdict) else response

        return amend

    return rule


def _topics_of_consumers(group: DescribedGroup) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    } | {name for member in group.members for name in member.subscribed_topic_names}


consumer_group_describe = describing(_topics_of_consumers)
