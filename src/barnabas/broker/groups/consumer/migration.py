"""A group that goes from the classic protocol to the consumer protocol, or back, while its members live (KIP-848).

Upgrade: the first member of the consumer protocol that joins makes a consumer group of a classic one; the others stay
in it as members of the classic protocol. Downgrade: when the last member of the consumer protocol goes, the others are
a classic group again. Members keep what they have, both ways.
"""

from __future__ import annotations

from barnabas import errors
from barnabas.broker.coordinator.partition_storage import Record
from barnabas.broker.groups.classic_group import ClassicGroup
from barnabas.broker.groups.classic_group_member import ClassicGroupMember
from barnabas.broker.groups.consumer.draft import GroupDraft
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_group_member import ClassicMemberMetadata, ConsumerGroupMember, partitions_of
from barnabas.broker.groups.consumer_group_records import group_tombstones
from barnabas.broker.groups.coordinator_records import group_metadata_record, group_metadata_tombstone
from barnabas.broker.groups.embedded_protocol import (
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from barnabas.broker.groups.group_coordinator_config import GroupSettings
from barnabas.broker.groups.topic_image import TopicImage, metadata_hash


def check_upgrade(group: ClassicGroup, settings: GroupSettings) -> None:
    """Raise GroupIdNotFoundError, which is what a member of the consumer protocol understands, with the reason."""
    reason = None
    if not settings.upgrade_enabled:
        reason = "group.consumer.migration.policy does not allow to upgrade it"
    elif not group.uses_consumer_protocol:
        reason = "its members are no consumers"
    elif len(group.members) > settings.consumer_max_size:
        reason = "it has more members than group.consumer.max.size"
    if reason is not None:
        raise errors.GroupIdNotFoundError(f"Group {group.group_id} is not a consumer group: {reason}.")


def upgraded(classic: ClassicGroup, image: TopicImage) -> GroupDraft:
    """Return the consumer group with the same members, assignments and epoch. Raises GroupIdNotFoundError."""
    draft = GroupDraft(ConsumerGroup(classic.group_id), [group_metadata_tombstone(classic.group_id)])
    try:
        members = [_upgraded_member(classic, member, image) for member in classic.members.values()]
    except errors.ProtocolError as error:
        raise errors.GroupIdNotFoundError(
            f"Group {classic.group_id} cannot become a consumer group: what its members sent is malformed: {error}"
        ) from None
    for member in members:
        draft.put_member(member)
    draft.put_epoch(classic.generation_id, metadata_hash(draft.group.subscribed_topics, image))
    for member in members:
        draft.put_target(member.member_id, partitions_of(member.assigned))
    # As if it were old: the member that comes now may be assigned to at once.
    draft.put_target_epoch(classic.generation_id, 0)
    for member in members:
        draft.put_current(member)
    return draft


def _upgraded_member(group: ClassicGroup, member: ClassicGroupMember, image: TopicImage) -> ConsumerGroupMember:
    protocols = tuple(member.protocols.items())
    chosen = group.protocol_name if group.protocol_name in member.protocols else protocols[0][0]
    subscription = read_subscription(member.protocols[chosen])
    epoch = group.generation_id
    assigned = read_assignment(member.assignment, image)
    return ConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(member.session_timeout_ms, protocols),
        member_epoch=epoch,
        previous_member_epoch=epoch,
        assigned={topic_id: dict.fromkeys(sorted(indexes), epoch) for topic_id, indexes in assigned.items()},
    )


def can_downgrade(group: ConsumerGroup, gone: set[str], settings: GroupSettings) -> bool:
    """Whether the group becomes a classic one once the members `gone` are."""
    remaining = len(group.members.keys() - gone)
    return (
        remaining > 0
        and settings.downgrade_enabled
        and remaining <= settings.max_size
        and group.all_classic_except(gone)
    )


def downgraded(
    group: ConsumerGroup, gone: set[str], image: TopicImage, now_ms: int
) -> tuple[ClassicGroup, list[Record]]:
    """Return the stable classic group of the remaining members, and what has to be in the log first."""
    classic = ClassicGroup(group.group_id, now_ms, loaded_stable=True)
    classic.generation_id = group.epoch
    for member in group.members.values():
        if member.member_id not in gone and member.classic is not None:
            classic.add(_downgraded_member(member, member.classic, image))
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    return classic, [*group_tombstones(group), group_metadata_record(classic, classic.assignments)]


def _downgraded_member(
    member: ConsumerGroupMember, metadata: ClassicMemberMetadata, image: TopicImage
) -> ClassicGroupMember:
    return ClassicGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout_ms,
        protocol_type="consumer",
        protocols=dict(metadata.protocols),
        assignment=embedded_assignment(member, metadata, image),
    )


def embedded_assignment(member: ConsumerGroupMember, metadata: ClassicMemberMetadata, image: TopicImage) -> bytes:
    """Return what a member of the classic protocol is assigned, as a leader would have written it."""
    return write_assignment(partitions_of(member.assigned), image, version_of(metadata.protocols[0][1]))
