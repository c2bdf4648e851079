# cython: language_level=3, annotation_typing=False
"""What a TopologyTestDriver does for each record: pipe it, work it off, keep what is sent. C types: `record_pipe.pxd`.

Source: Kafka's TopologyTestDriver.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from barnabas import _cython as cython  # type: ignore[no-redef]  # its stand-in

from typing import TYPE_CHECKING

if not cython.compiled:
    from barnabas.streams.engine.record import input_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.streams.engine.global_task import GlobalTask
    from barnabas.streams.engine.record import InputRecord, OutputRecord
    from barnabas.streams.engine.task import Task
    from barnabas.streams.serdes.serde import Headers

    Pairs = Sequence[tuple[str, bytes | None]]


@cython.final
@cython.cclass
class Offsets:
    """Counts the offsets of a topic, or of the topics that a pattern matches."""

    def __init__(self) -> None:
        self.next = 0


@cython.final
@cython.cclass
class DrivenTopic:
    """A topic: what is left to be read of it, and who in the topology reads it."""

    def __init__(self, name: str, is_global: bool) -> None:
        self.name = name
        self.is_global = is_global
        #: Whether the task reads it, and its offsets; None until that is asked.
        self.is_read: bool | None = None
        self.offsets: Offsets | None = None
        self.is_written = False
        #: Records to be read, the next one at the end; and those that came since, the last one at the end.
        self._next: list[OutputRecord] = []
        self._added: list[OutputRecord] = []

    def add(self, record: OutputRecord) -> None:
        """Add a record at the end."""
        self.is_written = True
        self._added.append(record)

    def take(self) -> OutputRecord | None:
        """Take the next record; None when there is none."""
        if not self._next:
            if not self._added:
                return None
            self._next, self._added = self._added, []
            self._next.reverse()
        return self._next.pop()

    def size(self) -> int:
        """Return how many records are left."""
        return len(self._next) + len(self._added)


@cython.cclass
class RecordPipe:
    """The part of the driver that runs for each record; the driver says which topics the topology reads."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._task: Task | None = None
        self._global: GlobalTask | None = None
        self._global_topics: frozenset[str] = frozenset()
        self._topics: dict[str, DrivenTopic] = {}
        self._offsets: dict[str, Offsets] = {}

    def pipe_raw(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        """Pipe the bytes of a record and work it off. Raises ValueError for a topic that the topology does not read."""
        found = self._topic(topic)
        read = self._task is not None and self._reads(found)
        if not read and not found.is_global:
            raise ValueError(f"Unknown topic: {topic}")
        if read:
            self._enqueue(found, key, value, timestamp, headers)
            self._work_off()
        if found.is_global:
            self._process_global(found, key, value, timestamp, headers)

    def _enqueue_raw(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers
    ) -> None:
        """Have the task hold a record of a topic that it reads, and process none: `tools.streams_vectors` does that."""
        self._enqueue(self._topic(topic), key, value, timestamp, headers)

    def read_raw(self, topic: str) -> OutputRecord | None:
        """Return the next record of a topic as bytes; None when there is none."""
        found = self._topics.get(topic)
        return None if found is None else found.take()

    def queue_size(self, topic: str) -> int:
        """Return how many records of a topic are left to be read."""
        found = self._topics.get(topic)
        return 0 if found is None else found.size()

    def produced_topic_names(self) -> set[str]:
        """Return the names of all topics that were written, changelog and repartition topics among them."""
        return {name for name, found in self._topics.items() if found.is_written}

    def _find_source(self, topic: str) -> str | None:
        """Return the name of the source that reads a topic."""
        raise NotImplementedError

    def _partition_of(self, topic: str) -> str:
        """Return what offsets of a topic are counted by."""
        raise NotImplementedError

    def _topic(self, name: str) -> DrivenTopic:
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = DrivenTopic(name, name in self._global_topics)
        return found

    def _reads(self, topic: DrivenTopic) -> bool:
        if topic.is_read is None:
            topic.is_read = self._find_source(topic.name) is not None
        return topic.is_read

    def _enqueue(
        self, topic: DrivenTopic, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Pairs | None
    ) -> None:
        self._task.add_record(self._record(topic, key, value, timestamp, headers))  # type: ignore[union-attr]  # read topics have a task

    def _record(
        self, topic: DrivenTopic, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Pairs | None
    ) -> InputRecord:
        offsets = topic.offsets
        if offsets is None:
            counted_by = self._partition_of(topic.name)
            offsets = self._offsets.get(counted_by)
            if offsets is None:
                offsets = self._offsets[counted_by] = Offsets()
            topic.offsets = offsets
        offset = offsets.next
        offsets.next = offset + 1
        at = self._now_ms if timestamp is None else timestamp
        return input_record(topic.name, 0, offset, at, key, value, list(headers) if headers else None)

    def _process_global(
        self, topic: DrivenTopic, key: bytes | None, value: bytes | None, timestamp: int | None, headers: Pairs | None
    ) -> None:
        record = self._record(topic, key, value, timestamp, headers)
        self._capture(self._global.process(record, self._now_ms))  # type: ignore[union-attr]  # topics imply the task

    def _work_off(self) -> None:
        task = self._task
        if task is None:
            return
        if not task.waits():
            self._capture(task.commit())  # what was left out may have gone to a dead-letter queue
        self._capture(task.collector.drain())  # punctuators may have sent records to topics that the task reads
        while task.process_next(self._now_ms):
            task.punctuate_stream_time()
            self._capture(task.commit())

    def _capture(self, records: list[OutputRecord], work: bool = True) -> None:
        for record in records:
            topic = self._topic(record.topic)
            topic.add(record)
            if not work:
                continue
            if self._task is not None and self._reads(topic):
                self._enqueue(topic, record.key, record.value, record.timestamp, record.header_list)
            if topic.is_global:
                self._process_global(topic, record.key, record.value, record.timestamp, record.header_list)
