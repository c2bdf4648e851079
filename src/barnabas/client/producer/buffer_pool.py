"""The producer's memory: `buffer.memory` bytes, given out fairly."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from barnabas.client.steps import Steps, at_once
from barnabas.errors import BufferExhaustedError, IllegalArgumentError, IllegalStateError
from barnabas.network.sampled_stat import DEFAULT, MetricConfig, Statistic


class Allocation:
    """Bytes of a pool that are set aside, until `release`, or until it is dropped without one (an interrupted call)."""

    __slots__ = ("_pool", "size")

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self.size = 0

    def release(self) -> None:
        """Give the bytes back; a second call does nothing."""
        self._pool.deallocate(self)

    def __del__(self) -> None:
        # Without a size it was interrupted in its making. The pool's lock may be held by this very thread.
        if getattr(self, "size", 0):
            self._pool.dropped.append(self.size)


class Waiter(ABC):
    """A call in line for `size` bytes; `granted` of them are set aside already."""

    __slots__ = ("granted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = 0

    @abstractmethod
    def wake(self) -> None:
        """End the wait: all bytes are granted, or the pool is closed. Called with the pool's lock held."""

    @abstractmethod
    def wait(self, timeout: float) -> Steps[None]:
        """Wait for `wake`, at most `timeout` seconds."""


class WaitingThread(Waiter):
    """A thread that blocks."""

    __slots__ = ("_latch",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._latch = threading.Lock()
        self._latch.acquire()

    def wake(self) -> None:
        """See `Waiter`."""
        self._latch.release()

    def wait(self, timeout: float) -> Steps[None]:
        """See `Waiter`."""
        return at_once(self._block, timeout)

    def _block(self, timeout: float) -> None:
        self._latch.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))


class BufferPool:
    """Counts the bytes that batches hold; a call that finds none free waits in line.

    Kafka's pool hands out buffers; here a batch makes its own, and the pool keeps the account. Application threads
    allocate, the Sender thread deallocates. Memory that comes free goes to the call that has waited longest, piece by
    piece if need be, so that a large record is not starved by small ones.
    """

    def __init__(
        self,
        total_memory: int,
        clock: Callable[[], float],
        config: MetricConfig = DEFAULT,
        new_waiter: Callable[[int], Waiter] = WaitingThread,
    ) -> None:
        self.total_memory = total_memory
        #: Sizes of allocations that were dropped and are free again; any thread appends.
        self.dropped: deque[int] = deque()
        # Seconds that calls waited; times when that was in vain.
        self._waited = Statistic(config)
        self._exhausted = Statistic(config)
        self._available = total_memory
        self._waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()
        self._clock = clock
        self._new_waiter = new_waiter
        self._closed = False

    def allocate_nowait(self, size: int) -> Allocation | None:
        """Take `size` bytes if no call waits and they are free, else None. Raises as `wait_allocate` does."""
        if size > self.total_memory:
            raise IllegalArgumentError(
                f"{size} bytes are more than the whole buffer.memory ({self.total_memory}); raise it"
            )
        allocation = Allocation(self)
        with self._lock:
            self._check_open()
            self._collect_dropped()
            if self._waiters or self._available < size:
                return None
            self._available, allocation.size = self._available - size, size
        return allocation

    def wait_allocate(self, size: int, timeout: float) -> Steps[Allocation]:
        """Take `size` bytes, in line behind those who wait already, for at most `timeout` seconds.

        A call that is interrupted takes nothing. Raises `BufferExhaustedError` when they do not come free in time,
        `IllegalArgumentError` when the pool is smaller than that, `IllegalStateError` once it is closed.
        """
        allocation = self.allocate_nowait(size)
        if allocation is not None:
            return allocation
        allocation = Allocation(self)
        waiter = self._new_waiter(size)
        try:
            self.line_up(waiter)
            started = self._clock()
            yield from waiter.wait(max(0.0, timeout))
            self.end_wait(waiter, allocation, self._clock() - started, timeout)
            return allocation
        except BaseException:
            self.withdraw(waiter)
            raise

    def line_up(self, waiter: Waiter) -> None:
        """Wait in line; must be followed by `end_wait` or `withdraw`."""
        with self._lock:
            self._check_open()
            self._waiters.append(waiter)
            self._grant()

    def end_wait(self, waiter: Waiter, allocation: Allocation, waited: float, timeout: float) -> None:
        """End a wait of so many seconds: the bytes are the allocation's, or it raises as `wait_allocate` does."""
        now = self._clock()
        with self._lock:
            self._waited.record(waited, now)
            if waiter.granted == waiter.size and not self._closed:
                allocation.size, waiter.granted = waiter.granted, 0
                return
            self._leave_line(waiter)
            self._check_open()
            self._exhausted.record(1, now)
            raise BufferExhaustedError(
                f"No {waiter.size} bytes came free within max.block.ms ({timeout:.3f} s were left of it): "
                f"{self._available} of {self.total_memory} bytes of buffer.memory are free, {len(self._waiters)} "
                "threads wait. The broker takes records more slowly than they are sent; raise either, or send less"
            )

    def withdraw(self, waiter: Waiter) -> None:
        """Leave the line, and give back what was granted."""
        with self._lock:
            self._leave_line(waiter)

    def _leave_line(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        self._available, waiter.granted = self._available + waiter.granted, 0
        self._grant()

    def _grant(self) -> None:
        self._collect_dropped()
        while self._waiters:
            first = self._waiters[0]
            piece = min(first.size - first.granted, self._available)
            self._available, first.granted = self._available - piece, first.granted + piece
            if first.granted < first.size:
                return
            self._waiters.popleft()
            first.wake()

    def _collect_dropped(self) -> None:
        while self.dropped:
            self._available += self.dropped.popleft()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("The producer was closed while a record waited for buffer.memory; it was not taken")

    def deallocate(self, allocation: Allocation) -> None:
        """Give an allocation's bytes back, and wake the calls they are enough for."""
        with self._lock:
            self._available, allocation.size = self._available + allocation.size, 0
            if self._waiters:
                self._grant()

    @property
    def available_memory(self) -> int:
        """The bytes that are free; those set aside for a waiting call count as held."""
        return self._available + sum(self.dropped)

    @property
    def queued(self) -> int:
        """How many calls wait for memory."""
        return len(self._waiters)

    def metrics(self, now: float) -> dict[str, float]:
        """Return the pool's part of Kafka's producer-metrics.

        The ratio is waited time to time, of all threads together.
        """
        waited = self._waited.at(now)
        return {
            "bufferpool-wait-ratio": waited.recent_total / waited.seconds,
            "bufferpool-wait-time-ns-total": waited.total * 1e9,
            **self._exhausted.at(now).metered("buffer-exhausted"),
        }

    def close(self) -> None:
        """Refuse further allocations, and wake every call that waits, with an error."""
        with self._lock:
            self._closed = True
            while self._waiters:
                waiter = self._waiters.popleft()
                self._available, waiter.granted = self._available + waiter.granted, 0
                waiter.wake()
