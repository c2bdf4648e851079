"""Computes what each member of a consumer group shall have (KIP-848)."""

from __future__ import annotations

from barnabas.broker.groups.consumer.assignor import MemberSpec
from barnabas.broker.groups.consumer.assignors import ASSIGNORS
from barnabas.broker.groups.consumer.draft import GroupDraft
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.topic_image import TopicImage
from barnabas.broker.instant import Instant


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings) -> str:
    """Return the assignor that most members ask for; the setting's order decides between equals."""
    names = settings.consumer_assignors
    asked = [member.server_assignor for member in group.members.values() if member.server_assignor in names]
    return max(names, key=asked.count)


def can_compute(group: ConsumerGroup, settings: GroupSettings, at: Instant) -> bool:
    """Whether the last target assignment is old enough for another (group.consumer.assignment.interval.ms)."""
    return group.is_target_due(settings.consumer_assignment_interval_ms(group.group_id), at)


def update_target(draft: GroupDraft, settings: GroupSettings, image: TopicImage, at: Instant) -> None:
    """Bring the target assignment to the group's epoch; only what changes of it is written."""
    group = draft.group
    counts: dict[bytes, int] = {}
    for name in group.subscribed_topics:
        topic = image.topic(name)
        if topic is not None:
            counts[topic.id] = topic.partitions
    # Members with the same subscription share one set: telling that they are equal is then quick.
    subscriptions: dict[frozenset[str], frozenset[bytes]] = {}
    members = {}
    for member in group.members.values():
        names = group.topics_of(member)
        ids = subscriptions.get(names)
        if ids is None:
            ids = subscriptions[names] = group.topic_ids_of(member, image)
        members[member.member_id] = MemberSpec(member.instance_id, ids, group.targets.get(member.member_id, {}))
    assigned = ASSIGNORS[preferred_assignor(group, settings)](members, counts)
    for member_id, target in assigned.items():
        if group.targets.get(member_id) != target:
            draft.put_target(member_id, target)
    draft.put_target_epoch(group.epoch, at.now_ms)
