# cython: language_level=3, annotation_typing=False
"""Punctuators that wait for their time. Source: Kafka's PunctuationQueue and PunctuationSchedule.

C types are in `punctuation.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.streams.engine.time_heap import TimeHeap
from barnabas.streams.topology.processor_api import Punctuator

if TYPE_CHECKING:
    from barnabas.streams.engine.task_node import TaskNode


class Schedule:
    """A punctuator of a node, and when it is due next; cancelling it takes effect at once."""

    __slots__ = ("cancelled", "interval_ms", "node", "number", "punctuator", "time")

    def __init__(self, node: TaskNode, time: int, interval_ms: int, punctuator: Punctuator) -> None:
        self.node = node
        self.time = time
        self.interval_ms = interval_ms
        self.punctuator = punctuator
        self.cancelled = False
        self.number = -1

    def cancel(self) -> None:
        """Call the punctuator no more."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Set the next time, which lies after `now`; times that were missed are left out."""
        self.time += self.interval_ms
        if now >= self.time:
            self.time += ((now - self.time) // self.interval_ms + 1) * self.interval_ms


@cython.final
@cython.cclass
class PunctuationQueue:
    """Schedules by their time; those of the same time in the order of Kafka's queue."""

    def __init__(self) -> None:
        self._queue: TimeHeap[Schedule] = TimeHeap()
        self._added = 0

    def add(self, schedule: Schedule) -> Schedule:
        """Add a schedule that is new."""
        schedule.number = self._added
        self._added += 1
        self._queue.push(schedule.time, schedule)
        return schedule

    def is_empty(self) -> bool:
        """Tell whether nothing was scheduled."""
        return not self._queue.heap

    def next_time(self) -> int | None:
        """Return when the next schedule is due; None when there is none."""
        queue = self._queue
        while queue.heap and queue.heap[0][1].cancelled:
            queue.pop()
        return queue.heap[0][0] if queue.heap else None

    def punctuate(self, now: int, call: Callable[[Schedule, int], None]) -> bool:
        """Call what is due at a time in milliseconds; tell whether there was anything."""
        called = False
        queue = self._queue
        while queue.heap and queue.heap[0][0] <= now:
            schedule = queue.pop()
            if schedule.cancelled:
                continue
            call(schedule, now)
            called = True
            if not schedule.cancelled:
                schedule.advance(now)
                queue.push(schedule.time, schedule)
        return called

    def schedules(self) -> list[Schedule]:
        """Return the schedules that are not cancelled."""
        return [found for _, found in self._queue.heap if not found.cancelled]

    def times(self) -> list[tuple[int, int]]:
        """Return the numbers of the schedules, in the order in which they were added, and their times.

        They stand as in the queue, so that those of one time follow one another as here where they are restored.
        """
        return [(found.number, found.time) for found in self.schedules()]

    def restore_times(self, times: Iterable[tuple[int, int]]) -> None:
        """Take what `times` returned, for the schedules that are here."""
        waiting = {found.number: found for found in self.schedules()}
        self._queue = TimeHeap()
        for number, time in times:
            if schedule := waiting.pop(number, None):
                schedule.time = time
                self._queue.push(time, schedule)
        for schedule in waiting.values():
            self._queue.push(schedule.time, schedule)
