"""All kinds of groups as the console shows groups, and where each begins to read.

In a streams group (KIP-1071) a task stands for the partitions that it reads, in a share group (KIP-932) several members
have the same partition, and what is committed is where reading begins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.admin import GroupDescription, GroupType, MemberDescription
from barnabas.errors import GroupIdNotFoundError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.admin import ShareGroupDescription, StreamsGroupDescription
    from barnabas.aio import AdminClient


async def described_group(admin: AdminClient, name: str) -> GroupDescription:
    """Return a group of consumers, or a streams or share group as one. Raises `GroupIdNotFoundError`, ..."""
    try:
        return (await admin.describe_groups([name]))[name]
    except GroupIdNotFoundError:
        listed = (await admin.list_groups(raise_errors=False)).get(name)
        if listed is None or listed.type not in (GroupType.STREAMS, GroupType.SHARE):
            raise
    if listed.type == GroupType.SHARE:
        return _as_group_of_consumers((await admin.describe_share_groups([name]))[name])
    return as_group((await admin.describe_streams_groups([name]))[name])


class Positions(NamedTuple):
    """Where a group goes on to read, by partition; `lags` are those that the broker tells, of share groups only."""

    committed: dict[TopicPartition, int]
    lags: dict[TopicPartition, int]


async def positions_of(admin: AdminClient, description: GroupDescription) -> Positions:
    """Return where a group goes on to read."""
    name = description.group_id
    if description.type != GroupType.SHARE:
        found = await admin.list_consumer_group_offsets(name)
        return Positions({partition: each.offset for partition, each in found.items()}, {})
    shared = (await admin.list_share_group_offsets({name: None}))[name]
    committed = {partition: each.start_offset for partition, each in shared.items()}
    return Positions(committed, {partition: each.lag for partition, each in shared.items() if each.lag >= 0})


async def set_positions(
    admin: AdminClient, description: GroupDescription, offsets: Mapping[TopicPartition, int]
) -> None:
    """Have a group without members go on elsewhere. Raises `GroupNotEmptyError`, ..."""
    if description.type == GroupType.SHARE:
        await admin.alter_share_group_offsets(description.group_id, offsets)
    else:
        await admin.alter_consumer_group_offsets(description.group_id, offsets)


async def forget_positions(
    admin: AdminClient, description: GroupDescription, partitions: Collection[TopicPartition]
) -> None:
    """Forget where a group goes on; of a share group whole topics. Raises `GroupSubscribedToTopicError`, ..."""
    if description.type == GroupType.SHARE:
        topics = sorted({partition.topic for partition in partitions})
        await admin.delete_share_group_offsets(description.group_id, topics)
    else:
        await admin.delete_consumer_group_offsets(description.group_id, partitions)


def _as_group_of_consumers(group: ShareGroupDescription) -> GroupDescription:
    members = [
        MemberDescription(
            member.member_id,
            None,
            member.client_id,
            member.host,
            [*member.assignment],
            member_epoch=member.member_epoch,
        )
        for member in group.members
    ]
    return GroupDescription(
        group.group_id, "share", group.assignor, group.state, members, GroupType.SHARE, group.coordinator
    )


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
