"""The producer's memory: `buffer.memory` bytes, given out fairly."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable

from barnabas.errors import BufferExhaustedError, IllegalArgumentError, IllegalStateError
from barnabas.network.statistic import DEFAULT, MetricConfig, Statistic


class Waiter(ABC):
    """Somebody in line for `size` bytes; `granted` of them are set aside already."""

    __slots__ = ("granted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.granted = 0

    @abstractmethod
    def wake(self) -> None:
        """The wait is over: all bytes are granted, or the pool is closed. Called with the pool's lock held."""


class _WaitingThread(Waiter):
    __slots__ = ("latch",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.latch = threading.Lock()
        self.latch.acquire()

    def wake(self) -> None:
        self.latch.release()


class BufferPool:
    """Counts the bytes that batches hold; who finds none free waits in line.

    Kafka's pool hands out buffers; here a batch makes its own, and the pool keeps the account. Application threads
    allocate, the Sender thread deallocates. Memory that comes free goes to whoever has waited longest, piece by piece
    if need be, so that a large record is not starved by small ones.
    """

    def __init__(self, total_memory: int, clock: Callable[[], float], config: MetricConfig = DEFAULT) -> None:
        self.total_memory = total_memory
        # Seconds that somebody waited; times when that was in vain.
        self._waited = Statistic(config)
        self._exhausted = Statistic(config)
        self._available = total_memory
        self._waiters: deque[Waiter] = deque()
        self._lock = threading.Lock()
        self._clock = clock
        self._closed = False

    def allocate(self, size: int, max_time_to_block: float) -> None:
        """Take `size` bytes, waiting at most `max_time_to_block` seconds.

        Raises `BufferExhaustedError` when they do not come free in time, `IllegalArgumentError` when the pool is
        smaller than that, `IllegalStateError` once it is closed.
        """
        if self.try_allocate(size):
            return
        waiter = _WaitingThread(size)
        self.line_up(waiter)
        started = self._clock()
        waiter.latch.acquire(timeout=min(max(0.0, max_time_to_block), threading.TIMEOUT_MAX))
        self.settle(waiter, self._clock() - started, max_time_to_block)

    def try_allocate(self, size: int) -> bool:
        """Take `size` bytes if nobody waits and they are free. Raises as `allocate` does."""
        if size > self.total_memory:
            raise IllegalArgumentError(
                f"{size} bytes are more than the whole buffer.memory ({self.total_memory}); raise it"
            )
        with self._lock:
            self._check_open()
            if self._waiters or self._available < size:
                return False
            self._available -= size
            return True

    def line_up(self, waiter: Waiter) -> None:
        """Wait in line; must be followed by `settle` or `withdraw`."""
        with self._lock:
            self._check_open()
            self._waiters.append(waiter)
            self._grant()

    def settle(self, waiter: Waiter, waited: float, max_time_to_block: float) -> None:
        """End a wait of so many seconds: the bytes are the waiter's, or it raises as `allocate` does."""
        now = self._clock()
        with self._lock:
            self._waited.record(waited, now)
            if waiter.granted == waiter.size and not self._closed:
                return
            self._give_up(waiter)
            self._check_open()
            self._exhausted.record(1, now)
            raise BufferExhaustedError(
                f"No {waiter.size} bytes came free within max.block.ms ({max_time_to_block:.3f} s were left of it): "
                f"{self._available} of {self.total_memory} bytes of buffer.memory are free, {len(self._waiters)} "
                "threads wait. The broker takes records more slowly than they are sent; raise either, or send less"
            )

    def withdraw(self, waiter: Waiter) -> None:
        """Leave the line, and give back what was granted."""
        with self._lock:
            self._give_up(waiter)

    def _give_up(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        self._available += waiter.granted
        waiter.granted = 0
        self._grant()

    def _grant(self) -> None:
        while self._waiters:
            first = self._waiters[0]
            piece = min(first.size - first.granted, self._available)
            first.granted += piece
            self._available -= piece
            if first.granted < first.size:
                return
            self._waiters.popleft()
            first.wake()

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateError("The producer was closed while a record waited for buffer.memory; it was not taken")

    def deallocate(self, size: int) -> None:
        """Give `size` bytes back, and wake whoever they are enough for."""
        with self._lock:
            self._available += size
            if self._waiters:
                self._grant()

    @property
    def available_memory(self) -> int:
        """The bytes nobody holds; those set aside for a waiting thread count as held."""
        return self._available

    @property
    def queued(self) -> int:
        """How many threads wait for memory."""
        return len(self._waiters)

    def metrics(self, now: float) -> dict[str, float]:
        """The pool's part of Kafka's producer-metrics; the ratio is waited time to time, of all threads together."""
        waited = self._waited.at(now)
        return {
            "bufferpool-wait-ratio": waited.recent_total / waited.seconds,
            "bufferpool-wait-time-ns-total": waited.total * 1e9,
            **self._exhausted.at(now).metered("buffer-exhausted"),
        }

    def close(self) -> None:
        """Refuse further allocations, and send everyone who waits home with an error."""
        with self._lock:
            self._closed = True
            while self._waiters:
                waiter = self._waiters.popleft()
                self._available += waiter.granted
                waiter.granted = 0
                waiter.wake()
