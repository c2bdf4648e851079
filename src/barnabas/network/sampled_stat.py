"""Kafka's sampled statistics: what was recorded lately, in a window that moves on, and in all.

A window is `metrics.num.samples` samples, each of `metrics.sample.window.ms`; they are Kafka's `SampledStat`s (`Avg`,
`Max`, `Min`, `Rate`, `WindowedCount`, `CumulativeSum`), all of one sensor at once. Reading changes nothing, so any
thread may do it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

NAN = math.nan
# A rate needs a time to refer to: a millisecond at least, as in Kafka.
_SHORTEST = 0.001
_HOUR = 3600.0


class MetricConfig(NamedTuple):
    """How many samples make the window, and how many seconds each of them takes."""

    samples: int = 2
    time_window: float = 30.0


DEFAULT = MetricConfig()


class _Sample:
    """What was recorded between `began` and `last`, the times of the first and the latest value."""

    __slots__ = ("began", "count", "last", "maximum", "minimum", "total")

    def __init__(self, now: float) -> None:
        self.began = self.last = now
        self.count = 0
        self.total = 0.0
        self.maximum = -math.inf
        self.minimum = math.inf


class Statistic:
    """Values with the time when each was recorded. Belongs to one thread, any may read; times are in seconds."""

    __slots__ = ("_config", "_current", "_length", "_samples")

    def __init__(self, config: MetricConfig = DEFAULT) -> None:
        self._config = config
        self._length = config.time_window
        # Complete before there is one, so that recording asks one question only.
        self._current = _Sample(-math.inf)
        # Number and sum of what has left the samples, and the samples; replaced as a whole, for who reads meanwhile.
        self._samples: tuple[int, float, tuple[_Sample, ...]] = (0, 0.0, ())

    def record(self, value: float, now: float) -> None:
        """Count one value."""
        sample = self._current
        if now - sample.began >= self._length:
            sample = self._advance(now)
        sample.last = now
        if value > sample.maximum:
            sample.maximum = value
        if value < sample.minimum:
            sample.minimum = value
        sample.total += value
        # Last, so that no reader in between finds a value counted and no maximum.
        sample.count += 1

    def record_many(self, count: int, total: float, minimum: float, maximum: float, now: float) -> None:
        """Count several values at once, by their sum, the least and the greatest of them."""
        if not count:
            return
        sample = self._current
        if now - sample.began >= self._length:
            sample = self._advance(now)
        sample.last = now
        sample.maximum = max(maximum, sample.maximum)
        sample.minimum = min(minimum, sample.minimum)
        sample.total += total
        sample.count += count

    def _advance(self, now: float) -> _Sample:
        count, total, samples = self._samples
        # One more than make the window: the oldest mostly overlaps its beginning.
        if len(samples) > self._config.samples:
            count += samples[0].count
            total += samples[0].total
            samples = samples[1:]
        self._current = sample = _Sample(now)
        self._samples = (count, total, (*samples, sample))
        return sample

    def at(self, now: float) -> Reading:
        """Return what is to be said of the values at this time."""
        return Reading.of((self,), now)

    @property
    def config(self) -> MetricConfig:
        """The window."""
        return self._config

    @property
    def samples(self) -> tuple[int, float, tuple[_Sample, ...]]:
        """Count and sum of what is too old for the window, and the samples from the oldest."""
        return self._samples


class Reading(NamedTuple):
    """Statistics at one moment: number and sum of all values ever, the others of those in the window.

    The average, the maximum and the minimum of nothing are not a number; its rate is 0.
    """

    events: int
    total: float
    recent_events: int
    recent_total: float
    maximum: float
    minimum: float
    #: The time that rates refer to, in seconds.
    seconds: float

    @classmethod
    def of(cls, statistics: Iterable[Statistic], now: float) -> Reading:
        """One reading of all values of several statistics, whose windows are alike."""
        events, total, config = 0, 0.0, DEFAULT
        recent_events, recent_total, began = 0, 0.0, now
        maximum, minimum = -math.inf, math.inf
        for statistic in statistics:
            config = statistic.config
            length = config.samples * config.time_window
            old_events, old_total, samples = statistic.samples
            events += old_events
            total += old_total
            for sample in samples:
                events += sample.count
                total += sample.total
                if now - sample.last < length:
                    recent_events += sample.count
                    recent_total += sample.total
                    began = min(began, sample.began)
                    maximum = max(maximum, sample.maximum)
                    minimum = min(minimum, sample.minimum)
        if not recent_events:
            maximum = minimum = NAN
        return cls(events, total, recent_events, recent_total, maximum, minimum, _seconds(now - began, config))

    @property
    def average(self) -> float:
        """The mean of the values in the window."""
        return self.recent_total / self.recent_events if self.recent_events else NAN

    def averaged(self, name: str) -> dict[str, float]:
        """Average and maximum, under `<name>-avg` and `<name>-max`."""
        return {f"{name}-avg": self.average, f"{name}-max": self.maximum}

    def metered(self, name: str) -> dict[str, float]:
        """Return the sum, by second and in all, under `<name>-rate` and `<name>-total`."""
        return {f"{name}-rate": self.recent_total / self.seconds, f"{name}-total": self.total}

    def counted(self, name: str) -> dict[str, float]:
        """How many values there were, by second and in all, under `<name>-rate` and `<name>-total`."""
        return {f"{name}-rate": self.recent_events / self.seconds, f"{name}-total": self.events}

    def counted_per_hour(self, name: str) -> dict[str, float]:
        """How many values there were, by hour and in all, under `<name>-rate-per-hour` and `<name>-total`."""
        return {f"{name}-rate-per-hour": self.recent_events * _HOUR / self.seconds, f"{name}-total": self.events}


def _seconds(elapsed: float, config: MetricConfig) -> float:
    """Return the time that a rate refers to, when the oldest sample in the window began so long ago.

    All samples but the newest count as if they had passed, or what comes in a client's first second would be taken for
    what it does all the time.
    """
    if config.time_window:
        passed = int(elapsed / config.time_window)
        elapsed += max(0, config.samples - 1 - passed) * config.time_window
    return max(elapsed, _SHORTEST)


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
