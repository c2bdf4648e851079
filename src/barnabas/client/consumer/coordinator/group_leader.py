"""The leader's work in a rebalance: dealing the partitions of the group out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    COOPERATIVE,
    NO_RACKS,
    Assignment,
    ConsumerPartitionAssignor,
    PartitionRacks,
    Subscription,
)
from barnabas.client.consumer.assignors.cooperative_sticky_assignor import moving_partitions
from barnabas.client.consumer.coordinator.consumer_protocol import deserialize_subscription, serialize_assignment
from barnabas.errors import IllegalStateError
from barnabas.network.log_context import client_logger
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.consumer.consumer_metadata import ConsumerMetadata
    from barnabas.client.consumer.membership.messages import LeaderElected
    from barnabas.client.consumer.subscription_state import SubscriptionState

log = client_logger("barnabas.consumer")


class GroupLeader:
    """One election: from the members' subscriptions to their assignments. Belongs to the application's thread."""

    def __init__(self, event: LeaderElected, subscriptions: SubscriptionState, metadata: ConsumerMetadata) -> None:
        self.event = event
        self._metadata = metadata
        self._subscriptions: dict[str, Subscription] = {
            member.member_id: deserialize_subscription(member.metadata, member.group_instance_id)
            for member in event.members
        }
        self._topics = {topic for subscription in self._subscriptions.values() for topic in subscription.topics}
        if subscriptions.group_subscribe(self._topics):
            metadata.request_update_for_new_topics()
        # The metadata may be older than the topics of the group, so an update that is asked for is waited for, once.
        self._needed_version = metadata.update_version + metadata.update_requested

    @property
    def is_ready(self) -> bool:
        """Whether the metadata of the group's topics has come."""
        return self._metadata.update_version >= self._needed_version

    def assign(self, assignor: ConsumerPartitionAssignor, protocol: str) -> Mapping[str, bytes]:
        """Return the assignment of each member, as bytes.

        None when the coordinator says that all keep what they have.
        """
        if self.event.skip_assignment:
            return {}
        cluster = self._metadata.fetch()
        counts = {topic: len(cluster.topics[topic].partitions) for topic in self._topics if topic in cluster.topics}
        assignments = assignor.assign_with_racks(counts, self._subscriptions, self._racks(cluster, counts))
        if protocol == COOPERATIVE:
            self._check_cooperative(assignor, assignments)
        missing = self._topics - {entry.topic for found in assignments.values() for entry in found.partitions}
        if missing:
            log.warning("No partition of these topics is assigned to any member: %s", ", ".join(sorted(missing)))
        return {member: serialize_assignment(assignment) for member, assignment in assignments.items()}

    def _racks(self, cluster: Cluster, topics: Iterable[str]) -> PartitionRacks:
        """Where the replicas are, if any member cares."""
        if not any(subscription.rack_id for subscription in self._subscriptions.values()):
            return NO_RACKS
        rack_of = {node.id: node.rack for node in cluster.nodes}
        return {
            TopicPartition(topic, info.partition): frozenset(filter(None, map(rack_of.get, info.replicas)))
            for topic in topics
            for info in cluster.topics[topic].partitions
        }

    def _check_cooperative(self, assignor: ConsumerPartitionAssignor, assignments: Mapping[str, Assignment]) -> None:
        dealt = {member: assignment.partitions for member, assignment in assignments.items()}
        moving = moving_partitions(dealt, self._subscriptions)
        if moving:
            raise IllegalStateError(
                f"Assignor {assignor.name!r} gives {', '.join(map(str, sorted(moving)))} to new members while the old "
                "ones still own them; a cooperative assignor has to take a partition first and give it away in the "
                "next rebalance"
            )
