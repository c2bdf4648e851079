"""The server-side range assignor: of each topic, every subscriber gets a run of neighbouring partitions.

Members that subscribe to several topics get the same partition numbers of each (where the topics are as large), which
is what joining them needs. Static members come first, by their instance ids, the others by their member ids.
"""

from __future__ import annotations

from barnabas.broker.groups.consumer.assignor import Members, PartitionCounts
from barnabas.broker.groups.consumer_group_member import Partitions


def assign_ranges(members: Members, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    """See `barnabas.broker.groups.consumer.assignor.Assignor`."""
    order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topic_ids:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignments: dict[str, Partitions] = {member_id: {} for member_id in order}
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for index, member_id in enumerate(member_ids):
            end = start + quota + (index < extra)
            if end > start:
                assignments[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return assignments


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, str]:
    return instance_id is None, member_id if instance_id is None else instance_id
