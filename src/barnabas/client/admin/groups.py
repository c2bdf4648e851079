"""The operations on consumer groups of the classic protocol, and on their committed offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from barnabas.client.admin.api_handler import Outcome, StaticLookup, is_passing
from barnabas.client.admin.lookups import CoordinatorLookup
from barnabas.client.admin.offsets import by_topic
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import KafkaError, UnsupportedVersionError, for_code
from barnabas.network.client_request import RequestBuilder
from barnabas.protocol.api import ApiKey, stable_versions
from barnabas.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.protocol.messages.delete_groups_request import DeleteGroupsRequest
from barnabas.protocol.messages.describe_groups_request import DescribeGroupsRequest
from barnabas.protocol.messages.list_groups_request import ListGroupsRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from barnabas.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from barnabas.protocol.topic_partition import TopicPartition

_CONSUMER = "consumer"
_FIRST_LIST_WITH_STATES = 4
_FIRST_LIST_WITH_TYPES = 5
_FIRST_FETCH_OF_GROUPS = 8
# From version 10 on partitions go by topic id, which a caller who names topics does not know.
_LAST_WITH_TOPIC_NAMES = 9


class GroupListing(NamedTuple):
    """A group in a list; `state` and `type` are empty when the broker is too old to tell."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class MemberDescription(NamedTuple):
    """A member of a group, and the partitions it has (of a group of consumers)."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]


class GroupDescription(NamedTuple):
    """A group: `protocol` is the assignor its members agreed on, `coordinator_id` the broker that keeps it."""

    group_id: str
    protocol_type: str
    protocol: str
    state: str
    members: list[MemberDescription]


class ListGroupsHandler:
    """ListGroups, from every broker: each knows the groups it coordinates. The keys are the brokers' ids."""

    name = "list_groups"

    def __init__(self, *, states: Collection[str], types: Collection[str]) -> None:
        self.lookup: StaticLookup[int] = StaticLookup(lambda node_id: node_id)
        self._states = list(states)
        self._types = list(types)

    def build_request(self, keys: list[int], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        message = ListGroupsRequest(states_filter=self._states, types_filter=self._types)
        low, high = stable_versions(ApiKey.LIST_GROUPS)
        if self._states:
            low = max(low, _FIRST_LIST_WITH_STATES)
        if self._types:
            low = max(low, _FIRST_LIST_WITH_TYPES)
        return RequestBuilder(ApiKey.LIST_GROUPS, lambda _: message, low, high)

    def handle_response(self, keys: list[int], response: Any, outcome: Outcome[int, list[GroupListing]]) -> None:
        """See `AdminApiHandler`."""
        if outcome.is_success(keys[0], response.error_code):
            groups = [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]
            outcome.complete(keys[0], groups)


class DescribeGroupsHandler:
    """DescribeGroups, at the coordinators."""

    name = "describe_groups"

    def __init__(self) -> None:
        self.lookup = CoordinatorLookup()

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeGroupsRequest:
        """See `AdminApiHandler`."""
        return DescribeGroupsRequest(groups=keys)

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, GroupDescription]) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if outcome.is_success(group.group_id, group.error_code, group.error_message):
                members = [_member(member, group.protocol_type) for member in group.members]
                outcome.complete(
                    group.group_id,
                    GroupDescription(
                        group.group_id, group.protocol_type, group.protocol_data, group.group_state, members
                    ),
                )


def _member(member: Any, protocol_type: str) -> MemberDescription:
    assigned: list[TopicPartition] = []
    if protocol_type == _CONSUMER and member.member_assignment:
        data = memoryview(member.member_assignment)
        version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.VALID_VERSIONS[1])
        assignment = ConsumerProtocolAssignment.decode(bytes(data[2:]), version)
        assigned = [TopicPartition(t.topic, n) for t in assignment.assigned_partitions for n in t.partitions]
    return MemberDescription(member.member_id, member.group_instance_id, member.client_id, member.client_host, assigned)


class DeleteGroupsHandler:
    """DeleteGroups, at the coordinators."""

    name = "delete_groups"

    def __init__(self) -> None:
        self.lookup = CoordinatorLookup()

    def build_request(self, keys: list[str], timeout_ms: int) -> DeleteGroupsRequest:
        """See `AdminApiHandler`."""
        return DeleteGroupsRequest(groups_names=keys)

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, None]) -> None:
        """See `AdminApiHandler`."""
        for result in response.results:
            if outcome.is_success(result.group_id, result.error_code):
                outcome.complete(result.group_id, None)


GroupOffsets = dict[TopicPartition, OffsetAndMetadata]
PartitionErrors = dict[TopicPartition, "KafkaError | None"]


class OffsetFetchHandler:
    """OffsetFetch, at the coordinators; `partitions` by group, None for all that have an offset."""

    name = "list_consumer_group_offsets"

    def __init__(self, partitions: Mapping[str, Collection[TopicPartition] | None], *, require_stable: bool) -> None:
        self.lookup = CoordinatorLookup()
        self._partitions = partitions
        self._require_stable = require_stable
        self._is_of_groups = True

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""

        def build(version: int) -> OffsetFetchRequest:
            self._is_of_groups = version >= _FIRST_FETCH_OF_GROUPS
            if self._is_of_groups:
                groups = [OffsetFetchRequestGroup(group_id=key, topics=self._topics_of(key)) for key in keys]
                return OffsetFetchRequest(groups=groups, require_stable=self._require_stable)
            if len(keys) > 1:
                raise UnsupportedVersionError("this broker gives the offsets of one group at a time")
            asked = self._partitions[keys[0]]
            topics = (
                None
                if asked is None
                else [
                    OffsetFetchRequestTopic(name=topic, partition_indexes=[p.partition for p in partitions])
                    for topic, partitions in by_topic(asked)
                ]
            )
            return OffsetFetchRequest(group_id=keys[0], topics=topics, require_stable=self._require_stable)

        return RequestBuilder(
            ApiKey.OFFSET_FETCH, build, stable_versions(ApiKey.OFFSET_FETCH)[0], _LAST_WITH_TOPIC_NAMES
        )

    def _topics_of(self, group_id: str) -> list[OffsetFetchRequestTopics] | None:
        asked = self._partitions[group_id]
        if asked is None:
            return None
        return [
            OffsetFetchRequestTopics(name=topic, partition_indexes=[p.partition for p in partitions])
            for topic, partitions in by_topic(asked)
        ]

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, GroupOffsets]) -> None:
        """See `AdminApiHandler`."""
        groups = {group.group_id: group for group in response.groups} if self._is_of_groups else {keys[0]: response}
        for key in keys:
            group = groups.get(key)
            if group is None or not outcome.is_success(key, group.error_code):
                continue
            offsets: GroupOffsets = {}
            for topic in group.topics:
                for partition in topic.partitions:
                    label = f"{key}, {topic.name}-{partition.partition_index}"
                    if not outcome.is_success(key, partition.error_code, label if partition.error_code else None):
                        break
                    if partition.committed_offset >= 0:
                        offsets[TopicPartition(topic.name, partition.partition_index)] = OffsetAndMetadata(
                            partition.committed_offset, partition.metadata or "", partition.committed_leader_epoch
                        )
            if key not in outcome.failed and key not in outcome.problems:
                outcome.complete(key, offsets)


class OffsetCommitHandler:
    """OffsetCommit for a group without members, at its coordinator; gives each partition's error."""

    name = "alter_consumer_group_offsets"

    def __init__(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self.lookup = CoordinatorLookup()
        self._offsets = offsets

    def build_request(self, keys: list[str], timeout_ms: int) -> RequestBuilder:
        """See `AdminApiHandler`."""
        message = OffsetCommitRequest(
            group_id=keys[0],
            topics=[
                OffsetCommitRequestTopic(name=topic, partitions=[self._partition(key) for key in partitions])
                for topic, partitions in by_topic(self._offsets)
            ],
        )
        low = stable_versions(ApiKey.OFFSET_COMMIT)[0]
        return RequestBuilder(ApiKey.OFFSET_COMMIT, lambda _: message, low, _LAST_WITH_TOPIC_NAMES)

    def _partition(self, key: TopicPartition) -> OffsetCommitRequestPartition:
        offset = self._offsets[key]
        return OffsetCommitRequestPartition(
            partition_index=key.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, PartitionErrors]) -> None:
        """See `AdminApiHandler`."""
        _take_partitions(keys[0], response, outcome)


class OffsetDeleteHandler:
    """OffsetDelete, at the group's coordinator; gives each partition's error."""

    name = "delete_consumer_group_offsets"

    def __init__(self, partitions: Collection[TopicPartition]) -> None:
        self.lookup = CoordinatorLookup()
        self._partitions = partitions

    def build_request(self, keys: list[str], timeout_ms: int) -> OffsetDeleteRequest:
        """See `AdminApiHandler`."""
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[OffsetDeleteRequestPartition(partition_index=p.partition) for p in partitions],
            )
            for topic, partitions in by_topic(self._partitions)
        ]
        return OffsetDeleteRequest(group_id=keys[0], topics=topics)

    def handle_response(self, keys: list[str], response: Any, outcome: Outcome[str, PartitionErrors]) -> None:
        """See `AdminApiHandler`."""
        if outcome.is_success(keys[0], response.error_code):
            _take_partitions(keys[0], response, outcome)


def _take_partitions(group_id: str, response: Any, outcome: Outcome[str, PartitionErrors]) -> None:
    """Errors that pass are retried for the whole group; the others are the partitions' own."""
    errors: PartitionErrors = {}
    for topic in response.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            code = partition.error_code
            if code and is_passing(code):
                outcome.retry(group_id, for_code(code))
                return
            errors[key] = for_code(code, f"{key}: {for_code(code)}") if code else None
    outcome.complete(group_id, errors)
