"""The assignor of share groups: each partition for about as many members, each member about as many (KIP-932).

With more members than partitions a partition is shared; with fewer, each has one member. What a member has stays with
it as far as that goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.broker.groups.share_group import Partitions

#: As ShareGroupDescribe names it.
NAME = "simple"

#: A topic's id and the number of a partition.
TopicIdPartition = tuple[bytes, int]


class ShareMemberSpec(NamedTuple):
    """One member: the topics it subscribes to, and what the last target assignment gave it."""

    topic_ids: frozenset[bytes]
    target: Partitions


def assign(members: Mapping[str, ShareMemberSpec], partitions: Partitions) -> dict[str, Partitions]:
    """Return what each member shall have of the partitions that can be assigned."""
    found: dict[str, dict[bytes, set[int]]] = {member_id: {} for member_id in members}
    if len({member.topic_ids for member in members.values()}) == 1:
        # All subscribe to the same, so all topics are shared out together.
        topic_ids = next(iter(members.values())).topic_ids
        parts = [list(_partitions(partitions, sorted(topic_ids)))]
    else:
        parts = [list(_partitions(partitions, [topic_id])) for topic_id in sorted(partitions)]
    for part in parts:
        if not part:
            continue
        topic_ids = frozenset(topic_id for topic_id, _ in part)
        subscribers = {member_id: one.target for member_id, one in members.items() if topic_ids & one.topic_ids}
        for member_id, assigned in _share_out(part, subscribers).items():
            for topic_id, partition in assigned:
                found[member_id].setdefault(topic_id, set()).add(partition)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}
        for member_id, topics in found.items()
    }


def _partitions(partitions: Partitions, topic_ids: Sequence[bytes]) -> list[TopicIdPartition]:
    return [(topic_id, number) for topic_id in topic_ids for number in sorted(partitions.get(topic_id, ()))]


def _share_out(
    partitions: Sequence[TopicIdPartition], targets: Mapping[str, Partitions]
) -> dict[str, list[TopicIdPartition]]:
    if not targets:
        return {}
    sharing = -(-len(targets) // len(partitions))
    room = _rooms(list(targets), sharing * len(partitions))
    members_of: dict[TopicIdPartition, set[str]] = {partition: set() for partition in partitions}
    assigned: dict[str, list[TopicIdPartition]] = {member_id: [] for member_id in targets}

    def give(partition: TopicIdPartition, member_id: str) -> None:
        members_of[partition].add(member_id)
        assigned[member_id].append(partition)

    for member_id, target in targets.items():
        for topic_id in sorted(target):
            for number in sorted(target[topic_id]):
                members = members_of.get((topic_id, number))
                if members is not None and len(members) < sharing and len(assigned[member_id]) < room[member_id]:
                    give((topic_id, number), member_id)
    unfilled = [member_id for member_id in targets if len(assigned[member_id]) < room[member_id]]
    # The partitions that fewest members have come first.
    for partition in sorted(partitions, key=lambda one: len(members_of[one])):
        while len(members_of[partition]) < sharing:
            taker = next((one for one in unfilled if one not in members_of[partition]), None)
            if taker is None:
                break
            give(partition, taker)
            unfilled.remove(taker)
            if len(assigned[taker]) < room[taker]:
                unfilled.append(taker)
    return assigned


def _rooms(member_ids: Sequence[str], places: int) -> dict[str, int]:
    """Share places out evenly."""
    count = len(member_ids)
    ends = [-(-places * number // count) for number in range(count + 1)]
    return {member_id: ends[number + 1] - ends[number] for number, member_id in enumerate(member_ids)}
