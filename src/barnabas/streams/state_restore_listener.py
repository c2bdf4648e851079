"""Who is told how the restoration of stores goes on. Source: Kafka's StateRestoreListener."""

from __future__ import annotations

from barnabas.protocol.topic_partition import TopicPartition


class StateRestoreListener:
    """Told of each restoration by the threads of `KafkaStreams`; what a method raises is logged.

    Offsets are those of the changelog's partition. A store that has nothing to restore starts and ends, too.
    """

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        """Take note: a store is going to be restored from one offset to the other."""

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        """Take note: so many records more are in the store, up to this offset."""

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Take note: the store is restored."""

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        """Take note: the restoration has failed or was cancelled; the next attempt goes on from what is kept."""
