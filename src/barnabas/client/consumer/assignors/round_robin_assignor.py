"""The round-robin assignor."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    PartitionCountAssignor,
    Subscription,
    members_by_topic,
    sorted_members,
)
from barnabas.protocol.topic_partition import TopicPartition


class RoundRobinAssignor(PartitionCountAssignor):
    """Deals all partitions of all topics out in turn, passing over members that do not subscribe to the topic."""

    name = "roundrobin"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """Deal partitions to the members in turn; the turn goes on from topic to topic."""
        dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        members = sorted_members(subscriptions)
        turn = 0
        for topic, subscribed in sorted(members_by_topic(subscriptions).items()):
            wanted = set(subscribed)
            for partition in range(partitions_per_topic.get(topic, 0)):
                while members[turn % len(members)] not in wanted:
                    turn += 1
                dealt[members[turn % len(members)]].append(TopicPartition(topic, partition))
                turn += 1
        return dealt
