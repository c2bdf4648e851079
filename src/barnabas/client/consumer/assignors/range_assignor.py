"""The range assignor."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.consumer.assignors.consumer_partition_assignor import (
    PartitionCountAssignor,
    Subscription,
    members_by_topic,
)
from barnabas.protocol.topic_partition import TopicPartition


class RangeAssignor(PartitionCountAssignor):
    """Gives each member one run of neighbouring partitions of each topic.

    Topics with as many partitions are so dealt out alike: partition 3 of all of them lies with one member.
    """

    name = "range"

    def assign_partitions(
        self, partitions_per_topic: Mapping[str, int], subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        """The first members get one more where the count does not divide."""
        dealt: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for topic, members in sorted(members_by_topic(subscriptions).items()):
            each, extra = divmod(partitions_per_topic.get(topic, 0), len(members))
            start = 0
            for rank, member in enumerate(members):
                end = start + each + (rank < extra)
                dealt[member].extend(TopicPartition(topic, partition) for partition in range(start, end))
                start = end
        return dealt
