"""A rebalance listener that keeps what it is told."""

from __future__ import annotations

from collections.abc import Collection

from barnabas import TopicPartition
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener


class Recorder(ConsumerRebalanceListener):
    """The partitions' numbers, as events in their order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", {partition.partition for partition in partitions}))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", {partition.partition for partition in partitions}))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("lost", {partition.partition for partition in partitions}))
