"""How many records this node appends and fetches, and how long commits take (KafkaRaftMetrics).

Rates and times are those of the last minute, in two windows, as Kafka has them.
"""

from __future__ import annotations

from collections import deque

_WINDOW = 30.0
_WINDOWS = 2


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("began", "count", "largest", "total")

    def __init__(self, began: float) -> None:
        self.began = began
        self.count = 0
        self.total = self.largest = 0.0


class RecentValues:
    """Values of the last minute."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
        self._samples: deque[_Sample] = deque()

    def record(self, value: float, now: float) -> None:
        """Take a value, at a time of the monotonic clock."""
        self._forget(now)
        if not self._samples or now - self._samples[-1].began >= _WINDOW:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.largest = max(sample.largest, value)

    def _forget(self, now: float) -> None:
        while self._samples and now - self._samples[0].began >= _WINDOW * _WINDOWS:
            self._samples.popleft()

    def per_second(self, now: float) -> float:
        """Return the sum by the second; as if a window had passed already while it is the first."""
        self._forget(now)
        if not self._samples:
            return 0.0
        elapsed = now - self._samples[0].began
        elapsed += max(0, _WINDOWS - 1 - int(elapsed / _WINDOW)) * _WINDOW
        return sum(sample.total for sample in self._samples) / elapsed

    def average(self, now: float) -> float:
        """Return the average, 0 where there is no value."""
        self._forget(now)
        count = sum(sample.count for sample in self._samples)
        return sum(sample.total for sample in self._samples) / count if count else 0.0

    def largest(self, now: float) -> float:
        """Return the largest value, 0 where there is none."""
        self._forget(now)
        return max((sample.largest for sample in self._samples), default=0.0)


class RaftCounts:
    """What one node of the quorum counts of its log."""

    __slots__ = ("_uncommitted", "appended", "commits", "fetched")

    def __init__(self) -> None:
        self.appended, self.fetched = RecentValues(), RecentValues()
        #: Seconds from append to commit, divided by the records of the append, as Kafka counts them.
        self.commits = RecentValues()
        #: End offset, time and number of records of each append of this leader.
        self._uncommitted: deque[tuple[int, float, int]] = deque()

    def append(self, end_offset: int, records: int, now: float) -> None:
        """Take note that the leader has appended records."""
        self.appended.record(records, now)
        self._uncommitted.append((end_offset, now, records))

    def commit(self, high_watermark: int | None, now: float) -> None:
        """Take note of what is committed; None: this node leads no more, and does not hear of its own appends."""
        if high_watermark is None:
            self._uncommitted.clear()
            return
        while self._uncommitted and self._uncommitted[0][0] <= high_watermark:
            _, appended_at, records = self._uncommitted.popleft()
            self.commits.record((now - appended_at) / records, now)
