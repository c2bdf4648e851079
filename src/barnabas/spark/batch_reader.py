"""A batch query: what lies between two sets of offsets, each fixed once on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from barnabas.spark.errors import DataLossError
from barnabas.spark.offset_reader import OffsetReader
from barnabas.spark.offsets import Offsets
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange, divided

if TYPE_CHECKING:
    import pyarrow as pa


class OffsetRangePartition(InputPartition):
    """One task's work: a range of offsets of one partition, or nothing."""

    def __init__(self, offset_range: OffsetRange | None) -> None:
        """Spark runs a task even for a query without data; it gets None."""
        super().__init__(offset_range)
        self.offset_range = offset_range


class KafkaBatchReader(DataSourceReader):
    """Plans the ranges on the driver and reads one of them in each task."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options only: the reader is pickled to the tasks."""
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """One range per topic-partition, or more when minPartitions asks; raises OptionError, DataLossError."""
        offsets = OffsetReader(self.options)
        try:
            ranges = batch_ranges(offsets.resolve(self.options.starting), offsets.resolve(self.options.ending))
        finally:
            offsets.close()
        found = divided(ranges, self.options.min_partitions)
        return [OffsetRangePartition(offset_range) for offset_range in found] or [OffsetRangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the range's records as Arrow batches; runs in an executor."""
        return read_partition(self.options, partition)


def batch_ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Pair starts and ends; raises DataLossError when a partition appeared or vanished between the two look-ups."""
    if set(start) != set(end):
        changed = sorted(str(partition) for partition in set(start) ^ set(end))
        raise DataLossError(f"the partitions {changed} came or went while the batch query was planned: run it again")
    return [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(start)]


def read_partition(options: SourceOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Read what an input partition stands for; shared by batch and streaming."""
    if not isinstance(partition, OffsetRangePartition):
        raise TypeError(f"expected an OffsetRangePartition, not {type(partition).__name__}")
    if partition.offset_range is None:
        return iter(())
    from barnabas.spark.fetch_loop import read_range

    return read_range(options, partition.offset_range)
