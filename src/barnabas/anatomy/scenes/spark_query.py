"""A query of Spark: the driver plans micro-batches of offsets, tasks read them, the checkpoint says what is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event


class _Range(NamedTuple):
    """Offsets of a partition in the micro-batch, how far they are decoded, and by which task; 0 before one began."""

    start: int
    end: int
    position: int
    task: int = 0


class SparkQueryScene:
    """One query, by its group. Its tasks tell no query's name: they are those that read what it has planned."""

    def __init__(self, subject: str) -> None:
        self._query = subject
        self._batch = 0
        self._ranges: dict[str, _Range] = {}
        self._ended: dict[str, int] = {}
        self._batches: deque[Box] = deque(maxlen=LAST)

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the query's group."""
        return event.query if isinstance(event, events.MicroBatchPlanned | events.MicroBatchEnded) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.RangeBegun | events.RowsDecoded):
            return self._read(f"{event.topic}-{event.partition}", event)
        if not isinstance(event, events.MicroBatchPlanned | events.MicroBatchEnded) or event.query != self._query:
            return False
        name = f"{event.topic}-{event.partition}"
        if isinstance(event, events.MicroBatchPlanned):
            if event.batch != self._batch:
                self._batch, self._ranges = event.batch, {}
                self._batches.appendleft(Box(f"micro-batch {event.batch}", f"#{event.batch}", "moving", {}))
            self._ranges[name] = _Range(event.start, event.end, event.start)
            self._note("moving")
        else:
            self._ended[name] = event.offset
            if all(self._ended.get(known, -1) >= found.end for known, found in self._ranges.items()):
                self._note("good")
        return True

    def _note(self, kind: str) -> None:
        if self._batches:
            offsets = sum(found.end - found.start for found in self._ranges.values())
            facts: Facts = {"partitions": len(self._ranges), "offsets": offsets}
            self._batches[0] = self._batches[0]._replace(kind=kind, facts=facts)

    def _read(self, name: str, event: events.RangeBegun | events.RowsDecoded) -> bool:
        found = self._ranges.get(name)
        if found is None:
            return False
        if isinstance(event, events.RangeBegun):
            if not found.start <= event.start <= event.end <= found.end:
                return False
            self._ranges[name] = found._replace(task=event.task)
        else:
            if event.task != found.task:
                return False
            self._ranges[name] = found._replace(position=event.position)
        return True

    def picture(self) -> Picture:
        """See `Scene`."""
        done = [Box(f"checkpoint {name}", name, "good", {"offset": at}) for name, at in sorted(self._ended.items())]
        return picture(
            (
                lane("planned", self._range_boxes(), query=self._query),
                lane("query_tasks", self._task_boxes()),
                lane("checkpointed", done),
                lane("query_batches", self._batches),
            )
        )

    def _range_boxes(self) -> Iterator[Box]:
        for name, found in sorted(self._ranges.items()):
            is_done = found.position >= found.end
            kind = "good" if is_done else "moving" if found.task else "open"
            share = (found.position - found.start) / (found.end - found.start) if found.end > found.start else 1.0
            facts = {"start": found.start, "position": found.position, "end": found.end}
            yield Box(f"planned {name}", name, kind, facts, min(1.0, share))

    def _task_boxes(self) -> Iterator[Box]:
        tasks: dict[int, list[_Range]] = {}
        for found in self._ranges.values():
            if found.task:
                tasks.setdefault(found.task, []).append(found)
        for task, ranges in sorted(tasks.items()):
            rows = sum(found.position - found.start for found in ranges)
            is_done = all(found.position >= found.end for found in ranges)
            yield Box(
                f"task {task}",
                f"task {task}",
                "good" if is_done else "moving",
                {"partitions": len(ranges), "offsets": rows},
            )
