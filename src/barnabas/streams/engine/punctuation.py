"""Punctuators that wait for their time. Source: Kafka's PunctuationQueue and PunctuationSchedule."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from barnabas.streams.topology.processor_api import Punctuator

if TYPE_CHECKING:
    from barnabas.streams.engine.task_node import TaskNode


class Schedule:
    """A punctuator of a node, and when it is due next; cancelling it takes effect at once."""

    __slots__ = ("cancelled", "interval_ms", "node", "punctuator", "time")

    def __init__(self, node: TaskNode, time: int, interval_ms: int, punctuator: Punctuator) -> None:
        self.node = node
        self.time = time
        self.interval_ms = interval_ms
        self.punctuator = punctuator
        self.cancelled = False

    def cancel(self) -> None:
        """Call the punctuator no more."""
        self.cancelled = True

    def advance(self, now: int) -> None:
        """Set the next time, which lies after `now`; times that were missed are left out."""
        self.time += self.interval_ms
        if now >= self.time:
            self.time += ((now - self.time) // self.interval_ms + 1) * self.interval_ms


class PunctuationQueue:
    """Schedules by their time; those of the same time in the order in which they were added."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, Schedule]] = []
        self._added = 0

    def add(self, schedule: Schedule) -> Schedule:
        """Add a schedule."""
        self._added += 1
        heappush(self._queue, (schedule.time, self._added, schedule))
        return schedule

    def __len__(self) -> int:
        return len(self._queue)

    def next_time(self) -> int | None:
        """Return when the next schedule is due; None when there is none."""
        while self._queue and self._queue[0][2].cancelled:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def punctuate(self, now: int, call: Callable[[Schedule, int], None]) -> bool:
        """Call what is due at a time in milliseconds; tell whether there was anything."""
        called = False
        while self._queue and self._queue[0][0] <= now:
            schedule = heappop(self._queue)[2]
            if schedule.cancelled:
                continue
            call(schedule, now)
            called = True
            if not schedule.cancelled:
                schedule.advance(now)
                self.add(schedule)
        return called

    def schedules(self) -> list[Schedule]:
        """Return the schedules that are not cancelled, in the order in which they were added."""
        return [found for _, _, found in sorted(self._queue, key=lambda entry: entry[1]) if not found.cancelled]

    def restore_times(self, times: list[int]) -> None:
        """Set when the schedules, in the order in which they were added, are due next."""
        schedules = self.schedules()
        self._queue.clear()
        for position, schedule in enumerate(schedules):
            if position < len(times):
                schedule.time = times[position]
            self.add(schedule)
