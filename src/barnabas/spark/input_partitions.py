"""The tasks of a query: planned on the driver from ranges of offsets, read in an executor. For batch and streaming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange, divided, packed

if TYPE_CHECKING:
    import pyarrow as pa


class OffsetRangePartition(InputPartition):
    """One task's work: ranges of offsets of different partitions; and the ids of the topics that were meant."""

    def __init__(self, ranges: Sequence[OffsetRange], topic_ids: Mapping[str, bytes | None]) -> None:
        """Spark runs a task even for a query without data; it gets no ranges."""
        super().__init__(tuple(ranges))
        self.ranges = tuple(ranges)
        self.topic_ids = dict(topic_ids)


def input_partitions(
    options: SourceOptions, ranges: Iterable[OffsetRange], topic_ids: Mapping[str, bytes | None]
) -> list[InputPartition]:
    """Return the tasks for these ranges, as minPartitions, maxRecordsPerPartition and minRecordsPerPartition ask."""
    found = divided(ranges, options.min_partitions, options.max_records_per_partition)
    least = options.min_records_per_partition
    tasks = packed(found, least) if least else [(offset_range,) for offset_range in found]
    return [OffsetRangePartition(task, _of_their_topics(task, topic_ids)) for task in tasks]


def _of_their_topics(ranges: Iterable[OffsetRange], topic_ids: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
    topics = {offset_range.topic_partition.topic for offset_range in ranges}
    return {topic: topic_ids.get(topic) for topic in topics}


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read what an input partition stands for, as Arrow batches; runs in an executor."""
    if not isinstance(partition, OffsetRangePartition):
        raise TypeError(f"expected an OffsetRangePartition, not {type(partition).__name__}")
    if not partition.ranges:
        return iter(())
    # The driver plans and never reads: it need not load the consumer.
    from barnabas.spark.fetch_loop import read_ranges

    return read_ranges(options, partition.ranges, partition.topic_ids)
