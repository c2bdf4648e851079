"""ShareGroupDescribe: a share group as administrators see it (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.groups.share import simple_assignor
from barnabas.protocol.messages.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

if TYPE_CHECKING:
    from barnabas.broker.groups.share_group import Partitions, ShareGroup, ShareGroupMember
    from barnabas.broker.groups.topic_image import TopicImage


def describe(group: ShareGroup, image: TopicImage) -> DescribedGroup:
    """Return the group; topics that are gone are left out."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=simple_assignor.NAME,
        members=[_described(member, image) for member in group.members.values()],
    )


def _described(member: ShareGroupMember, image: TopicImage) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=_assignment(member.assigned, image),
    )


def _assignment(partitions: Partitions, image: TopicImage) -> Assignment:
    topics = []
    for topic_id in sorted(partitions):
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            numbers = sorted(partitions[topic_id])
            topics.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=numbers))
    return Assignment(topic_partitions=topics)
