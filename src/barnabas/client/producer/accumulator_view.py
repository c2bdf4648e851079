"""What an accumulator looks like between two events, told to anatomy a few times a second."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from barnabas import anatomy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.client.producer.batch_queues import BatchQueues
    from barnabas.client.producer.buffer_pool import BufferPool
    from barnabas.protocol.topic_partition import TopicPartition

#: Seconds from one look to the next.
INTERVAL = 0.02
#: Partitions at one look; those that hold batches longest come first.
MOST_PARTITIONS = 24


class AccumulatorView:
    """Tells how full open batches are, and the memory. The caller holds the accumulator's lock; times in seconds."""

    def __init__(self, client: str, batch_size: int, before_append: tuple[str, str, str]) -> None:
        self._client = client
        self._batch_size = batch_size
        self._before_append = before_append
        # Who was told what is done before a record is appended.
        self._told: anatomy.Recorder | None = None
        self._due = 0.0
        self._seen: Mapping[TopicPartition, tuple[int, int]] = {}

    def tell(self, recorder: anatomy.Recorder, queues: BatchQueues, pool: BufferPool, now: float) -> None:
        """Tell what has changed since the last look, if that is long enough ago."""
        if now < self._due:
            return
        self._due = now + INTERVAL
        if self._told is not recorder:
            self._told = recorder
            recorder.record(anatomy.events.SerializersChosen(self._client, *self._before_append))
        before, seen = self._seen, {}
        for tp, queue in islice(queues.filled.items(), MOST_PARTITIONS):
            batch = queue[-1]
            if batch.is_open:
                number, records = recorder.number_of(batch), batch.record_count
                seen[tp] = number, records
                if before.get(tp) != (number, records):
                    told = self._client, number, records, batch.estimated_size, self._batch_size
                    recorder.record(anatomy.events.BatchFilled(*told))
        if seen != before:
            self._seen = seen
            free, total = pool.available_memory, pool.total_memory
            recorder.record(anatomy.events.MemoryUsed(self._client, free, total, pool.queued))
