"""The application's view of rebalances, for asyncio."""

from __future__ import annotations

from collections.abc import Collection

from barnabas.protocol.topic_partition import TopicPartition


class ConsumerRebalanceListener:
    """Is told when partitions come and go; subclass it and override what you need.

    Its methods are awaited inside `poll`, `unsubscribe` and `close`, and the rebalance goes on after them; they may
    use the consumer (`await consumer.commit()`). An error they raise comes out of `poll`, after the rebalance.
    """

    async def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Take partitions that were assigned; called after every rebalance, also when there are none."""

    async def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that are revoked; they are still ours, so offsets can be committed here."""

    async def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Finish with partitions that are lost: others have them, so committing is too late. Calls the former."""
        await self.on_partitions_revoked(partitions)
