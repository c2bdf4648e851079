"""A streaming query: the driver's bookkeeping of offsets, from micro-batch to micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from barnabas.spark.batch_reader import OffsetRangePartition, read_partition
from barnabas.spark.errors import DataLossError
from barnabas.spark.offset_reader import OffsetReader
from barnabas.spark.offsets import Offsets, OffsetsJson, from_json, to_json
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange, divided
from barnabas.spark.rate_limit import limited

if TYPE_CHECKING:
    import pyarrow as pa

LOGGER = logging.getLogger("barnabas.spark")


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's micro-batch source over a set of topic-partitions; offsets have the built-in connector's JSON form."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options only: a copy of the reader is pickled to the tasks."""
        self.options = options
        self._offsets: OffsetReader | None = None
        self._end_of_available_now: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "_offsets": None, "_end_of_available_now": None}

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        return to_json(self._cluster().resolve(self.options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`maxOffsetsPerTrigger` as Spark's ReadMaxRows, or no limit."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """The end of the next micro-batch: all there is, or as much as the limit allows.

        Partitions that appeared since `start` are read from their first offset on. A partition that is missing now
        keeps its offset, and is reported by `partitions` unless it returns.
        """
        begin = from_json(start)
        if self._end_of_available_now is not None:
            latest = self._end_of_available_now
        else:
            latest = self._cluster().latest()
        latest = self._never_back(begin, latest)
        if isinstance(limit, ReadMaxRows):
            appeared = self._cluster().earliest(set(latest) - set(begin))
            return to_json(limited({**appeared, **begin}, latest, limit.max_rows))
        if not isinstance(limit, ReadAllAvailable):
            raise NotImplementedError(f"the format 'barnabas' cannot limit a micro-batch by {limit!r}")
        return to_json(latest)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """The ends of all partitions, for the query's progress."""
        return to_json(self._cluster().latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query that reads what exists now and stops."""
        self._end_of_available_now = self._cluster().latest(fresh=True)

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[InputPartition]:
        """The ranges of one micro-batch; raises DataLossError when offsets are gone and failOnDataLoss is true."""
        begin, until = from_json(start), from_json(end)
        appeared = self._cluster().earliest(set(until) - set(begin))
        for partition, first in appeared.items():
            if first > 0:
                self._report_loss(f"{partition} is new to the query and its records before offset {first} are gone")
        begin = {**begin, **appeared}
        ranges = [OffsetRange(partition, begin[partition], offset) for partition, offset in sorted(until.items())]
        for gone in sorted(set(begin) - set(until)):
            self._report_loss(f"{gone} no longer exists; the query had read it up to offset {begin[gone]}")
        return [OffsetRangePartition(offset_range) for offset_range in divided(ranges, self.options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one range's records as Arrow batches; runs in an executor."""
        return read_partition(self.options, partition)

    def commit(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Nothing to do: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        """Let go of the connections."""
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None

    def _cluster(self) -> OffsetReader:
        if self._offsets is None:
            self._offsets = OffsetReader(self.options)
        return self._offsets

    def _never_back(self, begin: Offsets, latest: Offsets) -> Offsets:
        found = dict(latest)
        for partition, offset in begin.items():
            end = latest.get(partition)
            if end is None:
                found[partition] = offset
                self._report_loss(f"{partition} no longer exists; the query had read it up to offset {offset}")
            elif end < offset:
                found[partition] = offset
                self._report_loss(
                    f"{partition} ends at offset {end} but the query had read it up to {offset}: the topic was "
                    "deleted and created again, or the broker lost records"
                )
        return found

    def _report_loss(self, what: str) -> None:
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. Some data may have been missed. To go on without it set failOnDataLoss=false; to start "
                "over use a new checkpoint and startingOffsets"
            )
        LOGGER.warning("failOnDataLoss=false: %s", what)
