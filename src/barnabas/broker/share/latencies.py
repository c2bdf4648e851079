"""How long or large something was: since the start, and in the last half minute to minute, as Avg and Max show it."""

from __future__ import annotations

import math

_WINDOW = 30.0


class Latencies:
    """Counts times in seconds, or other amounts; `count` and `total` are since the start."""

    __slots__ = ("_before", "_now", "_window_ends", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        #: Count, sum and largest of a window.
        self._now = self._before = (0, 0.0, 0.0)
        self._window_ends = -math.inf

    def record(self, amount: float, now: float) -> None:
        """Count a time or another amount that was taken at `now` (monotonic seconds)."""
        self._turn(now)
        count, total, largest = self._now
        self._now = (count + 1, total + amount, max(largest, amount))
        self.count += 1
        self.total += amount

    def average(self, now: float) -> float:
        """Return the average of the last windows; 0 where nothing was counted."""
        self._turn(now)
        count = self._now[0] + self._before[0]
        return (self._now[1] + self._before[1]) / count if count else 0.0

    def largest(self, now: float) -> float:
        """Return the largest of the last windows; 0 where nothing was counted."""
        self._turn(now)
        return max(self._now[2], self._before[2])

    def _turn(self, now: float) -> None:
        if now < self._window_ends:
            return
        self._before = self._now if now < self._window_ends + _WINDOW else (0, 0.0, 0.0)
        self._now = (0, 0.0, 0.0)
        self._window_ends = now + _WINDOW
