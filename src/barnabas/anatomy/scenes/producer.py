"""The producer: deques of batches per partition, drained per node, in flight, acknowledged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Lane, Picture, lane, picture
from barnabas.anatomy.scenes.requests import Requests
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_Looked = events.MemoryUsed | events.StickyPartition | events.SerializersChosen
_OfBatch = events.BatchDrained | events.BatchRequeued | events.BatchSplit | events.BatchEnded | events.BatchFilled


class _Batch:
    """One `ProducerBatch`: `node` is None while it lies in its deque."""

    def __init__(self, number: int, partition: str) -> None:
        self.number = number
        self.partition = partition
        self.node: int | None = None
        self.kind = "open"
        self.facts: Facts = {}
        self.fill: float | None = None

    def box(self) -> Box:
        facts = {"partition": self.partition, **self.facts}
        return Box(f"batch {self.number}", f"#{self.number}", self.kind, facts, self.fill)


class ProducerScene:
    """One producer, by its client id."""

    def __init__(self, subject: str) -> None:
        self._client = subject
        self._batches: dict[int, _Batch] = {}
        self._deques: dict[str, deque[_Batch]] = {}
        self._nodes: dict[int, dict[int, _Batch]] = {}
        self._ended: deque[_Batch] = deque(maxlen=LAST)
        self._requests = Requests(subject)
        self._memory: events.MemoryUsed | None = None
        self._sticky: dict[str, Box] = {}
        self._serializers: events.SerializersChosen | None = None

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the producer's client id."""
        return event.client if isinstance(event, events.BatchOpened) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.BatchOpened):
            return event.client == self._client and self._opened(event)
        if isinstance(event, _OfBatch):
            batch = self._batches.get(event.batch)
            return batch is not None and self._moved(batch, event)
        if isinstance(event, _Looked):
            return event.client == self._client and self._looked(event)
        is_ours = self._requests.apply(event)
        if is_ours and isinstance(event, events.RequestInFlight) and event.api == "PRODUCE":
            for batch in self._nodes.get(event.node, {}).values():
                if batch.kind == "drained":
                    batch.kind = "moving"
                    batch.facts["correlation"] = event.correlation
        return is_ours

    def _looked(self, event: _Looked) -> bool:
        if isinstance(event, events.MemoryUsed):
            self._memory = event
        elif isinstance(event, events.SerializersChosen):
            self._serializers = event
        else:
            name = f"{event.topic}-{event.partition}"
            self._sticky[event.topic] = Box(f"sticky {event.topic}", name, "moving", {"before": event.bytes})
        return True

    def _opened(self, event: events.BatchOpened) -> bool:
        partition = f"{event.topic}-{event.partition}"
        batch = self._batches[event.batch] = _Batch(event.batch, partition)
        self._deques.setdefault(partition, deque()).append(batch)
        return True

    def _moved(self, batch: _Batch, event: _OfBatch) -> bool:
        if isinstance(event, events.BatchFilled):
            if batch.kind != "open":
                return False
            batch.facts = {"records": event.records, "size": event.size}
            batch.fill = min(1.0, event.size / event.limit)
        elif isinstance(event, events.BatchDrained):
            self._take_out(batch)
            batch.fill = None
            batch.kind, batch.node = "drained", event.node
            batch.facts = {
                "records": event.records,
                "size": event.size,
                "waited_ms": round(event.waited_ms, 3),
                "attempt": event.attempt,
                "sequence": event.sequence,
                "reason": event.reason,
            }
            self._nodes.setdefault(event.node, {})[batch.number] = batch
        elif isinstance(event, events.BatchRequeued):
            self._take_out(batch)
            batch.kind, batch.node = "retrying", None
            batch.facts |= {"error": event.error, "backoff_ms": round(event.backoff_ms, 3)}
            self._deques.setdefault(batch.partition, deque()).appendleft(batch)
        else:
            self._end(batch, event)
        return True

    def _end(self, batch: _Batch, event: events.BatchSplit | events.BatchEnded) -> None:
        self._take_out(batch)
        del self._batches[batch.number]
        if isinstance(event, events.BatchSplit):
            batch.kind, batch.facts["parts"] = "split", event.parts
        else:
            batch.kind = "good" if event.outcome == "succeeded" else "bad"
            batch.facts |= {"outcome": event.outcome, "offset": event.offset}
            if event.error:
                batch.facts["error"] = event.error
        self._ended.append(batch)

    def _take_out(self, batch: _Batch) -> None:
        queue = self._deques.get(batch.partition)
        if queue is not None and batch in queue:
            queue.remove(batch)
        if batch.node is not None:
            self._nodes.get(batch.node, {}).pop(batch.number, None)

    def picture(self) -> Picture:
        """See `Scene`."""
        return picture(
            (
                *((lane("serializers", self._serializer_boxes()),) if self._serializers else ()),
                *((lane("partitioner", self._partitioner_boxes()),) if self._sticky or self._serializers else ()),
                *(
                    lane("deque", (batch.box() for batch in queue), partition=partition)
                    for partition, queue in sorted(self._deques.items())
                ),
                *(
                    lane("drained", (batch.box() for batch in batches.values()), node=node)
                    for node, batches in sorted(self._nodes.items())
                ),
                *self._memory_lanes(),
                *self._requests.lanes(),
                lane("ended", self._last()),
            )
        )

    def _serializer_boxes(self) -> Iterator[Box]:
        for side in ("key", "value"):
            name = getattr(self._serializers, side)
            yield Box(f"serializer {side}", side, "done" if name else "split", {"serializer": name or "bytes"})

    def _partitioner_boxes(self) -> Iterator[Box]:
        chosen = self._serializers
        if chosen is not None and chosen.partitioner:
            yield Box("partitioner", chosen.partitioner, "done", {})
        elif chosen is not None:
            yield Box("partitioner", "murmur2(key) % partitions", "done", {})
        yield from self._sticky.values()

    def _memory_lanes(self) -> Iterator[Lane]:
        found = self._memory
        if found is not None:
            used = found.total - found.free
            facts: Facts = {"free": found.free, "waiting_threads": found.waiting}
            kind = "bad" if found.waiting else "done"
            yield lane("memory", [Box("memory", "buffer.memory", kind, facts, used / found.total)])

    def _last(self) -> Iterator[Box]:
        return (batch.box() for batch in reversed(self._ended))
