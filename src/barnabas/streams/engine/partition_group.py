# cython: language_level=3, annotation_typing=False, nonecheck=True
"""Whose record comes next: queues of a task's partitions, the least timestamp first. Source: Kafka's PartitionGroup.

C types are in `partition_group.pxd`.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.streams.engine.time_heap import TimeHeap

if TYPE_CHECKING:
    from barnabas.streams.engine.record import InputRecord, StampedRecord

UNKNOWN = -1


@cython.cclass
class Stamp:
    """Deserializes the records of a topic, and finds their timestamps."""

    def stamp(self, raw: InputRecord, partition_time: int) -> StampedRecord | None:
        """Return the record, given its partition's time; None when it is left out."""
        raise NotImplementedError


@cython.final
@cython.cclass
class RecordQueue:
    """Records of one partition in the order of offsets; the head is deserialized, so that its timestamp is known."""

    def __init__(self, name: tuple[str, int], stamp: Stamp) -> None:
        self.name = name
        self.topic, self.partition = name
        self._stamp = stamp
        #: Those to be taken, the next one at the end; and those that came since, the last one at the end.
        self._next: list[InputRecord] = []
        self._added: list[InputRecord] = []
        self.head: StampedRecord | None = None
        self.partition_time = UNKNOWN

    def add(self, record: InputRecord) -> None:
        """Add a record at the end; one that waits alone is the head, unless it is left out."""
        if self.head is None and not self._next and not self._added:
            self.head = self._stamp.stamp(record, self.partition_time)
            return
        self._added.append(record)
        if self.head is None:
            self.advance()

    def advance(self) -> None:
        """Make the next record that is not left out the head."""
        self.head = None
        while True:
            if not self._next:
                if not self._added:
                    return
                self._next, self._added = self._added, []
                self._next.reverse()
            self.head = self._stamp.stamp(self._next.pop(), self.partition_time)
            if self.head is not None:
                return

    def poll(self) -> StampedRecord | None:
        """Take the head; the next one becomes it."""
        taken = self.head
        if taken is not None:
            if taken.timestamp > self.partition_time:
                self.partition_time = taken.timestamp
            self.advance()
        return taken


@cython.final
@cython.cclass
class PartitionGroup:
    """The queues of a task."""

    def __init__(self, stamp: Callable[[str], Stamp]) -> None:
        self._stamp = stamp
        self._queues: dict[tuple[str, int], RecordQueue] = {}
        #: The queues that have a head: the only one, or all of them by its time.
        self._only: RecordQueue | None = None
        self._heads: TimeHeap[RecordQueue] = TimeHeap()
        self._last: RecordQueue | None = None
        self.stream_time = UNKNOWN

    def add(self, record: InputRecord) -> None:
        """Add a record to the queue of its partition."""
        queue = self._last
        if queue is None or record.topic is not queue.topic or record.partition != queue.partition:
            name = (record.topic, record.partition)
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = RecordQueue(name, self._stamp(record.topic))
            self._last = queue
        waited = queue.head is not None
        queue.add(record)
        if not waited and queue.head is not None:
            self._push(queue)

    def _push(self, queue: RecordQueue) -> None:
        if self._only is None and not self._heads.heap:
            self._only = queue
            return
        if self._only is not None:
            self._heads.push(self._only.head.timestamp, self._only)  # type: ignore[union-attr]  # it has one
            self._only = None
        self._heads.push(queue.head.timestamp, queue)  # type: ignore[union-attr]  # it has one

    def next_record(self) -> StampedRecord | None:
        """Take the record with the least timestamp among the heads; None when no record waits."""
        queue = self._only
        if queue is not None:
            self._only = None
        elif self._heads.heap:
            queue = self._heads.pop()
        else:
            return None
        record = queue.poll()
        if queue.head is not None:
            self._push(queue)
        if record is not None and record.timestamp > self.stream_time:
            self.stream_time = record.timestamp
        return record

    def waits(self) -> bool:
        """Tell whether a record waits."""
        return self._only is not None or len(self._heads.heap) > 0

    def partition_times(self) -> dict[tuple[str, int], int]:
        """Return the greatest timestamp of each partition, in milliseconds."""
        return {name: queue.partition_time for name, queue in self._queues.items()}

    def restore(self, stream_time: int, partition_times: dict[tuple[str, int], int]) -> None:
        """Take up the times where a task before left them."""
        self.stream_time = stream_time
        for name, time in partition_times.items():
            queue = self._queues.setdefault(name, RecordQueue(name, self._stamp(name[0])))
            queue.partition_time = time
