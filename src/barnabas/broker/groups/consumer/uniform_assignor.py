"""The server-side uniform assignor: every member gets the same number of partitions, and keeps what it has.

Where all members subscribe to the same topics, numbers of partitions differ by at most one, and no more partitions move
than that needs. Where subscriptions differ, no single move from one subscriber of a topic to another could make the
assignment more even.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import islice

from barnabas.broker.groups.consumer.assignor import Members, PartitionCounts
from barnabas.broker.groups.consumer_group_member import Partitions

_TopicPartition = tuple[bytes, int]


def assign_uniformly(members: Members, partition_counts: PartitionCounts) -> dict[str, Partitions]:
    """See `barnabas.broker.groups.consumer.assignor.Assignor`."""
    if not members:
        return {}
    subscriptions = {spec.topic_ids for spec in members.values()}
    if len(subscriptions) == 1:
        return _assign_equals(members, {topic_id: partition_counts[topic_id] for topic_id in subscriptions.pop()})
    kept = _Kept(members, partition_counts)
    _give_to_the_least_loaded(kept, members)
    _even_out(kept, members)
    return {member_id: _by_topic(partitions) for member_id, partitions in kept.owned.items()}


# --- all members subscribe to the same topics


def _assign_equals(members: Members, counts: PartitionCounts) -> dict[str, Partitions]:
    # A target that stays is the same object as before: in a large group few change, and only those cost.
    free = {topic_id: set(range(counts[topic_id])) for topic_id in sorted(counts)}
    targets = {member_id: _still_valid(spec.target, free) for member_id, spec in members.items()}
    loads = {member_id: sum(map(len, target.values())) for member_id, target in targets.items()}
    unassigned = [(topic_id, index) for topic_id, indexes in free.items() for index in sorted(indexes)]
    quota, extra = divmod(len(unassigned) + sum(loads.values()), len(members))
    # Those who have most may have the extra partitions: so the fewest move.
    by_load = sorted(loads, key=lambda member_id: -loads[member_id])
    allowed = {member_id: quota + (rank < extra) for rank, member_id in enumerate(by_load)}
    for member_id, load in loads.items():
        if load > allowed[member_id]:
            owned = _in_order(targets[member_id])
            unassigned += reversed(owned[allowed[member_id] :])
            targets[member_id] = _by_topic(owned[: allowed[member_id]])
    remaining = iter(unassigned)
    for member_id, load in loads.items():
        if load < allowed[member_id]:
            more = islice(remaining, allowed[member_id] - load)
            targets[member_id] = _by_topic([*_in_order(targets[member_id]), *more])
    return targets


def _still_valid(target: Partitions, free: dict[bytes, set[int]]) -> Partitions:
    # What of the last target can stay; it is taken out of `free`. A topic may be gone, or have fewer partitions than it
    # had under the same id.
    if not all(topic_id in free and indexes <= free[topic_id] for topic_id, indexes in target.items()):
        target = {topic_id: indexes & free[topic_id] for topic_id, indexes in target.items() if topic_id in free}
        target = {topic_id: indexes for topic_id, indexes in target.items() if indexes}
    for topic_id, indexes in target.items():
        free[topic_id] -= indexes
    return target


def _in_order(target: Partitions) -> list[_TopicPartition]:
    return [(topic_id, index) for topic_id in sorted(target) for index in sorted(target[topic_id])]


# --- subscriptions differ


class _Kept:
    # What members keep of the last target (in order, so that the result is the same each time), and what is unassigned.
    __slots__ = ("owned", "unassigned")

    def __init__(self, members: Members, partition_counts: PartitionCounts):
        self.owned: dict[str, dict[_TopicPartition, None]] = {}
        topic_ids = sorted({topic_id for spec in members.values() for topic_id in spec.topic_ids})
        free = {(topic_id, index): None for topic_id in topic_ids for index in range(partition_counts[topic_id])}
        for member_id, spec in members.items():
            owned: dict[_TopicPartition, None] = {}
            for topic_id in sorted(spec.target):
                if topic_id in spec.topic_ids:
                    owned.update(((topic_id, index), None) for index in sorted(spec.target[topic_id]))
            # A topic may have been made anew with fewer partitions, under the id it had.
            self.owned[member_id] = {partition: None for partition in owned if partition in free}
            for partition in self.owned[member_id]:
                del free[partition]
        self.unassigned = list(free)


def _give_to_the_least_loaded(kept: _Kept, members: Members) -> None:
    subscribers = _subscribers(members)
    partitions: dict[bytes, list[_TopicPartition]] = {}
    for partition in kept.unassigned:
        partitions.setdefault(partition[0], []).append(partition)
    # Topics that few can take come first; the others even out what they leave.
    for topic_id in sorted(partitions, key=lambda topic_id: (len(subscribers[topic_id]), topic_id)):
        heap = [(len(kept.owned[member_id]), rank, member_id) for rank, member_id in enumerate(subscribers[topic_id])]
        heapq.heapify(heap)
        for partition in partitions[topic_id]:
            load, rank, member_id = heap[0]
            kept.owned[member_id][partition] = None
            heapq.heapreplace(heap, (load + 1, rank, member_id))


def _even_out(kept: _Kept, members: Members) -> None:
    # Each move makes the sum of the squared loads smaller, so this ends.
    subscribers = {topic_id: ids for topic_id, ids in _subscribers(members).items() if len(ids) > 1}
    held: dict[bytes, dict[str, list[_TopicPartition]]] = {
        topic_id: {member_id: [] for member_id in ids} for topic_id, ids in subscribers.items()
    }
    for member_id, owned in kept.owned.items():
        for partition in owned:
            if partition[0] in held:
                held[partition[0]][member_id].append(partition)
    changed = True
    while changed:
        changed = False
        for topic_id in subscribers:
            changed |= _even_out_topic(kept, held[topic_id])


def _even_out_topic(kept: _Kept, held: dict[str, list[_TopicPartition]]) -> bool:
    moved = False
    least = [(len(kept.owned[member_id]), rank, member_id) for rank, member_id in enumerate(held)]
    heapq.heapify(least)
    most = [(-load, rank, member_id) for load, rank, member_id in least if held[member_id]]
    heapq.heapify(most)
    while most:
        source, target = most[0][2], least[0][2]
        if len(kept.owned[source]) != -most[0][0] or not held[source]:
            _refresh(most, -len(kept.owned[source]), bool(held[source]))
        elif len(kept.owned[target]) != least[0][0]:
            _refresh(least, len(kept.owned[target]), True)
        elif len(kept.owned[source]) - len(kept.owned[target]) <= 1:
            return moved
        else:
            partition = held[source].pop()
            held[target].append(partition)
            del kept.owned[source][partition]
            kept.owned[target][partition] = None
            moved = True
    return moved


def _refresh(heap: list[tuple[int, int, str]], load: int, stays: bool) -> None:
    # The loads in a heap are those of when its entries were made.
    _, rank, member_id = heapq.heappop(heap)
    if stays:
        heapq.heappush(heap, (load, rank, member_id))


def _subscribers(members: Members) -> dict[bytes, list[str]]:
    subscribers: dict[bytes, list[str]] = {}
    for member_id, spec in members.items():
        for topic_id in sorted(spec.topic_ids):
            subscribers.setdefault(topic_id, []).append(member_id)
    return subscribers


def _by_topic(partitions: Iterable[_TopicPartition]) -> Partitions:
    found: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        found.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in found.items()}
