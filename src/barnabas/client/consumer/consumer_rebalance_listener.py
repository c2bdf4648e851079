"""The application's view of rebalances."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.protocol.topic_partition import TopicPartition


class ConsumerRebalanceListener:
    """Is told when partitions come and go; subclass it and override what you need.

    Called on the application's thread, only inside `poll`, `unsubscribe` and `close`; it may call back into the
    consumer. An error it raises comes out of `poll`, after the rebalance is completed.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions that were assigned; called after every rebalance, also when there are none."""

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that are revoked; they are still ours, so offsets can be committed here."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that are lost: others have them, so committing is too late. Calls the former."""
        self.on_partitions_revoked(partitions)
