"""Windows: which spans of time a record belongs to. Durations are timedeltas, milliseconds or keywords.

`TimeWindows.of_size(minutes=5).advance_by(minutes=1).with_grace(seconds=30)`; Kafka's longer names are there too.
Source: Kafka's package `kstream`; KIP-633 for grace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from barnabas.streams.durations import Duration, as_ms, given_ms, point_ms
from barnabas.streams.windowed import UnlimitedWindow, Window, time_windows


class Windows:
    """Windows of a fixed size, by a rule of yours: a subclass has `windows_for`, and what is below it."""

    #: How long each window lasts, and how long after its end it takes records; in milliseconds.
    size_ms: int
    grace_period_ms: int

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Return the windows that a timestamp belongs to, by their start: `TimeWindow`s of `size_ms`."""
        raise NotImplementedError(f"{type(self).__name__} has no windows_for")


@dataclass(frozen=True)
class TimeWindows(Windows):
    """Windows of a fixed size, one after the other (tumbling), or overlapping (hopping: `advance_by`).

    Raises ValueError for a size or advance that is not positive, an advance beyond the size, or negative grace.
    """

    size_ms: int
    advance_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        if self.size_ms <= 0:
            raise ValueError("Window size (sizeMs) must be larger than zero.")
        if self.advance_ms <= 0 or self.advance_ms > self.size_ms:
            raise ValueError(
                "Window advancement interval should be more than zero and less than window duration which is "
                f"{self.size_ms} ms, but given advancement interval is: {self.advance_ms} ms"
            )
        if self.grace_period_ms < 0:
            raise ValueError("Grace period must not be negative.")

    @staticmethod
    def of_size(size: Duration | None = None, **units: float) -> TimeWindows:
        """Return tumbling windows without grace; `with_grace` and `advance_by` make others of them."""
        size_ms = given_ms(size, "size", units)
        return TimeWindows(size_ms, size_ms)

    @staticmethod
    def of_size_with_no_grace(size: Duration) -> TimeWindows:
        """Return tumbling windows that take no record after their end."""
        return TimeWindows.of_size(size)

    @staticmethod
    def of_size_and_grace(size: Duration, after_window_end: Duration) -> TimeWindows:
        """Return tumbling windows that take late records for a time."""
        return TimeWindows.of_size(size).with_grace(as_ms(after_window_end, "after_window_end"))

    def advance_by(self, advance: Duration | None = None, **units: float) -> TimeWindows:
        """Return hopping windows, one of which begins at each `advance`."""
        return replace(self, advance_ms=given_ms(advance, "advance", units))

    def with_grace(self, after_window_end: Duration | None = None, **units: float) -> TimeWindows:
        """Return windows that take late records for a time after their end."""
        return replace(self, grace_period_ms=given_ms(after_window_end, "after_window_end", units))

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Return the windows that a timestamp belongs to, by their start."""
        return {window.start: window for window in time_windows(timestamp, self.size_ms, self.advance_ms)}


@dataclass(frozen=True)
class UnlimitedWindows(Windows):
    """One window from a start without an end."""

    start_ms: int = 0

    size_ms = 2**63 - 1
    grace_period_ms = 0

    @staticmethod
    def of() -> UnlimitedWindows:
        """Return the window from the epoch on."""
        return UnlimitedWindows()

    def start_on(self, start: datetime | int) -> UnlimitedWindows:
        """Return the window from a time on, a datetime or milliseconds. Raises ValueError before the epoch."""
        ms = point_ms(start, "start")
        if ms < 0:
            raise ValueError("Window start time (startMs) cannot be negative.")
        return UnlimitedWindows(ms)

    def windows_for(self, timestamp: int) -> dict[int, Window]:
        """Return the window when a timestamp belongs to it."""
        return {self.start_ms: UnlimitedWindow(self.start_ms)} if timestamp >= self.start_ms else {}


@dataclass(frozen=True)
class SlidingWindows:
    """A window around each record: all records whose timestamps differ by at most `time_difference_ms` (KIP-450).

    Raises ValueError for negative times.
    """

    time_difference_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        if self.time_difference_ms < 0:
            raise ValueError("Window time difference must not be negative.")
        if self.grace_period_ms < 0:
            raise ValueError("Window grace period must not be negative.")

    @staticmethod
    def of_time_difference(time_difference: Duration | None = None, **units: float) -> SlidingWindows:
        """Return windows without grace; `with_grace` makes others of them."""
        return SlidingWindows(given_ms(time_difference, "time_difference", units))

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> SlidingWindows:
        """Return windows that take no record after their end."""
        return SlidingWindows(as_ms(time_difference, "time_difference"))

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> SlidingWindows:
        """Return windows that take late records for a time."""
        return SlidingWindows(as_ms(time_difference, "time_difference"), as_ms(after_window_end, "after_window_end"))

    def with_grace(self, after_window_end: Duration | None = None, **units: float) -> SlidingWindows:
        """Return windows that take late records for a time after their end."""
        return replace(self, grace_period_ms=given_ms(after_window_end, "after_window_end", units))


@dataclass(frozen=True)
class SessionWindows:
    """Sessions of a key: they end when nothing came for `inactivity_gap_ms`. Raises ValueError for negative times."""

    inactivity_gap_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        if self.inactivity_gap_ms < 0:
            raise ValueError("Gap time cannot be negative.")
        if self.grace_period_ms < 0:
            raise ValueError("Grace period cannot be negative.")

    @staticmethod
    def of_inactivity_gap(inactivity_gap: Duration | None = None, **units: float) -> SessionWindows:
        """Return sessions without grace; `with_grace` makes others of them."""
        return SessionWindows(given_ms(inactivity_gap, "inactivity_gap", units))

    @staticmethod
    def of_inactivity_gap_with_no_grace(inactivity_gap: Duration) -> SessionWindows:
        """Return sessions that take no record after their end."""
        return SessionWindows(as_ms(inactivity_gap, "inactivity_gap"))

    @staticmethod
    def of_inactivity_gap_and_grace(inactivity_gap: Duration, after_window_end: Duration) -> SessionWindows:
        """Return sessions that take late records for a time."""
        return SessionWindows(as_ms(inactivity_gap, "inactivity_gap"), as_ms(after_window_end, "after_window_end"))

    def with_grace(self, after_window_end: Duration | None = None, **units: float) -> SessionWindows:
        """Return sessions that take late records for a time after their end."""
        return replace(self, grace_period_ms=given_ms(after_window_end, "after_window_end", units))


@dataclass(frozen=True)
class JoinWindows:
    """How far apart two records of a stream-stream join may be. Raises ValueError for what is negative.

    The other record may be `before_ms` older up to `after_ms` younger than this one.
    """

    before_ms: int
    after_ms: int
    grace_period_ms: int = 0

    def __post_init__(self) -> None:
        if self.before_ms + self.after_ms < 0:
            raise ValueError("Window interval (ie, beforeMs+afterMs) must not be negative.")
        if self.grace_period_ms < 0:
            raise ValueError("Grace period must not be negative.")

    @staticmethod
    def of_time_difference(time_difference: Duration | None = None, **units: float) -> JoinWindows:
        """Return windows of both directions without grace; `with_grace`, `before`, `after` make others of them."""
        difference_ms = given_ms(time_difference, "time_difference", units)
        return JoinWindows(difference_ms, difference_ms)

    @staticmethod
    def of_time_difference_with_no_grace(time_difference: Duration) -> JoinWindows:
        """Return windows that take no record after their end."""
        return JoinWindows.of_time_difference(time_difference)

    @staticmethod
    def of_time_difference_and_grace(time_difference: Duration, after_window_end: Duration) -> JoinWindows:
        """Return windows that take late records for a time."""
        return JoinWindows.of_time_difference(time_difference).with_grace(as_ms(after_window_end, "after_window_end"))

    def before(self, time_difference: Duration | None = None, **units: float) -> JoinWindows:
        """Return windows in which the other record may be this much older."""
        return replace(self, before_ms=given_ms(time_difference, "time_difference", units))

    def after(self, time_difference: Duration | None = None, **units: float) -> JoinWindows:
        """Return windows in which the other record may be this much younger."""
        return replace(self, after_ms=given_ms(time_difference, "time_difference", units))

    def with_grace(self, after_window_end: Duration | None = None, **units: float) -> JoinWindows:
        """Return windows that take late records for a time after their end."""
        return replace(self, grace_period_ms=given_ms(after_window_end, "after_window_end", units))

    @property
    def size_ms(self) -> int:
        """How long a window is."""
        return self.before_ms + self.after_ms
