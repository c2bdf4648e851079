"""Writes the markers of decided transactions, and then that they are complete (TransactionMarkerChannelManager)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Protocol

from barnabas import errors
from barnabas.broker.transactions.transaction_metadata import TopicIndex, TransactionMetadata
from barnabas.broker.transactions.transaction_state import PREPARE_COMMIT, PREPARED
from barnabas.broker.transactions.transaction_store import TransactionStore

#: How long a marker that could not be written waits for its next attempt, in seconds: at first, and at most.
_RETRY_BACKOFF, _RETRY_BACKOFF_MAX = 0.1, 5.0


class MarkerWriter(Protocol):
    """Puts a marker at the end of one partition."""

    def write(self, partition: TopicIndex, producer_id: int, epoch: int, commit: bool, now_ms: int) -> None:
        """Raises UnknownTopicOrPartitionError where the partition is gone, and other KafkaErrors."""


class TransactionMarkerSender:
    """The transactions that are decided and not complete, in the order of their decisions."""

    __slots__ = ("_backoff", "_queue", "_retry_at", "_store", "_warn", "_writer")

    def __init__(self, store: TransactionStore, writer: MarkerWriter, warn: Callable[[str], None]):
        self._store = store
        self._writer = writer
        self._warn = warn
        self._queue: deque[str] = deque()
        self._backoff = _RETRY_BACKOFF
        #: When the queue is looked at again after a failure.
        self._retry_at = -inf

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, transactional_id: str) -> None:
        """Line up a transaction whose result is in the log."""
        self._queue.append(transactional_id)

    def next_deadline(self) -> float:
        """When `step` has something to do, in monotonic seconds."""
        return self._retry_at if self._queue else inf

    def step(self, budget: int, now: float, now_ms: int) -> None:
        """Write up to `budget` markers. A partition that fails holds up no other transaction."""
        if now < self._retry_at:
            return
        failed: list[str] = []
        while self._queue and budget > 0:
            transactional_id = self._queue.popleft()
            metadata = self._store.by_id.get(transactional_id)
            if metadata is None or metadata.state not in PREPARED:
                continue
            written, problem = self._write_markers(metadata, budget, now_ms)
            budget -= max(written, 1)
            if problem is not None:
                failed.append(transactional_id)
                if not isinstance(problem, errors.CoordinatorLoadInProgressError):
                    self._warn(f"A transaction of {transactional_id!r} cannot be completed yet: {problem}")
            elif self._store.by_id[transactional_id].partitions:
                self._queue.append(transactional_id)
        if failed:
            self._queue.extend(failed)
            self._retry_at = now + self._backoff
            self._backoff = min(2 * self._backoff, _RETRY_BACKOFF_MAX)
        else:
            self._retry_at, self._backoff = -inf, _RETRY_BACKOFF

    def _write_markers(
        self, metadata: TransactionMetadata, budget: int, now_ms: int
    ) -> tuple[int, errors.KafkaError | None]:
        written: list[TopicIndex] = []
        problem: errors.KafkaError | None = None
        for partition in sorted(metadata.partitions)[:budget]:
            try:
                self._write_marker(metadata, partition, now_ms)
            except errors.KafkaError as error:
                problem = error
            else:
                written.append(partition)
        remaining = metadata.without(frozenset(written))
        self._store.put(remaining)
        if not remaining.partitions:
            try:
                self._store.write(remaining.completed(now_ms), now_ms)
            except errors.KafkaError as error:
                problem = error
        return len(written), problem

    def _write_marker(self, metadata: TransactionMetadata, partition: TopicIndex, now_ms: int) -> None:
        commit = metadata.state == PREPARE_COMMIT
        try:
            self._writer.write(partition, metadata.producer_id, metadata.producer_epoch, commit, now_ms)
        except errors.UnknownTopicOrPartitionError:
            # Deleted meanwhile, and its part of the transaction with it.
            pass
        except errors.InvalidProducerEpochError as error:
            # A later epoch has written there, which ended this transaction's part before.
            self._warn(f"No marker for {metadata.transactional_id!r} in {partition[0]}-{partition[1]}: {error}")
