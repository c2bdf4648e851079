"""A rebalance listener that keeps what it is told."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.protocol.topic_partition import TopicPartition


class Recorder(ConsumerRebalanceListener):
    """The partitions, in the order they came in."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("assigned", list(partitions)))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("revoked", list(partitions)))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(("lost", list(partitions)))
