"""StreamsGroupDescribe: a streams group as administrators see it (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.groups.streams.topic_configuration import configure
from barnabas.broker.groups.streams_group_member import NO_TASKS, Tasks, TasksTuple
from barnabas.protocol.messages.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)

if TYPE_CHECKING:
    from barnabas.broker.groups.streams.topology import InternalTopic, StreamsTopology
    from barnabas.broker.groups.streams_group import StreamsGroup
    from barnabas.broker.groups.streams_group_member import StreamsGroupMember
    from barnabas.broker.groups.topic_image import TopicImage


def describe(group: StreamsGroup, image: TopicImage) -> DescribedGroup:
    """Return the group; its internal topics have their partitions once all topics are there."""
    configured = None if group.topology is None else configure(group.topology, image)
    partitions = configured.partitions if configured is not None and configured.is_ready else {}
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=None if group.topology is None else _topology(group.topology, partitions),
        members=[_member(member, group.targets.get(member.member_id)) for member in group.members.values()],
    )


def _topology(topology: StreamsTopology, partitions: Mapping[str, int]) -> Topology:
    return Topology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=part.subtopology_id,
                source_topics=sorted(part.source_topics),
                repartition_sink_topics=sorted(part.repartition_sinks),
                state_changelog_topics=_topics(part.changelogs, partitions),
                repartition_source_topics=_topics(part.repartition_sources, partitions),
            )
            for part in topology.subtopologies.values()
        ],
    )


def _topics(topics: Iterable[InternalTopic], partitions: Mapping[str, int]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions or partitions.get(topic.name, 0),
            replication_factor=topic.replication_factor,
            topic_configs=[KeyValue(name, text) for name, text in topic.configs],
        )
        for topic in sorted(topics)
    ]


def _member(member: StreamsGroupMember, target: TasksTuple | None) -> Member:
    endpoint = member.user_endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(*endpoint),
        client_tags=[KeyValue(name, text) for name, text in member.client_tags.items()],
        assignment=_assignment(member.assigned.without_epochs()),
        target_assignment=_assignment(target or NO_TASKS),
    )


def _assignment(tasks: TasksTuple) -> Assignment:
    return Assignment(*map(_task_ids, tasks))


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]
