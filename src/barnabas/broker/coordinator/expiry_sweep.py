"""A look at everything that a coordinator keeps, every now and then, a piece at a time (expiry of offsets, of ids)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf

from barnabas.broker.instant import Instant

_AT_ONCE = -inf


class Sweep:
    """Shows all ids to `visit`, a few per step, and begins again one interval after it began last."""

    __slots__ = ("_due_at", "_ids", "_interval", "_queue", "_visit")

    def __init__(
        self, interval_ms: int, ids: Callable[[], Iterable[str]], visit: Callable[[Sequence[str], Instant], None]
    ):
        self._interval = interval_ms / 1000
        self._ids = ids
        self._visit = visit
        self._due_at = inf
        self._queue: deque[str] = deque()

    def schedule(self, at: Instant) -> None:
        """Begin one interval from now; a sweep that is in progress goes on."""
        self._due_at = at.now + self._interval

    def next_deadline(self) -> float:
        """When `step` has something to do, in monotonic seconds."""
        return _AT_ONCE if self._queue else self._due_at

    def step(self, budget: int, at: Instant) -> None:
        """Begin a sweep if one is due, unless the last one is not over; look at up to `budget` ids."""
        if self._due_at <= at.now:
            if not self._queue:
                self._queue.extend(self._ids())
            self.schedule(at)
        if self._queue:
            queue = self._queue
            self._visit([queue.popleft() for _ in range(min(budget, len(queue)))], at)

    def clear(self) -> None:
        """End the sweep that is in progress."""
        self._queue.clear()
