"""The source of a topology's query: plans its tasks as `coPartitions` says, and runs them where Spark reads.

A row of the query is what a task reports, once its process has read, computed and written its part of the batch.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from barnabas.spark.co_partitioned_reader import CoPartition, CoPartitionedStreamReader
from barnabas.spark.exactly_once.task_identity import current_task
from barnabas.spark.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from barnabas.spark.offsets import OffsetsJson
    from barnabas.streams.spark.application import Application

#: The column of the rows: a pickled `TaskReport`.
REPORT = "report"

OffsetsMapping = Mapping[str, Mapping[str, int]]


class TaskPartition(InputPartition):
    """What one task of Spark has done: tasks of the topology, each with its number in the batch."""

    def __init__(self, tasks: Sequence[tuple[int, CoPartition]]) -> None:
        super().__init__([number for number, _ in tasks])
        self.tasks = tasks


class TaskStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans as `CoPartitionedStreamReader` does, and deals the tasks of a batch out to `slots` of Spark's (None: all).

    Where Spark has no more than so many slots others would wait, and each start of one costs as much as a small batch.
    """

    def __init__(self, application: bytes, options: SourceOptions, slots: int | None) -> None:
        assert options.co_partitions is not None
        self._id = options.group_id
        self._application = application
        self._slots = slots
        self._source = CoPartitionedStreamReader(options, options.co_partitions)

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.getDefaultReadLimit()

    def latestOffset(self, start: OffsetsMapping, limit: ReadLimit) -> OffsetsJson:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.latestOffset(start, limit)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        return self._source.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """See `CoPartitionedStreamReader`."""
        self._source.prepareForTriggerAvailableNow()

    def partitions(self, start: OffsetsMapping, end: OffsetsMapping) -> Sequence[InputPartition]:
        """Return a batch's tasks, dealt out. Raises DataLossError as `KafkaStreamReader` does."""
        tasks = [*enumerate(self._source.partitions(start, end))]
        slots = min(self._slots or len(tasks), len(tasks))
        return [TaskPartition(tasks[first::slots]) for first in range(slots)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what the tasks report; runs in an executor."""
        assert isinstance(partition, TaskPartition)
        import pyarrow as pa

        from barnabas.streams.spark import task_processes as task_server
        from barnabas.streams.spark.task_manager import Request

        spark = current_task()

        def report(numbered: tuple[int, CoPartition]) -> bytes:
            number, planned = numbered
            request = Request(spark._replace(partition=number), planned.task, planned.topic_ids)
            name = f"{self._id}/{spark.query}/{planned.task.name}"
            return pickle.dumps(task_server.run(self._application, name, request))

        if len(partition.tasks) == 1:
            reports = [report(partition.tasks[0])]
        else:
            with ThreadPoolExecutor(len(partition.tasks)) as threads:
                reports = [*threads.map(report, partition.tasks)]
        yield pa.RecordBatch.from_arrays([pa.array(reports, pa.binary())], [REPORT])

    def commit(self, end: OffsetsMapping) -> None:
        """See `CoPartitionedStreamReader`."""
        self._source.commit(end)

    def stop(self) -> None:
        """See `CoPartitionedStreamReader`."""
        self._source.stop()


def data_source(application: Application, slots: int | None) -> type[DataSource]:
    """Return the format of this application's query. Pickles the application here, once: lambdas go by value."""
    from pyspark import cloudpickle

    pickled: bytes = cloudpickle.dumps(application)  # type: ignore[no-untyped-call]
    options = application.source
    named = f"barnabas_streams_{hashlib.sha256(application.id.encode()).hexdigest()[:16]}"

    class StreamsDataSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return named

        def schema(self) -> str:
            return f"{REPORT} binary"

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
            return TaskStreamReader(pickled, options, slots)

    return StreamsDataSource
