"""A task of Spark's source: its ranges, the thread that polls, the one slot of the Handover, and the task's thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OWN = events.RangeBegun | events.HandoverMoved | events.RowsDecoded
#: Case → what the consumer thread does, what lies in the slot, and what the task's thread does; None: as before.
_CASES: dict[str, tuple[str | None, bool | None, str | None]] = {
    "produce_waits": ("waits for the slot", True, None),
    "produced": ("polls", True, None),
    "poll_waits": (None, False, "waits for a batch"),
    "taken": (None, False, "decodes"),
    "woken": ("holds its batch", None, None),
    "failed": ("has ended", False, None),
    "closed": ("has ended", False, "has ended"),
}
_KINDS = {"polls": "moving", "decodes": "moving", "has ended": "split"}


class SparkSourceScene:
    """One task, by its number."""

    def __init__(self, subject: str) -> None:
        self._task = subject
        # Partition → start, end, position.
        self._ranges: dict[str, tuple[int, int, int]] = {}
        self._producer, self._consumer, self._is_full = "polls", "begins", False
        self._error = ""
        self._batches = self._rows = 0
        self._cases: deque[Box] = deque(maxlen=LAST)
        self._count = 0

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the task's number."""
        return str(event.task) if isinstance(event, _OWN) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, _OWN) or str(event.task) != self._task:
            return False
        if isinstance(event, events.HandoverMoved):
            self._apply_case(event)
            return True
        name = f"{event.topic}-{event.partition}"
        if isinstance(event, events.RangeBegun):
            self._ranges[name] = event.start, event.end, event.start
        else:
            start, end, _ = self._ranges.get(name, (event.position - event.rows, event.position, 0))
            self._ranges[name] = start, end, event.position
            self._rows += event.rows
        return True

    def _apply_case(self, event: events.HandoverMoved) -> None:
        producer, is_full, consumer = _CASES.get(event.case, (None, None, None))
        self._producer = producer or self._producer
        self._consumer = consumer or self._consumer
        self._is_full = self._is_full if is_full is None else is_full
        self._error = event.error or self._error
        self._batches += event.case == "produced"
        self._count += 1
        kind = {"failed": "bad", "woken": "retrying", "closed": "split"}.get(event.case, "done")
        facts: Facts = {"error": event.error} if event.error else {}
        self._cases.appendleft(Box(f"case {self._count}", event.case.replace("_", " "), kind, facts))

    def picture(self) -> Picture:
        """See `Scene`."""
        slot = [Box(f"batch {self._batches}", f"#{self._batches}", "open", {})] if self._is_full else []
        thread: Facts = {"error": self._error} if self._error else {}
        return picture(
            (
                lane("ranges", self._range_boxes(), task=self._task),
                lane("consumer_thread", (_thread("thread", self._producer, thread),)),
                lane("handover", slot),
                lane("fetcher", (_thread("fetcher", self._consumer, {"rows": self._rows}),)),
                lane("handover_cases", self._cases),
            )
        )

    def _range_boxes(self) -> Iterator[Box]:
        for name, (start, end, position) in sorted(self._ranges.items()):
            facts = {"start": start, "position": position, "end": end}
            share = min(1.0, (position - start) / (end - start)) if end > start else 1.0
            yield Box(f"range {name}", name, "good" if position >= end else "moving", facts, share)


def _thread(key: str, does: str, facts: Facts) -> Box:
    return Box(key, does, _KINDS.get(does, "waiting"), facts)
