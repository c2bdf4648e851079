# cython: language_level=3, annotation_typing=False
"""When final results of windows are emitted (KIP-825): not more often than an interval of the wall clock.

C types are in `emit_on_close.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import Any

EMIT_INTERVAL_AGGREGATION = "__emit.interval.ms.kstreams.windowed.aggregation__"
EMIT_INTERVAL_OUTER_JOIN = "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"

MAX_LONG = 2**63 - 1


@cython.cclass
class TimeTracker:
    """Stream time of an operator, and when it may emit next; all in milliseconds."""

    if not cython.compiled:
        __slots__ = ("emit_interval_ms", "min_time", "next_time_to_emit", "stream_time")

    def __init__(self) -> None:
        self.emit_interval_ms = 1000
        self.stream_time = -1
        self.min_time = MAX_LONG
        self.next_time_to_emit = 0

    def advance_stream_time(self, timestamp: int) -> None:
        """Take the time of a record."""
        if timestamp > self.stream_time:
            self.stream_time = timestamp

    def update_min_time(self, timestamp: int) -> None:
        """Take the time of a record that waits."""
        if timestamp < self.min_time:
            self.min_time = timestamp

    def may_emit(self, now_ms: int) -> bool:
        """Tell whether it is time to emit; if so, the next time is an interval later."""
        if now_ms < self.next_time_to_emit:
            return False
        self.next_time_to_emit = now_ms + self.emit_interval_ms
        return True

    def state(self) -> dict[str, int]:
        """Return what a task keeps of it."""
        return {
            "stream_time": self.stream_time,
            "min_time": self.min_time,
            "next_time_to_emit": self.next_time_to_emit,
        }

    def restore(self, state: dict[str, int]) -> None:
        """Take what `state` returned."""
        self.stream_time = state["stream_time"]
        self.min_time = state["min_time"]
        self.next_time_to_emit = state["next_time_to_emit"]


def emit_interval_ms(context: Any, setting: str) -> int:
    """Return an internal setting of Kafka's: how often an operator emits at most, 1,000 unless set."""
    return int(context.app_configs().get(setting, 1000))


class TimeTrackerSupplier:
    """Gives both sides of a join of streams the same tracker, one for each task."""

    def __init__(self, make: Callable[[], TimeTracker] = TimeTracker) -> None:
        self._make = make
        self._trackers: dict[Any, TimeTracker] = {}

    def get(self, context: Any) -> TimeTracker:
        """Return the tracker of the task whose context it is."""
        return self._trackers.setdefault(id(context.task), self._make())

    def remove(self, context: Any) -> None:
        """Forget the tracker of a task."""
        self._trackers.pop(id(context.task), None)
