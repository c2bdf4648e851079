"""The source for `barnabas.streams`: one task for each co-partition, and the time of a micro-batch in its offsets.

Spark logs a micro-batch's offsets before it runs, so one that is repeated reads the same records at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from barnabas.clock import wall_clock_ms
from barnabas.spark.co_partitions import (
    CoPartitions,
    PlannedTask,
    planned_tasks,
    shared_ranges,
    time_of,
    with_time,
)
from barnabas.spark.offsets import CLOCK, OffsetsJson
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.stream_reader import KafkaStreamReader

if TYPE_CHECKING:
    import pyarrow as pa

OffsetsMapping = Mapping[str, Mapping[str, int]]


class CoPartition(InputPartition):
    """One task's work, and the ids of the topics that were meant."""

    def __init__(self, task: PlannedTask, topic_ids: Mapping[str, bytes | None]) -> None:
        super().__init__(task)
        self.task = task
        topics = {each.topic_partition.topic for each in task.ranges}
        self.topic_ids = {topic: topic_ids.get(topic) for topic in topics}


class CoPartitionedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A `KafkaStreamReader` whose tasks and times are those of `coPartitions`."""

    def __init__(self, options: SourceOptions, wanted: CoPartitions, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        #: May be replaced by one with other times.
        self.wanted = wanted
        self._reader = KafkaStreamReader(options)
        self._now_ms = now_ms
        self._begins = wanted.begins_with_a_batch

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins; the time is 0, for Spark may ask again when it repeats a batch."""
        return with_time(self._reader.initialOffset(), 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """See `KafkaStreamReader`."""
        return self._reader.getDefaultReadLimit()

    def latestOffset(self, start: OffsetsMapping, limit: ReadLimit) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Return the next micro-batch's end with its time, or `start` when there are neither records nor tasks due.

        Where the query may have to read what the offsets do not tell of, there is one at its beginning.
        """
        before = time_of(start)
        end = self._reader.latestOffset(start, limit)
        now = max(before, self._now_ms())
        if self._begins:
            self._begins = False
            return with_time(end, max(before + 1, now))
        has_news = end != {topic: dict(found) for topic, found in start.items() if topic != CLOCK}
        if not has_news and not any(group.is_due(before, now) for group in self.wanted.groups.values()):
            return with_time(end, before)
        return with_time(end, now)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """See `KafkaStreamReader`."""
        return self._reader.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """See `KafkaStreamReader`."""
        self._reader.prepareForTriggerAvailableNow()

    def partitions(self, start: OffsetsMapping, end: OffsetsMapping) -> Sequence[CoPartition]:
        """Return a micro-batch's tasks. Raises DataLossError as `KafkaStreamReader` does."""
        return self.planned(start, end)[2]

    def planned(
        self, start: OffsetsMapping, end: OffsetsMapping
    ) -> tuple[int, tuple[OffsetRange, ...], list[CoPartition]]:
        """Return a micro-batch's time, what it knows of shared topics, and its tasks. Raises as `partitions` does."""
        ranges = self._reader.ranges(start, end)
        tasks = planned_tasks(self.wanted, ranges, time_of(start), time_of(end))
        shared = shared_ranges(self.wanted, ranges)
        return time_of(end), shared, [CoPartition(task, self._reader.topic_ids) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what the task is told, as a row, and its records; runs in an executor."""
        assert isinstance(partition, CoPartition)
        from barnabas.spark.co_partitioned_rows import read_task

        return read_task(self._reader.options, partition.task, partition.topic_ids)

    def commit(self, end: OffsetsMapping) -> None:
        """See `KafkaStreamReader`."""
        self._reader.commit(end)

    def stop(self) -> None:
        """See `KafkaStreamReader`."""
        self._reader.stop()

    def __getstate__(self) -> dict[str, Any]:
        return {"_reader": self._reader, "wanted": self.wanted, "_now_ms": self._now_ms, "_begins": False}
