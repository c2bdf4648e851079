"""A task of a streams application on Spark: the steps of a batch, its source and sink nodes, its stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OWN = events.StreamsTaskStep | events.StreamsTaskCounted | events.StoreRestored
#: The steps with which a batch is over.
_LAST_STEPS = {"computed": "good", "decided": "split"}
_STORE_KINDS = {"end": "good", "suspended": "bad"}


class StreamsTaskScene:
    """One task, by application and task id, such as `counts 0_1`."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._batch = -1
        self._steps: list[str] = []
        self._stream_time = -1
        # Way → node and topic → records, bytes in this batch.
        self._counts: dict[str, dict[tuple[str, str], tuple[int, int]]] = {"consumed": {}, "produced": {}}
        self._stores: dict[str, Box] = {}
        self._batches: deque[Box] = deque(maxlen=LAST)

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return application and task id."""
        return f"{event.application} {event.task}" if isinstance(event, _OWN) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if not isinstance(event, _OWN) or self.subject_of(event) != self._subject:
            return False
        if isinstance(event, events.StreamsTaskStep):
            self._apply_step(event)
        elif isinstance(event, events.StreamsTaskCounted):
            self._counts.setdefault(event.way, {})[event.node, event.topic] = event.records, event.size
        else:
            share = event.position / event.end if event.end > 0 else 1.0
            facts: Facts = {"position": event.position, "end": event.end}
            kind = _STORE_KINDS.get(event.case, "moving")
            self._stores[event.store] = Box(f"store {event.store}", event.store, kind, facts, min(1.0, share))
        return True

    def _apply_step(self, event: events.StreamsTaskStep) -> None:
        # An attempt that is repeated begins with the same step again.
        if event.batch != self._batch or event.step == "read_decision":
            self._batch, self._steps = event.batch, []
            self._counts = {"consumed": {}, "produced": {}}
        self._steps.append(event.step)
        self._stream_time = max(self._stream_time, event.stream_time)
        if event.step in _LAST_STEPS:
            facts: Facts = {way: _records(found) for way, found in self._counts.items()}
            label = f"#{event.batch}"
            self._batches.appendleft(Box(f"batch {event.batch}", label, _LAST_STEPS[event.step], facts))

    def picture(self) -> Picture:
        """See `Scene`."""
        return picture(
            (
                lane("streams_steps", self._step_boxes(), batch=self._batch),
                lane("streams_sources", self._node_boxes("consumed")),
                lane("streams_stores", [self._stores[name] for name in sorted(self._stores)]),
                lane("streams_sinks", self._node_boxes("produced")),
                lane("streams_batches", self._batches),
            )
        )

    def _step_boxes(self) -> Iterator[Box]:
        for number, step in enumerate(self._steps):
            kind = _LAST_STEPS.get(step, "moving" if number == len(self._steps) - 1 else "done")
            is_timed = step == "computed" and self._stream_time >= 0
            facts: Facts = {"stream_time": self._stream_time} if is_timed else {}
            yield Box(f"step {self._batch} {number}", step.replace("_", " "), kind, facts)

    def _node_boxes(self, way: str) -> Iterator[Box]:
        for (node, topic), (records, size) in sorted(self._counts[way].items()):
            facts: Facts = {"topic": topic, "records": records, "size": size}
            yield Box(f"{way} {node} {topic}", node or topic, "moving", facts)


def _records(counts: Mapping[tuple[str, str], tuple[int, int]]) -> int:
    return sum(records for records, _ in counts.values())
