"""What an assignor is; the application may bring its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata

#: Partition to the racks (`broker.rack`) that have a replica of it; a reader there need not leave its rack.
PartitionRacks = Mapping[TopicPartition, frozenset[str]]
NO_RACKS: Final[PartitionRacks] = {}

EAGER: Final = "eager"
COOPERATIVE: Final = "cooperative"


class Subscription(NamedTuple):
    """What one member tells the leader when it joins."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


class Assignment(NamedTuple):
    """What the leader tells one member."""

    partitions: Sequence[TopicPartition]
    user_data: bytes | None = None


class ConsumerPartitionAssignor:
    """Deals partitions out among the members of a group; subclass it for a rule of your own.

    `name` is what the members agree on, so every member of a group must have the assignor under the same name.
    `protocols` lists the ways of rebalancing it can do; a COOPERATIVE one must not give a partition to a member in the
    same assignment in which it takes it from another (KIP-429). All methods run on the application's thread, in `poll`.
    """

    name: str = ""
    protocols: tuple[str, ...] = (EAGER,)

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return what to send to the leader in addition to topics and owned partitions."""
        return None

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """Deal out, as leader: member id to assignment, for every member.

        `partitions_per_topic` has the partition count of every topic subscribed to by the group that exists.
        """
        raise NotImplementedError(f"{type(self).__name__} must override assign()")

    def assign_with_racks(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks,
    ) -> dict[str, Assignment]:
        """As `assign`, which it calls, for an assignor to which it matters where the replicas of a partition are.

        What is called in the end; `racks` names, for each partition, the racks that have a replica of it (KIP-881).
        """
        return self.assign(partitions_per_topic, subscriptions)

    def on_assignment(self, assignment: Assignment, metadata: ConsumerGroupMetadata) -> None:
        """Take note of what this member got."""


class PartitionCountAssignor(ConsumerPartitionAssignor):
    """An assignor that needs topics and partition counts only, and hands no user data back."""

    def assign(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, Assignment]:
        """Deal out with `assign_partitions`."""
        dealt = self.assign_partitions(partitions_per_topic, subscriptions)
        return {member: Assignment(partitions) for member, partitions in dealt.items()}

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        raise NotImplementedError(f"{type(self).__name__} must override assign_partitions()")


class RackAwareAssignor(PartitionCountAssignor):
    """One that also looks at the replicas' racks, where they are known (KIP-881)."""

    def assign_with_racks(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks,
    ) -> dict[str, Assignment]:
        """Deal out with `assign_partitions`, each to its rack where that is possible."""
        dealt = self.assign_partitions(partitions_per_topic, subscriptions, racks)
        return {member: Assignment(partitions) for member, partitions in dealt.items()}

    def assign_partitions(
        self,
        partitions_per_topic: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
        racks: PartitionRacks = NO_RACKS,
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        raise NotImplementedError(f"{type(self).__name__} must override assign_partitions()")


def sorted_members(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Member ids in Kafka's order: static members by instance id first, then dynamic ones by member id.

    A static member so keeps its place, and with it its partitions, through a restart that changes its member id.
    """
    return sorted(subscriptions, key=lambda member: _rank(member, subscriptions[member].group_instance_id))


def _rank(member: str, instance: str | None) -> tuple[bool, str]:
    return (True, member) if instance is None else (False, instance)


def members_by_topic(subscriptions: Mapping[str, Subscription]) -> dict[str, list[str]]:
    """Topic to the members that subscribe to it, in the order of `sorted_members`."""
    found: dict[str, list[str]] = {}
    for member in sorted_members(subscriptions):
        for topic in set(subscriptions[member].topics):
            found.setdefault(topic, []).append(member)
    return found


def rack_of(subscription: Subscription) -> str | None:
    """Return a member's rack (`client.rack`)."""
    return subscription.rack_id or None


def is_rack_aware(consumer_racks: Iterable[str | None], racks_of_partitions: Iterable[frozenset[str]]) -> bool:
    """Whether racks can make a difference: some member has one where replicas are, and they are not everywhere."""
    of_partitions = list(racks_of_partitions)
    everywhere = frozenset().union(*of_partitions)
    if everywhere.isdisjoint(rack for rack in consumer_racks if rack):
        return False
    return any(racks != everywhere for racks in of_partitions)
