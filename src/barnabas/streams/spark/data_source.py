"""The source of a topology's query: plans the tasks of each batch as `coPartitions` says.

The one row of a batch is that plan. Who computes it are the tasks' processes (`task_dispatcher`), not Spark's tasks.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from barnabas.spark.co_partitioned_reader import CoPartitionedStreamReader
from barnabas.spark.offsets import CLOCK
from barnabas.spark.options import SourceOptions
from barnabas.streams.spark.batch_stages import PlannedBatch, Work
from barnabas.streams.spark.wall_clocks import PlannedClocks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from barnabas.spark.offsets import OffsetsJson
    from barnabas.streams.spark.application import Application

#: The column of the one row: a pickled `PlannedBatch`.
PLANNED = "planned"

OffsetsMapping = Mapping[str, Mapping[str, int]]


class TaskStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans as `CoPartitionedStreamReader` does, all tasks of a batch in one partition of Spark's.

    The checkpoint may be another topology's: a topic that is not read any more is left out of its offsets, and one that
    is new to it begins where the group has committed.
    """

    def __init__(self, options: SourceOptions, clocks: Path) -> None:
        assert options.co_partitions is not None
        self._source = CoPartitionedStreamReader(options, options.co_partitions)
        self._topics = options.co_partitions.topics
        self._clocks = PlannedClocks(options.co_partitions, clocks)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.getDefaultReadLimit()

    def latestOffset(self, start: OffsetsMapping, limit: ReadLimit) -> OffsetsJson:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        self._source.wanted = self._clocks.present()
        return self._source.latestOffset(self._begin(start), limit)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        self._source.prepareForTriggerAvailableNow()

    def partitions(self, start: OffsetsMapping, end: OffsetsMapping) -> Sequence[InputPartition]:
        """Return a batch's tasks. Raises DataLossError as `KafkaStreamReader` does."""
        return [InputPartition(pickle.dumps(self._planned(start, end)))]

    def _planned(self, start: OffsetsMapping, end: OffsetsMapping) -> PlannedBatch:
        until = self._known(end)
        # A batch that another topology has planned is repeated as it was.
        begin = {topic: found for topic, found in self._begin(start).items() if topic in until}
        now, shared, tasks = self._source.planned(begin, until)
        return PlannedBatch(now, shared, tuple(Work(each.task, each.topic_ids) for each in tasks))

    def _known(self, offsets: OffsetsMapping) -> OffsetsMapping:
        return {topic: found for topic, found in offsets.items() if topic in self._topics or topic == CLOCK}

    def _begin(self, start: OffsetsMapping) -> OffsetsMapping:
        if self._topics <= start.keys():
            return self._known(start)
        begins = self._source.initialOffset()
        return {**{topic: begins[topic] for topic in self._topics & begins.keys()}, **self._known(start)}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the plan of the batch."""
        import pyarrow as pa

        yield pa.RecordBatch.from_arrays([pa.array([partition.value], pa.binary())], [PLANNED])

    def commit(self, end: OffsetsMapping) -> None:
        """See `CoPartitionedStreamReader`."""
        self._source.commit(end)

    def stop(self) -> None:
        """See `CoPartitionedStreamReader`."""
        self._source.stop()


def data_source(application: Application, clocks: Path) -> type[DataSource]:
    """Return the format of this application's query; `clocks` is the file of its `WallClocks`."""
    options = application.source
    named = f"barnabas_streams_{hashlib.sha256(application.id.encode()).hexdigest()[:16]}"

    class StreamsDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return named

        def schema(self) -> str:
            return f"{PLANNED} binary"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return TaskStreamReader(options, clocks)

    return StreamsDataSource
