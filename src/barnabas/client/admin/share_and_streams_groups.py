"""The groups that are not of consumers: share groups (KIP-932) and groups of Kafka Streams (KIP-1071)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.admin.acls import authorized_operations
from barnabas.client.admin.admin_api_handler import Outcome
from barnabas.client.admin.groups import GroupState
from barnabas.client.admin.lookups import CoordinatorStrategy
from barnabas.client.admin.partition_offsets import by_topic
from barnabas.client.admin.requests import RequestInParts
from barnabas.errors import for_code
from barnabas.network.node import Node
from barnabas.protocol.kinds import AclOperation
from barnabas.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from barnabas.protocol.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
    from barnabas.protocol.messages.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse
    from barnabas.protocol.messages.describe_share_group_offsets_response import DescribeShareGroupOffsetsResponse
    from barnabas.protocol.messages.share_group_describe_response import Member as ShareMember
    from barnabas.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
    from barnabas.protocol.messages.streams_group_describe_response import (
        Assignment,
        StreamsGroupDescribeResponse,
        Subtopology,
        TaskIds,
        TaskOffset,
        TopicInfo,
    )
    from barnabas.protocol.messages.streams_group_describe_response import Member as StreamsMember


class ShareMemberDescription(NamedTuple):
    """A member of a share group, and the partitions it reads; others may read them too."""

    member_id: str
    rack_id: str | None
    client_id: str
    host: str
    member_epoch: int
    subscribed_topics: list[str]
    assignment: list[TopicPartition]


class ShareGroupDescription(NamedTuple):
    """A share group."""

    group_id: str
    state: GroupState
    coordinator: Node
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: list[ShareMemberDescription]
    authorized_operations: frozenset[AclOperation] | None


class DescribeShareGroupsHandler:
    """ShareGroupDescribe, at the coordinators."""

    name = "describe_share_groups"

    def __init__(self, *, include_authorized_operations: bool) -> None:
        self.lookup = CoordinatorStrategy()
        self._include_authorized_operations = include_authorized_operations

    def build_request(self, keys: list[str], timeout_ms: int) -> ShareGroupDescribeRequest:
        """See `AdminApiHandler`."""
        return ShareGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=self._include_authorized_operations
        )

    def handle_response(
        self, keys: list[str], response: ShareGroupDescribeResponse, outcome: Outcome[str, ShareGroupDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if outcome.is_success(group.group_id, group.error_code, group.error_message):
                description = ShareGroupDescription(
                    group.group_id,
                    GroupState(group.group_state),
                    outcome.broker,
                    group.group_epoch,
                    group.assignment_epoch,
                    group.assignor_name,
                    [_share_member(member) for member in group.members],
                    authorized_operations(group.authorized_operations),
                )
                outcome.complete(group.group_id, description)


def _share_member(member: ShareMember) -> ShareMemberDescription:
    return ShareMemberDescription(
        member.member_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        member.subscribed_topic_names,
        [TopicPartition(t.topic_name, number) for t in member.assignment.topic_partitions for number in t.partitions],
    )


class SharePartitionOffset(NamedTuple):
    """Where a share group starts to read a partition, and how many records are not yet read (-1: not known)."""

    start_offset: int
    leader_epoch: int
    lag: int


ShareOffsets = dict[TopicPartition, SharePartitionOffset]


class DescribeShareOffsetsHandler:
    """DescribeShareGroupOffsets, at the coordinators; `partitions` by group, None for all that have an offset."""

    name = "list_share_group_offsets"

    def __init__(self, partitions: Mapping[str, Collection[TopicPartition] | None]) -> None:
        self.lookup = CoordinatorStrategy()
        self._partitions = partitions

    def build_request(self, keys: list[str], timeout_ms: int) -> DescribeShareGroupOffsetsRequest:
        """See `AdminApiHandler`."""
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=key, topics=self._topics_of(key)) for key in keys]
        return DescribeShareGroupOffsetsRequest(groups=groups)

    def _topics_of(self, group_id: str) -> list[DescribeShareGroupOffsetsRequestTopic] | None:
        asked = self._partitions[group_id]
        if asked is None:
            return None
        return [
            DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[p.partition for p in partitions])
            for topic, partitions in by_topic(asked)
        ]

    def handle_response(
        self, keys: list[str], response: DescribeShareGroupOffsetsResponse, outcome: Outcome[str, ShareOffsets]
    ) -> None:
        """See `AdminApiHandler`; a partition that fails makes its group fail."""
        for group in response.groups:
            if not outcome.is_success(group.group_id, group.error_code, group.error_message):
                continue
            partitions = [
                (TopicPartition(t.topic_name, p.partition_index), p) for t in group.topics for p in t.partitions
            ]
            failed = next(((key, p) for key, p in partitions if p.error_code), None)
            if failed is not None:
                key, bad = failed
                text = f"{key}: {bad.error_message or for_code(bad.error_code)}"
                outcome.is_success(group.group_id, bad.error_code, f"{group.group_id}, {text}")
                continue
            offsets = {
                key: SharePartitionOffset(p.start_offset, p.leader_epoch, p.lag)
                for key, p in partitions
                if p.start_offset >= 0
            }
            outcome.complete(group.group_id, offsets)


def alter_share_offsets(offsets: Mapping[TopicPartition, int]) -> RequestInParts[TopicPartition]:
    """AlterShareGroupOffsets, at the coordinator."""

    def build(group_id: str, timeout_ms: int) -> AlterShareGroupOffsetsRequest:
        topics = [
            AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(partition_index=key.partition, start_offset=offsets[key])
                    for key in partitions
                ],
            )
            for topic, partitions in by_topic(offsets)
        ]
        return AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)

    def parts(response: AlterShareGroupOffsetsResponse) -> Iterable[tuple[TopicPartition, int, str | None]]:
        for topic in response.responses:
            for partition in topic.partitions:
                key = TopicPartition(topic.topic_name, partition.partition_index)
                yield key, partition.error_code, partition.error_message

    return RequestInParts("alter_share_group_offsets", CoordinatorStrategy(), build, parts)


def delete_share_offsets(topics: Collection[str]) -> RequestInParts[str]:
    """DeleteShareGroupOffsets, at the coordinator."""

    def build(group_id: str, timeout_ms: int) -> DeleteShareGroupOffsetsRequest:
        wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics]
        return DeleteShareGroupOffsetsRequest(group_id=group_id, topics=wanted)

    def parts(response: DeleteShareGroupOffsetsResponse) -> Iterable[tuple[str, int, str | None]]:
        for topic in response.responses:
            yield topic.topic_name, topic.error_code, topic.error_message

    return RequestInParts("delete_share_group_offsets", CoordinatorStrategy(), build, parts)


class StreamsTask(NamedTuple):
    """A task of Kafka Streams: a partition of a part of the topology."""

    subtopology_id: str
    partition: int


class StreamsAssignment(NamedTuple):
    """The tasks of a member: those it works on, copies it keeps up to date, copies it is catching up with."""

    active: list[StreamsTask]
    standby: list[StreamsTask]
    warmup: list[StreamsTask]


class StreamsMemberDescription(NamedTuple):
    """A member of a group of Kafka Streams. `user_endpoint` is host and port; offsets are by task, where told."""

    member_id: str
    member_epoch: int
    group_instance_id: str | None
    rack_id: str | None
    client_id: str
    host: str
    topology_epoch: int
    process_id: str
    user_endpoint: tuple[str, int] | None
    client_tags: dict[str, str]
    task_offsets: dict[StreamsTask, int]
    task_end_offsets: dict[StreamsTask, int]
    assignment: StreamsAssignment
    target_assignment: StreamsAssignment
    is_classic: bool


class StreamsTopic(NamedTuple):
    """An internal topic of a topology; 0 partitions or replicas: as many as needed, the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: dict[str, str]


class StreamsSubtopology(NamedTuple):
    """A part of a topology: what it reads, what it writes, where it keeps its state."""

    subtopology_id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    state_changelog_topics: list[StreamsTopic]
    repartition_source_topics: list[StreamsTopic]


class StreamsGroupDescription(NamedTuple):
    """A group of Kafka Streams and its topology (`topology_epoch` -1 and no subtopologies when it has none)."""

    group_id: str
    state: GroupState
    coordinator: Node
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: list[StreamsSubtopology]
    members: list[StreamsMemberDescription]
    authorized_operations: frozenset[AclOperation] | None


class DescribeStreamsGroupsHandler:
    """StreamsGroupDescribe, at the coordinators."""

    name = "describe_streams_groups"

    def __init__(self, *, include_authorized_operations: bool) -> None:
        self.lookup = CoordinatorStrategy()
        self._include_authorized_operations = include_authorized_operations

    def build_request(self, keys: list[str], timeout_ms: int) -> StreamsGroupDescribeRequest:
        """See `AdminApiHandler`."""
        return StreamsGroupDescribeRequest(
            group_ids=keys, include_authorized_operations=self._include_authorized_operations
        )

    def handle_response(
        self, keys: list[str], response: StreamsGroupDescribeResponse, outcome: Outcome[str, StreamsGroupDescription]
    ) -> None:
        """See `AdminApiHandler`."""
        for group in response.groups:
            if outcome.is_success(group.group_id, group.error_code, group.error_message):
                topology = group.topology
                description = StreamsGroupDescription(
                    group.group_id,
                    GroupState(group.group_state),
                    outcome.broker,
                    group.group_epoch,
                    group.assignment_epoch,
                    -1 if topology is None else topology.epoch,
                    [] if topology is None else [_subtopology(part) for part in topology.subtopologies or ()],
                    [_streams_member(member) for member in group.members],
                    authorized_operations(group.authorized_operations),
                )
                outcome.complete(group.group_id, description)


def _subtopology(part: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        part.source_topics,
        part.repartition_sink_topics,
        [_streams_topic(topic) for topic in part.state_changelog_topics],
        [_streams_topic(topic) for topic in part.repartition_source_topics],
    )


def _streams_topic(topic: TopicInfo) -> StreamsTopic:
    configs = {config.key: config.value for config in topic.topic_configs}
    return StreamsTopic(topic.name, topic.partitions, topic.replication_factor, configs)


def _streams_member(member: StreamsMember) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.member_epoch,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        _task_offsets(member.task_offsets),
        _task_offsets(member.task_end_offsets),
        _assignment(member.assignment),
        _assignment(member.target_assignment),
        member.is_classic,
    )


def _task_offsets(offsets: Iterable[TaskOffset]) -> dict[StreamsTask, int]:
    return {StreamsTask(task.subtopology_id, task.partition): task.offset for task in offsets}


def _assignment(assignment: Assignment) -> StreamsAssignment:
    return StreamsAssignment(
        _tasks(assignment.active_tasks), _tasks(assignment.standby_tasks), _tasks(assignment.warmup_tasks)
    )


def _tasks(tasks: Iterable[TaskIds]) -> list[StreamsTask]:
    return [StreamsTask(task.subtopology_id, number) for task in tasks for number in task.partitions]
