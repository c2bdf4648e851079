"""Count, sum and maximum of values, for the metrics of the clients."""

from __future__ import annotations

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
