"""ConsumerGroupDescribe: a consumer group as administrators see it (KIP-848)."""

from __future__ import annotations

from barnabas.broker.groups.consumer.target_assignment import preferred_assignor
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_group_member import ConsumerGroupMember, Partitions, partitions_of
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.protocol.messages.consumer_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe(group: ConsumerGroup, settings: GroupSettings, image: TopicImage) -> DescribedGroup:
    """Return the group; topics that are gone are left out."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, settings),
        members=[_described(group, member, image) for member in group.members.values()],
    )


def _described(group: ConsumerGroup, member: ConsumerGroupMember, image: TopicImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(_held(member), image),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _held(member: ConsumerGroupMember) -> Partitions:
    # What it has to give up is still its own.
    held = partitions_of(member.assigned)
    for topic_id, indexes in member.pending_revocation.items():
        held[topic_id] = held.get(topic_id, frozenset()) | indexes.keys()
    return held


def _assignment(partitions: Partitions, image: TopicImage) -> Assignment:
    topics = []
    for topic_id in sorted(partitions):
        topic = image.topic_by_id(topic_id)
        if topic is not None:
            indexes = sorted(partitions[topic_id])
            topics.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=indexes))
    return Assignment(topic_partitions=topics)
