"""The batches without a result: what flushing waits for, and what closing and aborting end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.client.producer.producer_batch import ProducerBatch


class IncompleteBatches:
    """Every batch from its first record to its result, drained or not. The accumulator's lock guards it.

    They are in the order of their making: when they are aborted, callbacks run in the order of sending.
    """

    def __init__(self) -> None:
        self._batches: dict[ProducerBatch, None] = {}

    def add(self, batch: ProducerBatch) -> None:
        """Track a new batch."""
        self._batches[batch] = None

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch that has its result."""
        self._batches.pop(batch, None)

    def copy_all(self) -> list[ProducerBatch]:
        """Return the batches at this moment."""
        return list(self._batches)

    def results(self) -> list[ProduceRequestResult]:
        """Return the results that are still to come."""
        return [batch.request_result for batch in self._batches]

    def record_count(self) -> int:
        """How many records have no result yet."""
        return sum(batch.record_count for batch in self._batches)

    def __bool__(self) -> bool:
        return bool(self._batches)
