"""Counts, sums and maxima of values, and the time spent in calls, for the metrics of the clients."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NAN = float("nan")


class Statistic:
    """Count, sum and maximum of what was recorded, over the client's life. Belongs to one thread, others may read."""

    __slots__ = ("count", "maximum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.maximum = NAN

    def record(self, value: float) -> None:
        """Count one value."""
        self.count += 1
        self.total += value
        if not value <= self.maximum:
            self.maximum = value

    @property
    def average(self) -> float:
        """The mean; not a number while nothing was recorded."""
        return self.total / self.count if self.count else NAN


class TimeTotals:
    """How long the calls of each kind have taken in all, whether they succeeded or not (KIP-761). For any thread.

    `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float], *kinds: str) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds = dict.fromkeys(kinds, 0.0)

    @contextmanager
    def spent(self, kind: str) -> Iterator[None]:
        """Count the time until the end of the block."""
        began = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[kind] += self._clock() - began

    def as_dict(self) -> dict[str, float]:
        """Nanoseconds, under `<kind>-time-ns-total`."""
        return {f"{kind}-time-ns-total": seconds * 1e9 for kind, seconds in self._seconds.items()}
