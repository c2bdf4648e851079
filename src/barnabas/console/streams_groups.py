"""Streams groups (KIP-1071) as the console shows groups: a task stands for the partitions that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.admin import GroupDescription, GroupType, MemberDescription
from barnabas.errors import GroupIdNotFoundError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import StreamsGroupDescription
    from barnabas.aio import AdminClient


async def described_group(admin: AdminClient, name: str) -> GroupDescription:
    """Return a group of consumers, or a streams group as one. Raises `GroupIdNotFoundError`, ..."""
    try:
        return (await admin.describe_groups([name]))[name]
    except GroupIdNotFoundError:
        listed = (await admin.list_groups(raise_errors=False)).get(name)
        if listed is None or listed.type != GroupType.STREAMS:
            raise
    return as_group((await admin.describe_streams_groups([name]))[name])


def as_group(group: StreamsGroupDescription) -> GroupDescription:
    """Return it in the terms of groups of consumers."""
    inputs = {
        part.subtopology_id: [*part.source_topics, *(topic.name for topic in part.repartition_source_topics)]
        for part in group.subtopologies
    }
    members = [
        MemberDescription(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.host,
            [
                TopicPartition(topic, task.partition)
                for task in member.assignment.active
                for topic in inputs.get(task.subtopology_id, ())
            ],
            member_epoch=member.member_epoch,
        )
        for member in group.members
    ]
    protocol = f"topology {group.topology_epoch}"
    return GroupDescription(
        group.group_id, "streams", protocol, group.state, members, GroupType.STREAMS, group.coordinator
    )
