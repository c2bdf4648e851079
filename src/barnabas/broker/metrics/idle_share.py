"""Which share of its time the broker's thread had nothing to do (Kafka's RequestHandlerAvgIdlePercent)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf


class IdleShare:
    """From processor time and from the time of flushes, between one look and the next: nothing is taken per request.

    One thread reads, works and writes, so its share is what Kafka has two of: of request handlers and of network
    threads. A flush that a thread of its own does counts too, so at worst the share is too small.
    """

    #: Looks in quick succession see the same span of time.
    SHORTEST_SPAN = 1.0

    def __init__(self, thread_time: Callable[[], float]):
        self._thread_time = thread_time
        self._since = -inf
        self._used = 0.0
        self._flushing = 0.0
        self._share = 1.0

    def share(self, now: float, flushing: float) -> float:
        """Return the share since the last look, 0 to 1; `flushing` are the seconds that flushes took since then."""
        self._flushing += flushing
        span = now - self._since
        if span >= self.SHORTEST_SPAN:
            used = self._thread_time()
            if span != inf:
                self._share = min(1.0, max(0.0, 1.0 - (used - self._used + self._flushing) / span))
            self._since, self._used, self._flushing = now, used, 0.0
        return self._share
