"""What a task with several topic-partitions reads, in the order of Kafka Streams.

Each topic-partition is in the order of its offsets; the next record is the one with the least timestamp among the
first of each, as in Kafka's `PartitionGroup`. Where timestamps are equal Kafka's choice is that of a heap; here the
topic that the group names first is first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.records.arrow import arrow_schema
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.fetch_loop import read_ranges
from barnabas.spark.offsets import CLOCK
from barnabas.spark.options import SourceOptions
from barnabas.spark.transaction_rows import WrittenRange, read_written

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def read_task(
    options: SourceOptions, task: PlannedTask, topic_ids: Mapping[str, bytes | None]
) -> Iterator[pa.RecordBatch]:
    """Yield a row that tells of the task (topic `""`, value `PlannedTask.to_json`), then its records, merged."""
    batches = read_records(options, task, topic_ids)
    yield _plan_row(options.columns, task)
    yield from batches


def read_records(
    options: SourceOptions,
    task: PlannedTask,
    topic_ids: Mapping[str, bytes | None],
    written: Iterable[WrittenRange] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a task, merged; of some ranges what `written` says. Raises as `read_ranges` does."""
    named = {each.topic_partition: each for each in written}
    return merged([
        read_written(options, each, named[each.topic_partition], topic_ids)
        if each.topic_partition in named
        else read_ranges(options, [each], topic_ids)
        for each in task.ranges
        if each.size > 0
    ])  # fmt: skip


def _plan_row(columns: Sequence[str], task: PlannedTask) -> pa.RecordBatch:
    import pyarrow as pa

    schema = arrow_schema(columns)
    row: dict[str, Any] = dict.fromkeys(columns)
    row |= {"topic": CLOCK, "partition": task.partition, "offset": -1, "value": task.to_json().encode()}
    return pa.RecordBatch.from_arrays([pa.array([row[each.name]], each.type) for each in schema], schema=schema)


def merged(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge batches of rows by the column timestamp.

    To take the least of the first records again and again is to sort by the greatest timestamp so far in each stream.
    So of the rows at hand those can go that lie before the last row of each stream of which more may come.
    """
    if len(streams) == 1:
        yield from streams[0]
    heads = [_Head(stream, index) for index, stream in enumerate(streams)]
    heads = [head for head in heads if head.fill()]
    while heads:
        limit = min(head.last for head in heads)
        yield _in_order(heads, limit)
        heads = [head for head in heads if head.fill()]


class _Head:
    """The rows at hand of a stream, with the greatest timestamp up to each."""

    def __init__(self, stream: Iterator[pa.RecordBatch], index: int) -> None:
        self._stream = stream
        self.index = index
        self.rows: Any = None
        self.times: Any = None
        self._greatest = -(2**63)

    @property
    def last(self) -> tuple[int, int]:
        """The place of the last row in the order of all streams."""
        return int(self.times[-1]), self.index

    def fill(self) -> bool:
        """Have at least one row; false at the end of the stream."""
        import numpy as np
        import pyarrow as pa

        while self.rows is None or not self.rows.num_rows:
            self.rows = next(self._stream, None)
            if self.rows is None:
                return False
            if self.rows.num_rows:
                times = self.rows.column("timestamp").cast(pa.int64()).to_numpy()
                self.times = np.maximum(np.maximum.accumulate(times), self._greatest)
                self._greatest = int(self.times[-1])
        return True

    def take(self, limit: tuple[int, int]) -> tuple[Any, np.ndarray[Any, Any]]:
        """Take the rows up to this place in the order of all streams."""
        import numpy as np

        time, index = limit
        count = int(np.searchsorted(self.times, time, side="right" if self.index <= index else "left"))
        taken = self.rows.slice(0, count), self.times[:count]
        self.rows, self.times = self.rows.slice(count), self.times[count:]
        return taken


def _in_order(heads: Sequence[_Head], limit: tuple[int, int]) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    taken = [(rows, times) for rows, times in (head.take(limit) for head in heads) if rows.num_rows]
    if len(taken) == 1:
        return taken[0][0]
    order = np.argsort(np.concatenate([times for _, times in taken]), kind="stable")
    return pa.concat_batches([rows for rows, _ in taken]).take(pa.array(order))
