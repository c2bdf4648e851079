"""Whose record comes next: queues of a task's partitions, the least timestamp first. Source: Kafka's PartitionGroup."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from barnabas.streams.engine.record import InputRecord, StampedRecord

#: Deserializes and stamps a record, given its partition's time; None when it is left out.
Stamp = Callable[[InputRecord, int], StampedRecord | None]

UNKNOWN = -1


class RecordQueue:
    """Records of one partition in the order of offsets; the head is deserialized, so that its timestamp is known."""

    __slots__ = ("_records", "_stamp", "head", "name", "partition_time")

    def __init__(self, name: tuple[str, int], stamp: Stamp) -> None:
        self.name = name
        self._stamp = stamp
        self._records: deque[InputRecord] = deque()
        self.head: StampedRecord | None = None
        self.partition_time = UNKNOWN

    def add(self, record: InputRecord) -> None:
        """Add a record at the end."""
        self._records.append(record)

    def advance(self) -> None:
        """Make the next record that is not left out the head."""
        self.head = None
        records = self._records
        while records:
            record = records.popleft()
            self.head = self._stamp(record, self.partition_time)
            if self.head is not None:
                return

    def poll(self) -> StampedRecord | None:
        """Take the head; the next one becomes it."""
        taken = self.head
        if taken is not None:
            self.partition_time = max(self.partition_time, taken.timestamp)
            self.advance()
        return taken


class PartitionGroup:
    """The queues of a task. Ties of timestamps go by topic and partition."""

    def __init__(self, stamp: Callable[[str], Stamp]) -> None:
        self._stamp = stamp
        self._queues: dict[tuple[str, int], RecordQueue] = {}
        self._heads: list[tuple[int, tuple[str, int]]] = []
        self.stream_time = UNKNOWN

    def add(self, record: InputRecord) -> None:
        """Add a record to the queue of its partition."""
        name = (record.topic, record.partition)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = RecordQueue(name, self._stamp(record.topic))
        queue.add(record)
        if queue.head is None:
            queue.advance()
            if queue.head is not None:
                heappush(self._heads, (queue.head.timestamp, name))

    def next_record(self) -> StampedRecord | None:
        """Take the record with the least timestamp among the heads; None when no record waits."""
        if not self._heads:
            return None
        queue = self._queues[heappop(self._heads)[1]]
        record = queue.poll()
        if queue.head is not None:
            heappush(self._heads, (queue.head.timestamp, queue.name))
        if record is not None and record.timestamp > self.stream_time:
            self.stream_time = record.timestamp
        return record

    @property
    def waits(self) -> bool:
        """Whether a record waits."""
        return bool(self._heads)

    def partition_times(self) -> dict[tuple[str, int], int]:
        """Return the greatest timestamp of each partition, in milliseconds."""
        return {name: queue.partition_time for name, queue in self._queues.items()}

    def restore(self, stream_time: int, partition_times: dict[tuple[str, int], int]) -> None:
        """Take up the times where a task before left them."""
        self.stream_time = stream_time
        for name, time in partition_times.items():
            queue = self._queues.setdefault(name, RecordQueue(name, self._stamp(name[0])))
            queue.partition_time = time
