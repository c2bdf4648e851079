"""A batch query: what lies between two sets of offsets, each fixed once on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from barnabas.spark.errors import DataLossError, OptionError
from barnabas.spark.filters import RangeFilter, range_filter
from barnabas.spark.input_partitions import OffsetRangePartition, input_partitions, read_partition
from barnabas.spark.offset_reader import OffsetReader
from barnabas.spark.offsets import Offsets
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaBatchReader(DataSourceReader):
    """Plans the ranges on the driver and reads some of them in each task."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options only: the reader is pickled to the tasks."""
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Return the tasks' ranges, small ones together. Raises OptionError, DataLossError."""
        offsets = OffsetReader(self.options)
        try:
            ranges = batch_ranges(offsets.resolve(self.options.starting), offsets.resolve(self.options.ending))
            return input_partitions(self.options, self._narrowed(offsets, ranges), offsets.topic_ids) or [
                OffsetRangePartition((), {})
            ]
        finally:
            offsets.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the ranges' records as Arrow batches; runs in an executor."""
        return read_partition(self.options, partition)

    def _narrowed(self, offsets: OffsetReader, ranges: list[OffsetRange]) -> list[OffsetRange]:
        return ranges


class FilteringBatchReader(KafkaBatchReader):
    """Reads only what filters on topic, partition, offset and timestamp may let through.

    A class of its own: Spark refuses readers that have `pushFilters` while its setting is off.
    """

    def __init__(self, options: SourceOptions) -> None:
        """Spark calls `pushFilters`, if at all, before `partitions`."""
        super().__init__(options)
        self.filters: list[RangeFilter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Keep what narrows ranges; yields the filters that Spark still has to apply to the rows."""
        for spark_filter in filters:
            found = range_filter(spark_filter)
            if found is not None:
                self.filters.append(found)
            if found is None or not found.is_exact:
                yield spark_filter

    def _narrowed(self, offsets: OffsetReader, ranges: list[OffsetRange]) -> list[OffsetRange]:
        for chosen in self.filters:
            ranges = chosen.narrowed(ranges, offsets.offsets_for_times)
        return ranges


def batch_ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """Pair starts and ends; raises OptionError when a partition would end before it starts.

    Raises DataLossError when a partition appeared or vanished between the two look-ups.
    """
    if set(start) != set(end):
        changed = sorted(str(partition) for partition in set(start) ^ set(end))
        raise DataLossError(f"the partitions {changed} came or went while the batch query was planned: run it again")
    ranges = [OffsetRange(partition, start[partition], end[partition]) for partition in sorted(start)]
    for found in ranges:
        if found.start > found.end:
            raise OptionError(
                f"the start offset {found.start} of {found.topic_partition} is greater than its end offset "
                f"{found.end}: see the options for starting and ending offsets and timestamps, where one names an "
                "offset and the other a time, or an offset lies beyond the partition's end"
            )
    return ranges
