"""The range assignor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    NO_RACKS,
    PartitionRacks,
    RackAwareAssignor,
    Subscription,
    is_rack_aware,
    members_by_topic,
    rack_of,
)
from barnabas.protocol.topic_partition import TopicPartition

Dealt = dict[str, list[TopicPartition]]


class RangeAssignor(RackAwareAssignor):
    """Gives each member one run of neighbouring partitions of each topic.

    Topics with as many partitions are so dealt out alike: partition 3 of all of them lies with one member. Members get
    partitions that have a replica in their rack first (KIP-881), in the same numbers.
    """

    name = "range"

    def assign_partitions(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks = NO_RACKS,
    ) -> Dealt:
        """Return the first members get one more where the count does not divide."""
        dealt: Dealt = {member: [] for member in subscriptions}
        consumer_racks = {member: rack_of(subscription) for member, subscription in subscriptions.items()}
        topics = [
            _Topic(topic, partitions_per_topic[topic], members, consumer_racks, racks)
            for topic, members in sorted(members_by_topic(subscriptions).items())
            if partitions_per_topic.get(topic, 0)
        ]
        if any(topic.needs_racks for topic in topics):
            _match_racks(topics, dealt)
        for topic in topics:
            topic.deal(dealt, lambda member, partition: True)
        return {member: sorted(partitions) for member, partitions in dealt.items()}


class _Topic:
    """One topic while it is dealt out: what is left, and how much each member may still get."""

    def __init__(
        self,
        name: str,
        count: int,
        members: list[str],
        consumer_racks: Mapping[str, str | None],
        racks: PartitionRacks,
    ) -> None:
        self.name = name
        self.members = tuple(members)
        # In order; a dict, so that what is given leaves it at once.
        self.left = dict.fromkeys(TopicPartition(name, number) for number in range(count))
        self.count = count
        self._racks = {partition: racks.get(partition, frozenset()) for partition in self.left}
        self._consumer_racks = consumer_racks
        self.needs_racks = is_rack_aware((consumer_racks[member] for member in members), self._racks.values())
        self._given = dict.fromkeys(members, 0)
        self._each, self._extra = divmod(count, len(members))

    def matches(self, member: str, partition: TopicPartition) -> bool:
        """Whether the partition has a replica in the member's rack, or the member has no rack."""
        rack = self._consumer_racks[member]
        return rack is None or rack in self._racks[partition]

    def room(self, member: str) -> int:
        """How many more the member may get."""
        return max(0, self._each + (self._extra > 0) - self._given[member])

    def give(self, member: str, partitions: Collection[TopicPartition], dealt: Dealt) -> None:
        """Hand partitions to a member."""
        dealt[member].extend(partitions)
        self._given[member] += len(partitions)
        self._extra -= self._given[member] > self._each
        for partition in partitions:
            del self.left[partition]

    def deal(self, dealt: Dealt, may_have: Callable[[str, TopicPartition], bool]) -> None:
        """Give each member in turn a run of what it may have."""
        for member in self.members:
            able = (partition for partition in self.left if may_have(member, partition))
            chosen = list(islice(able, self.room(member)))
            if chosen:
                self.give(member, chosen, dealt)


def _match_racks(topics: list[_Topic], dealt: Dealt) -> None:
    """Deal out what has a replica in a member's rack; topics alike in members and count together."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((topic.members, topic.count), []).append(topic)
    for (members, count), together in alike.items():
        if len(together) > 1:
            _match_together(together, members, count, dealt)
        elif together[0].needs_racks:
            together[0].deal(dealt, together[0].matches)


def _match_together(topics: list[_Topic], members: tuple[str, ...], count: int, dealt: Dealt) -> None:
    """Give the same partition of all topics to one member, if all of them have a replica in its rack."""
    waiting = list(members)
    for number in range(count):
        for member in waiting:
            if all(
                topic.room(member) and topic.matches(member, TopicPartition(topic.name, number)) for topic in topics
            ):
                for topic in topics:
                    topic.give(member, [TopicPartition(topic.name, number)], dealt)
                if not any(topic.room(member) for topic in topics):
                    waiting.remove(member)
                break
