"""How a member gets from what it has to its target assignment (KIP-848): it gives up first, then it gets.

A member stays in its epoch, UNREVOKED_PARTITIONS, until a heartbeat shows that it has given up what it is to. Then it
goes to the target's epoch with all that is free. What others still hold it gets when they let go; until then it is
UNRELEASED_PARTITIONS.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas import errors
from barnabas.broker.groups.consumer_group import ConsumerGroup
from barnabas.broker.groups.consumer_group_member import (
    STABLE,
    UNKNOWN_STATE,
    UNRELEASED_PARTITIONS,
    UNREVOKED_PARTITIONS,
    AssignedPartitions,
    ConsumerGroupMember,
    Partitions,
)

#: What a member says it has; None: the same as before.
Owned = Partitions | None


class Target(NamedTuple):
    """What a member is to have, in which epoch; `subscribed` are the ids of the topics that it may read."""

    epoch: int
    partitions: Partitions
    subscribed: frozenset[bytes]


def reconcile(
    group: ConsumerGroup, member: ConsumerGroupMember, target: Target, owned: Owned, subscription_changed: bool
) -> ConsumerGroupMember:
    """Return the member one step further; the same member if there is nothing to do.

    Raises FencedMemberEpochError for a member in a state that a
    newer coordinator wrote.
    """
    if member.state == UNKNOWN_STATE:
        if owned is None or owned:
            raise errors.FencedMemberEpochError(
                f"Member {member.member_id} is in an unknown state. It must give up all partitions and join again."
            )
        return _next(group, member._replace(member_epoch=target.epoch), target, owned)
    waits = member.state == UNREVOKED_PARTITIONS and _owns_any(owned, member.pending_revocation)
    if waits or member.is_reconciled_to(target.epoch):
        return _drop_unsubscribed(member, target.subscribed, owned) if subscription_changed else member
    return _next(group, member, target, owned)


def _owns_any(owned: Owned, partitions: AssignedPartitions) -> bool:
    if owned is None:
        return True
    return any(not owned[topic_id].isdisjoint(indexes) for topic_id, indexes in partitions.items() if topic_id in owned)


def _drop_unsubscribed(member: ConsumerGroupMember, subscribed: frozenset[bytes], owned: Owned) -> ConsumerGroupMember:
    # Topics that the member does not read any more are revoked at once; the target is not asked.
    dropped = {topic_id: indexes for topic_id, indexes in member.assigned.items() if topic_id not in subscribed}
    if not dropped:
        return member
    kept = {topic_id: indexes for topic_id, indexes in member.assigned.items() if topic_id in subscribed}
    pending = dict(member.pending_revocation)
    for topic_id, indexes in dropped.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **indexes}
    moved = member.in_epoch(member.member_epoch)._replace(assigned=kept)
    if not _owns_any(owned, pending):
        return moved
    return moved._replace(state=UNREVOKED_PARTITIONS, pending_revocation=pending)


def _next(group: ConsumerGroup, member: ConsumerGroupMember, target: Target, owned: Owned) -> ConsumerGroupMember:
    target_epoch, partitions, subscribed = target
    kept: AssignedPartitions = {}
    to_revoke: AssignedPartitions = {}
    for topic_id, indexes in member.assigned.items():
        wanted = partitions.get(topic_id, frozenset()) if topic_id in subscribed else frozenset()
        _put(kept, topic_id, {index: epoch for index, epoch in indexes.items() if index in wanted})
        _put(to_revoke, topic_id, {index: epoch for index, epoch in indexes.items() if index not in wanted})
    if to_revoke and _owns_any(owned, to_revoke):
        return member.in_epoch(member.member_epoch)._replace(
            state=UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=to_revoke
        )
    unreleased = False
    for topic_id, wanted in partitions.items():
        if topic_id not in subscribed:
            continue
        missing = [index for index in sorted(wanted) if index not in kept.get(topic_id, {})]
        free = [index for index in missing if group.is_free(topic_id, index, member.member_id)]
        unreleased |= len(free) < len(missing)
        _put(kept, topic_id, {**kept.get(topic_id, {}), **dict.fromkeys(free, target_epoch)})
    return member.in_epoch(target_epoch)._replace(
        state=UNRELEASED_PARTITIONS if unreleased else STABLE, assigned=kept, pending_revocation={}
    )


def _put(partitions: AssignedPartitions, topic_id: bytes, indexes: dict[int, int]) -> None:
    if indexes:
        partitions[topic_id] = indexes
