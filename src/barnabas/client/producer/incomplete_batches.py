"""The batches without a result: what flushing waits for, and what closing and aborting end."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.client.producer.append import RecordAppender
from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.errors import IllegalStateError, KafkaError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.producer.buffer_pool import BufferPool
    from barnabas.client.producer.produce_request_result import ProduceRequestResult


class IncompleteBatches(RecordAppender):
    """The part of `RecordAccumulator` that knows every batch from its first record to its result.

    Its lock guards the deques of batches, too. `_filled` are the deques that hold any.
    """

    def __init__(self, buffer_pool: BufferPool) -> None:
        self._lock = threading.Lock()
        super().__init__(self._lock)
        self.closed = False
        self.free = buffer_pool
        self._filled: dict[TopicPartition, deque[ProducerBatch]] = {}
        # In the order of their making: when they are aborted, callbacks run in the order of sending.
        self._incomplete: dict[ProducerBatch, None] = {}
        self._flushes_in_progress = 0
        self._appends_in_progress = 0

    def has_incomplete(self) -> bool:
        """Whether any batch has no result yet, drained or not."""
        return bool(self._incomplete)

    def deallocate(self, batch: ProducerBatch) -> None:
        """Forget a batch that has its result, and give its memory back."""
        with self._lock:
            self._incomplete.pop(batch, None)
        if batch.allocated:
            self.free.deallocate(batch.allocated)
            batch.allocated = 0

    # Flushing and closing

    def begin_flush(self) -> None:
        """Make every batch sendable at once, until `end_flush`."""
        with self._lock:
            self._flushes_in_progress += 1

    def end_flush(self) -> None:
        """Let batches linger again, if no other flush is in progress."""
        with self._lock:
            self._flushes_in_progress -= 1

    def incomplete_results(self) -> list[ProduceRequestResult]:
        """The results that are still to come."""
        with self._lock:
            return [batch.request_result for batch in self._incomplete]

    def await_flush_completion(self, deadline: float | None = None) -> bool:
        """Wait until every batch there is now has its result; False when `deadline` (monotonic) passed before.

        Ends the flush.
        """
        try:
            return all(result.wait_for_all(deadline) for result in self.incomplete_results())
        finally:
            self.end_flush()

    def incomplete_record_count(self) -> int:
        """How many records have no result yet."""
        with self._lock:
            return sum(batch.record_count for batch in self._incomplete)

    def refuse(self, why: Callable[[], KafkaError] | None) -> None:
        """Raise `why()` for every record from now on; None takes records again. A closed producer stays closed."""
        with self._lock:
            if not self.closed:
                self.refusal = why

    def close(self) -> None:
        """Take no more records; who waits for memory gets an error."""
        with self._lock:
            self.closed = True
            self.refusal = _closed
        self.free.close()

    def abort_incomplete_batches(self, reason: KafkaError) -> int:
        """Fail every batch without a result; returns how many records that were.

        Records that are being appended at this moment are waited for: none may be left without a result.
        """
        records = self.abort_batches(reason)
        while self._appends_in_progress:
            records += self.abort_batches(reason)
        return records + self.abort_batches(reason)

    def abort_batches(self, reason: KafkaError, only: Callable[[ProducerBatch], bool] | None = None) -> int:
        """Fail the batches without a result (those that `only` names); returns how many records that were."""
        with self._lock:
            batches: Iterable[ProducerBatch] = [batch for batch in self._incomplete if only is None or only(batch)]
            for batch in batches:
                batch.close_for_record_appends()
                queue = self._filled.get(batch.topic_partition)
                if queue and batch in queue:
                    queue.remove(batch)
                    if not queue:
                        del self._filled[batch.topic_partition]
        for batch in sorted(batches, key=lambda batch: batch.created_at):
            batch.abort(reason)
            self.deallocate(batch)
        return sum(batch.record_count for batch in batches)


def _closed() -> KafkaError:
    return IllegalStateError("The producer was closed while a record was being sent; the record was not taken")
