"""Percentiles of times, of the last one to two minutes, from counts in buckets: no sample is kept."""

from __future__ import annotations

import math
from collections.abc import Iterator

#: Kafka's histograms show these, as the JMX exporter labels them.
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
#: Each bucket ends 8 % above the one before: a percentile is at most 4 % off.
_GROWTH = math.log(1.08)
#: The first bucket ends at a microsecond; there are enough for a quarter of an hour.
_LOWEST = 1e-6
_BUCKETS = int(math.log(900 / _LOWEST) / _GROWTH) + 1
_WINDOW = 60.0


class Percentiles:
    """Counts times, in seconds; `total` and `count` are since the start, quantiles of the last two windows."""

    __slots__ = ("_before", "_now", "_window_ends", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS
        self._window_ends = -math.inf

    def record(self, seconds: float, now: float) -> None:
        """Count a time that was taken at `now` (monotonic seconds)."""
        if now >= self._window_ends:
            self._turn(now)
        self.count += 1
        self.total += seconds
        bucket = int(math.log(seconds / _LOWEST) / _GROWTH) if seconds > _LOWEST else 0
        self._now[min(bucket, _BUCKETS - 1)] += 1

    def record_zeros(self, count: int, now: float) -> None:
        """Count so many times that were nothing, taken until `now`."""
        if now >= self._window_ends:
            self._turn(now)
        self.count += count
        self._now[0] += count

    def quantiles(self, now: float) -> Iterator[tuple[float, float]]:
        """Each of `QUANTILES` with its value in seconds, 0 where nothing was counted."""
        if now >= self._window_ends:
            self._turn(now)
        counts = [one + other for one, other in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        passed, bucket = 0, -1
        for quantile in QUANTILES:
            while passed < quantile * total:
                bucket += 1
                passed += counts[bucket]
            # The middle of the bucket.
            yield quantile, _LOWEST * math.exp((bucket + 0.5) * _GROWTH) if total else 0.0

    def _turn(self, now: float) -> None:
        empty = [0] * _BUCKETS
        self._before = self._now if now < self._window_ends + _WINDOW else empty
        self._now = [0] * _BUCKETS
        self._window_ends = now + _WINDOW
