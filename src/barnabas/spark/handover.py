"""Flink's `Handover`: passes batches from the thread that polls to the task's thread, one at a time."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from barnabas import anatomy
from barnabas.errors import IllegalArgumentError, KafkaError

T = TypeVar("T")


class WokenError(KafkaError):
    """The producing side was woken while the slot was full: what it offered was not taken, and it still holds it."""


class ClosedError(KafkaError):
    """The hand-over is closed."""


class Monitor(Protocol):
    """What is needed of a `threading.Condition`; tests bring one that they schedule themselves."""

    def __enter__(self) -> bool: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def wait(self) -> object:
        """Let go of the lock until notified."""

    def notify_all(self) -> None:
        """Wake all threads that wait."""


class Handover(Generic[T]):
    """One slot, one producing thread, one consuming thread; any thread may wake, report or close.

    What was accepted is handed out once, or dropped by an error or by `close`; never overwritten. So however slow the
    consuming side is, one batch waits in the slot and one in the producer's hand, and no more. The first error wins:
    neither a later one nor `close` hides it.
    """

    def __init__(self, monitor: Monitor | None = None) -> None:
        self._lock: Monitor = monitor if monitor is not None else threading.Condition()
        self._next: T | None = None
        self._error: BaseException | None = None
        self._is_producer_woken = False

    def produce(self, element: T) -> None:
        """Put a batch into the slot; waits while the slot is full.

        Raises `WokenError` when woken by `wakeup_producer` while the slot is full (a wake-up that came before is used
        up even if the slot is free), `ClosedError` after an error or `close`, and IllegalArgumentError for None.
        """
        if element is None:
            raise IllegalArgumentError("None cannot be handed over: it stands for an empty slot")
        with self._lock:
            if self._next is not None and not self._is_producer_woken:
                self._tell("produce_waits")
            while self._next is not None and not self._is_producer_woken:
                self._lock.wait()
            self._is_producer_woken = False
            if self._next is not None:
                self._tell("woken")
                raise WokenError("woken while the slot of the hand-over was full")
            if self._error is not None:
                raise ClosedError("the hand-over takes nothing any more: it is closed, or an error was reported")
            self._next = element
            self._tell("produced")
            self._lock.notify_all()

    def poll_next(self) -> T:
        """Take the batch out of the slot; waits until there is one.

        Raises the error that was reported, or `ClosedError` after `close`; a batch that is still there goes first.
        """
        with self._lock:
            if self._next is None and self._error is None:
                self._tell("poll_waits")
            while self._next is None and self._error is None:
                self._lock.wait()
            element = self._next
            if element is not None:
                self._next = None
                self._tell("taken")
                self._lock.notify_all()
                return element
            assert self._error is not None
            raise self._error

    def wakeup_producer(self) -> None:
        """End the wait of `produce`, or the wait of its next call."""
        with self._lock:
            self._is_producer_woken = True
            self._lock.notify_all()

    def report_error(self, error: BaseException) -> None:
        """Have `poll_next` raise this error, unless there was one before; the slot is emptied."""
        with self._lock:
            if self._error is None:
                self._error = error
                self._tell("failed", f"{type(error).__name__}: {error}"[:200])
            self._next = None
            self._lock.notify_all()

    def close(self) -> T | None:
        """End all waiting and empty the slot; a reported error stays. Returns the batch that was not taken."""
        with self._lock:
            untaken, self._next = self._next, None
            self._is_producer_woken = False
            if self._error is None:
                self._error = ClosedError("the hand-over is closed")
                self._tell("closed")
            self._lock.notify_all()
            return untaken

    def _tell(self, case: str, error: str = "") -> None:
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.HandoverMoved(anatomy.active.number_of(self), case, error))
