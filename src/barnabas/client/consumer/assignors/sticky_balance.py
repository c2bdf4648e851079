"""Balance with as few moves as possible: the rule that both sticky assignors share.

The result is balanced: no member has two partitions more than another that could take one of them. Within that a
partition stays with its last owner where it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    NO_RACKS,
    PartitionRacks,
    Subscription,
    is_rack_aware,
    members_by_topic,
    rack_of,
    sorted_members,
)
from barnabas.protocol.topic_partition import TopicPartition


class Claim(NamedTuple):
    """What a member says it owned, and in which generation."""

    partitions: Sequence[TopicPartition]
    generation: int


def balance(
    partitions_per_topic: Mapping[str, int],
    subscriptions: Mapping[str, Subscription],
    claims: Mapping[str, Claim],
    racks: PartitionRacks = NO_RACKS,
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member, given what each claims to have owned.

    A partition without a replica in its owner's rack leaves it for a member that has one there (KIP-881); what is free
    goes to such members first.
    """
    consumers = {
        topic: members for topic, members in members_by_topic(subscriptions).items() if topic in partitions_per_topic
    }
    kept = _settle_claims(partitions_per_topic, subscriptions, claims)
    local = _Locality(subscriptions, consumers, racks)
    if local.matters:
        local.release(kept)
    taken = {partition for partitions in kept.values() for partition in partitions}
    free = [
        partition
        for topic in sorted(consumers)
        for partition in (TopicPartition(topic, number) for number in range(partitions_per_topic[topic]))
        if partition not in taken
    ]
    if len({frozenset(subscription.topics) for subscription in subscriptions.values()}) <= 1:
        _balance_alike(kept, free, sorted_members(subscriptions), local)
    else:
        _balance_mixed(kept, free, consumers, local)
    return kept


class _Locality:
    """Which members have a replica of which partitions in their racks."""

    def __init__(
        self, subscriptions: Mapping[str, Subscription], consumers: Mapping[str, list[str]], racks: PartitionRacks
    ) -> None:
        self._rack_of = {member: rack_of(subscription) for member, subscription in subscriptions.items()}
        self._consumers = consumers
        self._racks = racks
        self.matters = bool(racks) and is_rack_aware(self._rack_of.values(), racks.values())

    def matches(self, member: str, partition: TopicPartition) -> bool:
        """Whether the partition has a replica in the member's rack, or the member has no rack."""
        rack = self._rack_of[member]
        return rack is None or rack in self._racks.get(partition, ())

    def release(self, kept: dict[str, list[TopicPartition]]) -> None:
        """Take from each member what it has no replica of in its rack, where another member of the topic has one."""
        for member, partitions in kept.items():
            kept[member] = [
                partition
                for partition in partitions
                if self.matches(member, partition)
                or not any(self.matches(other, partition) for other in self._consumers[partition.topic])
            ]


def _settle_claims(
    partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription], claims: Mapping[str, Claim]
) -> dict[str, list[TopicPartition]]:
    """Who keeps what: the claim of the latest generation counts; two of one generation cancel each other out."""
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in sorted_members(subscriptions):
        claim = claims.get(member)
        topics = set(subscriptions[member].topics)
        for partition in claim.partitions if claim is not None else ():
            if partition.topic not in topics or partition.partition >= partitions_per_topic.get(partition.topic, 0):
                continue
            generation, owner = best.get(partition, (-2, None))
            if claim is not None and claim.generation > generation:
                best[partition] = (claim.generation, member)
            elif claim is not None and claim.generation == generation and owner != member:
                best[partition] = (generation, None)
    kept: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
    for partition, (_, owner) in sorted(best.items()):
        if owner is not None:
            kept[owner].append(partition)
    return kept


def _balance_alike(
    kept: dict[str, list[TopicPartition]], free: list[TopicPartition], members: list[str], local: _Locality
) -> None:
    """All subscribe to the same topics: quotas decide, in linear time."""
    total = len(free) + sum(len(partitions) for partitions in kept.values())
    each, extra = divmod(total, len(members)) if members else (0, 0)
    quota = dict.fromkeys(members, each)
    # Who owns most keeps most: one more than `each` goes to those who already have it.
    for member in sorted(members, key=lambda name: -len(kept[name]))[:extra]:
        quota[member] += 1
    for member in members:
        free.extend(kept[member][quota[member] :])
        del kept[member][quota[member] :]
    if local.matters:
        _feed_locally(kept, free, quota, local)
    supply = iter(sorted(free))
    hungry = [member for member in members if len(kept[member]) < quota[member]]
    while hungry:
        for member in hungry:
            kept[member].append(next(supply))
        hungry = [member for member in hungry if len(kept[member]) < quota[member]]


def _feed_locally(
    kept: dict[str, list[TopicPartition]], free: list[TopicPartition], quota: Mapping[str, int], local: _Locality
) -> None:
    """Give free partitions to hungry members that have a replica in their racks; `free` keeps the others.

    Those that few could take come first.
    """

    def takers(partition: TopicPartition) -> list[str]:
        return [member for member in quota if len(kept[member]) < quota[member] and local.matches(member, partition)]

    given: set[TopicPartition] = set()
    for partition in sorted(free, key=lambda partition: (len(takers(partition)), partition)):
        able = takers(partition)
        if able:
            kept[max(able, key=lambda member: quota[member] - len(kept[member]))].append(partition)
            given.add(partition)
    free[:] = [partition for partition in free if partition not in given]


def _balance_mixed(
    kept: dict[str, list[TopicPartition]],
    free: Iterable[TopicPartition],
    consumers: Mapping[str, list[str]],
    local: _Locality,
) -> None:
    """Subscriptions differ: fill up by need, then move partitions until no move helps any more."""
    load = {member: len(partitions) for member, partitions in kept.items()}

    def least(partition: TopicPartition) -> str:
        if not local.matters:
            return min(consumers[partition.topic], key=load.__getitem__)
        return min(consumers[partition.topic], key=lambda member: (load[member], not local.matches(member, partition)))

    # Topics that few can read come first: the others can still even things out.
    for partition in sorted(free, key=lambda partition: (len(consumers[partition.topic]), partition)):
        member = least(partition)
        kept[member].append(partition)
        load[member] += 1
    # Each move lowers the sum of the squares of the loads, so this ends.
    moved = True
    while moved:
        moved = False
        for member in sorted(kept, key=lambda name: -load[name]):
            for partition in list(reversed(kept[member])):
                taker = least(partition)
                if load[taker] + 1 < load[member]:
                    kept[member].remove(partition)
                    kept[taker].append(partition)
                    load[member] -= 1
                    load[taker] += 1
                    moved = True
