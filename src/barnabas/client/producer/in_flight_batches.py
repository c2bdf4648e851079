"""The batches that were drained and have no result: sent, or about to be."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.producer.producer_batch import ProducerBatch


class InFlightBatches:
    """The batches in flight by partition, and when the next of them expires; the Sender thread's.

    Times are monotonic seconds.
    """

    def __init__(self, delivery_timeout: float) -> None:
        self._delivery_timeout = delivery_timeout
        self._by_partition: dict[TopicPartition, list[ProducerBatch]] = {}
        self.next_expiry = inf

    def __contains__(self, batch: ProducerBatch) -> bool:
        return batch in self._by_partition.get(batch.topic_partition, ())

    def add(self, batch: ProducerBatch) -> None:
        """Track a batch that was drained."""
        self._by_partition.setdefault(batch.topic_partition, []).append(batch)
        expiry = batch.created_at + self._delivery_timeout
        if expiry < self.next_expiry:
            self.next_expiry = expiry

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch that ended or is to be sent again."""
        tp = batch.topic_partition
        batches = self._by_partition.get(tp)
        if batches and batch in batches:
            batches.remove(batch)
            if not batches:
                del self._by_partition[tp]

    def expired(self, now: float) -> list[ProducerBatch]:
        """Return the batches that have no result after delivery.timeout.ms."""
        if now < self.next_expiry:
            return []
        expired = []
        self.next_expiry = inf
        for batches in self._by_partition.values():
            for batch in batches:
                if batch.is_done:
                    continue
                if batch.has_reached_delivery_timeout(self._delivery_timeout, now):
                    expired.append(batch)
                else:
                    self.next_expiry = min(self.next_expiry, batch.created_at + self._delivery_timeout)
        return expired
