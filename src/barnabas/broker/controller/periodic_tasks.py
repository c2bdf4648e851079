"""What an active controller does by the clock (PeriodicTaskControlManager)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from barnabas.broker.controller.controller_result import ControllerResult
    from barnabas.broker.instant import Instant

#: How soon a task that has more to do is run again, and one that has failed, in seconds.
_IMMEDIATELY, _AFTER_ERROR = 0.01, 300.0


class PeriodicTask(NamedTuple):
    """A task with its period in seconds; the response of its result: whether it has more to do at once."""

    name: str
    run: Callable[[Instant], ControllerResult[bool]]
    period: float


class PeriodicTasks:
    """Runs tasks when they are due.

    `write(task, now)` writes what a task gives, and gives its response; None if it failed.
    """

    def __init__(self, tasks: Sequence[PeriodicTask], write: Callable[[PeriodicTask, Instant], bool | None]) -> None:
        self._tasks = tasks
        self._write = write
        self._due: dict[str, float] = {}

    def activate(self, now: float) -> None:
        """Begin; each task has its first turn after its period."""
        self._due = {task.name: now + task.period for task in self._tasks}

    def deactivate(self) -> None:
        """Stop."""
        self._due = {}

    def next_deadline(self) -> float:
        """When the next task is due; infinity while this controller is not active."""
        return min(self._due.values(), default=inf)

    def tick(self, now: Instant) -> None:
        """Run what is due."""
        for task in self._tasks:
            if self._due.get(task.name, inf) > now.now:
                continue
            has_more = self._write(task, now)
            if task.name in self._due:  # else this controller has lost its leadership by what it wrote
                delay = _AFTER_ERROR if has_more is None else _IMMEDIATELY if has_more else task.period
                self._due[task.name] = now.now + delay
