"""How long elections took in which this node was a nominee (KafkaRaftMetrics)."""

from __future__ import annotations


class ElectionTimes:
    """Times from the first pre-vote that this node asked for to a leader, itself or another, in seconds."""

    __slots__ = ("_began", "count", "longest", "total")

    def __init__(self) -> None:
        self._began: float | None = None
        self.count = 0
        self.total = 0.0
        self.longest = 0.0

    def begin(self, now: float) -> None:
        """Take note that this node asks for votes; it may ask several times before there is a leader."""
        if self._began is None:
            self._began = now

    def end(self, now: float) -> None:
        """Take note that there is a leader."""
        if self._began is None:
            return
        seconds, self._began = now - self._began, None
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    @property
    def average(self) -> float:
        """The average; 0 where there was none."""
        return self.total / self.count if self.count else 0.0
