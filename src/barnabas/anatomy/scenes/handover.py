"""The Handover of Spark's tasks: its one slot between two threads, and the five cases that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.spark_source import SparkSourceScene

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OWN = events.RangeBegun | events.HandoverMoved | events.RowsDecoded
#: The cases in which a thread waits or a batch is not handed over, with the colour that each has once it was seen.
CASES = {"poll_waits": "moving", "produce_waits": "moving", "woken": "retrying", "failed": "bad", "closed": "split"}
#: What the lanes of the task's own scene are that are shown here, too.
_SHOWN = ("consumer_thread", "handover", "fetcher")


class _Case(NamedTuple):
    times: int = 0
    task: int = 0
    error: str = ""


class HandoverScene:
    """All tasks of a process, one after the other: the slot of the one that moved last, and how often each case was."""

    def __init__(self, subject: str) -> None:
        self._task: SparkSourceScene | None = None
        self._number = -1
        self._seen = dict.fromkeys(CASES, _Case())
        self._handed_over = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the one subject that there is: the tasks."""
        return "tasks" if isinstance(event, events.HandoverMoved) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, _OWN):
            return False
        if event.task != self._number or self._task is None:
            self._number, self._task = event.task, SparkSourceScene(str(event.task))
        self._task.apply(event)
        if isinstance(event, events.HandoverMoved):
            self._handed_over += event.case == "taken"
            if event.case in CASES:
                self._seen[event.case] = _Case(self._seen[event.case].times + 1, event.task, event.error)
        return True

    def picture(self) -> Picture:
        """See `Scene`."""
        own = {} if self._task is None else {one.title: one for one in self._task.picture().lanes}
        return picture(
            (
                *(own[title]._replace(of={}) for title in _SHOWN if title in own),
                lane("handover_five", map(self._box, CASES), taken=self._handed_over),
            )
        )

    def _box(self, case: str) -> Box:
        times, task, error = self._seen[case]
        facts: Facts = {"times": times, **({"task": task} if times else {}), **({"error": error} if error else {})}
        return Box(f"five {case}", case.replace("_", " "), CASES[case] if times else "waiting", facts)
