"""The accumulator's deques of batches, one per partition."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.producer.append import TopicInfo


class BatchQueues:
    """The deques by topic and partition; `lock`, the accumulator's, guards them.

    `filled` are those that hold batches. Only they are looked at, so that the work per turn does not grow with the
    partitions that exist. Muted partitions are not drained; only the Sender thread mutes.
    """

    def __init__(self, lock: threading.Lock, topics: dict[str, TopicInfo]) -> None:
        self.lock = lock
        self.filled: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.muted: set[TopicPartition] = set()
        self._topics = topics

    def get(self, tp: TopicPartition) -> deque[ProducerBatch] | None:
        """Return the partition's deque, None while there is none."""
        info = self._topics.get(tp.topic)
        return None if info is None else info.batches.get(tp.partition)

    def get_or_create(self, info: TopicInfo, partition: int) -> deque[ProducerBatch]:
        """Return the partition's deque, made when it is new."""
        queue: deque[ProducerBatch] | None = info.batches.get(partition)
        if queue is None:
            queue = info.batches.setdefault(partition, deque())
        return queue

    def pop_first(self, tp: TopicPartition, queue: deque[ProducerBatch]) -> ProducerBatch:
        """Take the first batch out of a partition's deque."""
        first = queue.popleft()
        if not queue:
            del self.filled[tp]
        return first

    def remove(self, batch: ProducerBatch) -> None:
        """Take out a batch, if it is still in its deque."""
        queue = self.filled.get(batch.topic_partition)
        if queue and batch in queue:
            queue.remove(batch)
            if not queue:
                del self.filled[batch.topic_partition]

    def __contains__(self, batch: ProducerBatch) -> bool:
        return batch in self.filled.get(batch.topic_partition, ())

    def look_again(self, without: ProducerBatch | None = None) -> None:
        """Find anew which deques hold batches, after an unexpected error; one batch is taken out."""
        self.filled = {}
        for topic, info in self._topics.items():
            for partition, queue in info.batches.items():
                if without is not None and without in queue:
                    queue.remove(without)
                if queue:
                    self.filled[TopicPartition(topic, partition)] = queue

    def insert(self, batch: ProducerBatch, by_sequence: bool) -> None:
        """Put a batch back at the head of its deque, or behind those whose sequence numbers come before its own."""
        tp = batch.topic_partition
        queue = self.get_or_create(self._topics[tp.topic], tp.partition)
        at = 0
        while by_sequence and at < len(queue) and queue[at].has_sequence and _is_before(queue[at], batch):
            at += 1
        queue.insert(at, batch)
        self.filled[tp] = queue


def _is_before(one: ProducerBatch, other: ProducerBatch) -> bool:
    # Sequence numbers wrap: the one before is less than half of the circle behind.
    return 0 < (other.base_sequence - one.base_sequence) & 0x7FFFFFFF < 1 << 30
