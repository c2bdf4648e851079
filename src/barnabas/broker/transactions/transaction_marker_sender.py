"""Sends the markers of decided transactions, then writes that they are complete (TransactionMarkerChannelManager).

A decided transaction passes through three steps, which may lie in different turns of the broker's loop:

1. Markers go to the `MarkerWriter`, up to a budget per step. Each partition is *unsent*, *in flight* or *answered*.
2. Answers come at once (partitions of this broker) or later (other brokers). A marker that failed is unsent again
   after a backoff of its own transaction; no other transaction waits for that.
3. When every partition has its marker, COMPLETE_COMMIT or COMPLETE_ABORT is written to `__transaction_state`.

An answer for a transaction that has been removed since (its partition of `__transaction_state` was resigned) is void.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from math import inf

from barnabas import errors
from barnabas.broker.coordinator.timers import TimerQueue
from barnabas.broker.faults import OnFault, fault_text
from barnabas.broker.instant import Instant
from barnabas.broker.transactions.marker import Marker, MarkerWriter
from barnabas.broker.transactions.transaction_metadata import TopicIndex, TransactionMetadata
from barnabas.broker.transactions.transaction_state import PREPARE_COMMIT
from barnabas.broker.transactions.transaction_state_manager import TransactionStateManager

_AT_ONCE = -inf
#: How long a marker that could not be written waits for its next attempt, in seconds: at first, and at most.
_RETRY_BACKOFF, _RETRY_BACKOFF_MAX = 0.1, 5.0


class _Decided:
    """A decided transaction, and where each of its markers is."""

    __slots__ = (
        "answered", "backoff", "coordinator_epoch", "failed", "id", "in_flight", "problem", "queued", "told", "unsent",
    )  # fmt: skip

    def __init__(self, metadata: TransactionMetadata, coordinator_epoch: int):
        self.id = metadata.transactional_id
        self.coordinator_epoch = coordinator_epoch
        #: From the last to the first.
        self.unsent: list[TopicIndex] = sorted(metadata.partitions, reverse=True)
        self.in_flight: set[TopicIndex] = set()
        #: Has its marker, or needs none any more; not yet taken out of the metadata.
        self.answered: list[TopicIndex] = []
        #: To be sent again after the backoff.
        self.failed: list[TopicIndex] = []
        self.problem: errors.KafkaError | None = None
        #: What was said of it last.
        self.told = ""
        self.backoff = _RETRY_BACKOFF
        #: Whether `step` is to look at it.
        self.queued = False


class TransactionMarkerSender:
    """The transactions that are decided and not complete, in the order of their decisions."""

    __slots__ = ("_decided", "_queue", "_retries", "_stepped_at", "_store", "_warn", "_writer", "on_fault")

    def __init__(self, store: TransactionStateManager, writer: MarkerWriter, warn: Callable[[str], None]):
        self._store = store
        self._writer = writer
        self._warn = warn
        self._decided: dict[str, _Decided] = {}
        self._queue: deque[_Decided] = deque()
        self._retries = TimerQueue()
        self._stepped_at = 0.0
        #: Gets what is raised by a fault of this program, and where.
        self.on_fault: OnFault = lambda what, problem: warn(fault_text(what, problem))

    def __len__(self) -> int:
        return len(self._decided)

    def add(self, transactional_id: str, coordinator_epoch: int) -> None:
        """Line up a transaction whose result is in the log; markers carry `coordinator_epoch`."""
        self.remove([transactional_id])
        decided = _Decided(self._store.by_id[transactional_id], coordinator_epoch)
        self._decided[transactional_id] = decided
        self._look_at(decided)

    def remove(self, transactional_ids: Iterable[str]) -> None:
        """Send nothing more for these ids; answers that are still to come are void."""
        for transactional_id in transactional_ids:
            decided = self._decided.pop(transactional_id, None)
            if decided is not None:
                self._retries.cancel(transactional_id)
                decided.in_flight.clear()

    def next_deadline(self) -> float:
        """When `step` has something to do, in monotonic seconds."""
        return _AT_ONCE if self._queue else self._retries.next_deadline()

    def step(self, budget: int, at: Instant) -> None:
        """Send up to `budget` markers, and take over what was answered."""
        self._stepped_at = at.now
        while (retry := self._retries.pop_due(at.now)) is not None:
            retry[1](at)
        while self._queue and budget > 0:
            decided = self._queue.popleft()
            decided.queued = False
            try:
                if self._is_current(decided):
                    budget -= max(self._send(decided, budget, at), 1)
                if self._is_current(decided):
                    self._conclude(decided, at)
            except Exception as problem:  # noqa: BLE001 - a fault in one transaction must not end the others
                self._failed(decided, problem)
            if decided.unsent and self._is_current(decided):
                self._look_at(decided)

    def _failed(self, decided: _Decided, problem: Exception) -> None:
        """Begin the transaction's markers anew after a pause: it is not known which of them are on their way."""
        self.on_fault("the markers of a transaction", problem)
        metadata = self._store.by_id.get(decided.id)
        if metadata is None or not self._is_current(decided):
            return
        decided.unsent.clear()
        decided.in_flight.clear()
        decided.answered.clear()
        decided.failed = sorted(metadata.partitions, reverse=True)
        decided.problem = None
        self._retries.schedule(decided.id, self._stepped_at + decided.backoff, partial(self._retry, decided))
        decided.backoff = min(2 * decided.backoff, _RETRY_BACKOFF_MAX)

    def _is_current(self, decided: _Decided) -> bool:
        return self._decided.get(decided.id) is decided

    def _look_at(self, decided: _Decided) -> None:
        if not decided.queued:
            decided.queued = True
            self._queue.append(decided)

    # --- markers

    def _send(self, decided: _Decided, budget: int, at: Instant) -> int:
        metadata = self._store.by_id[decided.id]
        sent = 0
        while decided.unsent and sent < budget and self._is_current(decided):
            partition = decided.unsent.pop()
            decided.in_flight.add(partition)
            marker = Marker(
                partition,
                metadata.producer_id,
                metadata.producer_epoch,
                metadata.state == PREPARE_COMMIT,
                decided.coordinator_epoch,
                metadata.client_transaction_version,
            )
            self._writer.write(marker, at, partial(self._take_answer, decided, partition))
            sent += 1
        return sent

    def _take_answer(self, decided: _Decided, partition: TopicIndex, error: errors.KafkaError | None) -> None:
        try:
            self._answered(decided, partition, error)
        except Exception as problem:  # noqa: BLE001 - who answers does so for others, too
            self._failed(decided, problem)

    def _answered(self, decided: _Decided, partition: TopicIndex, error: errors.KafkaError | None) -> None:
        if partition not in decided.in_flight:
            return
        decided.in_flight.remove(partition)
        if isinstance(error, errors.TransactionCoordinatorFencedError):
            # A later coordinator has taken the transaction over; this broker will hear that it resigned.
            self._warn(f"No more markers for {decided.id!r}: {_name(partition)} answered {error}")
            self.remove([decided.id])
            return
        if isinstance(error, errors.InvalidProducerEpochError):
            # A later epoch has written there, which ended this transaction's part before.
            self._warn(f"No marker for {decided.id!r} in {_name(partition)}: {error}")
        elif error is not None and not isinstance(error, errors.UnknownTopicOrPartitionError):
            decided.failed.append(partition)
            decided.problem = error
            self._look_at(decided)
            return
        # Written; or the partition was deleted, and its part of the transaction with it.
        decided.answered.append(partition)
        self._look_at(decided)

    # --- completion

    def _conclude(self, decided: _Decided, at: Instant) -> None:
        metadata = self._store.by_id[decided.id]
        remaining = metadata.without(frozenset(decided.answered))
        decided.answered.clear()
        self._store.put(remaining)
        if not remaining.partitions:
            try:
                self._store.write(remaining.completed(at.now_ms), at)
            except errors.KafkaError as error:
                decided.problem = error
            else:
                del self._decided[decided.id]
        if decided.problem is not None:
            self._retry_later(decided, decided.problem, at)

    def _retry_later(self, decided: _Decided, problem: errors.KafkaError, at: Instant) -> None:
        decided.problem = None
        if decided.id in self._retries:
            return
        if not isinstance(problem, errors.CoordinatorLoadInProgressError) and decided.told != str(problem):
            decided.told = str(problem)
            self._warn(f"A transaction of {decided.id!r} cannot be completed yet: {problem}; that is tried again")
        self._retries.schedule(decided.id, at.now + decided.backoff, partial(self._retry, decided))
        decided.backoff = min(2 * decided.backoff, _RETRY_BACKOFF_MAX)

    def _retry(self, decided: _Decided, at: Instant) -> None:
        decided.unsent += decided.failed
        decided.failed.clear()
        self._look_at(decided)


def _name(partition: TopicIndex) -> str:
    return f"{partition[0]}-{partition[1]}"
