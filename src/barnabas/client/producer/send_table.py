"""`Producer.send_table`: an Arrow table's rows as records, batch by batch instead of record by record."""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.producer.append import record_size_upper_bound
from barnabas.errors import IllegalArgumentError, IllegalTypeError, KafkaError, RecordTooLargeError
from barnabas.records.arrow import plain_scalar, pyarrow
from barnabas.records.table_encoder import arrow_rows, partition_column

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.protocol.topic_partition import TopicPartition

STICKY = -1


class TableFuture:
    """What becomes of a table's rows."""

    __slots__ = ("_error", "_order", "_parts", "rows")

    def __init__(self, rows: int, order: Iterable[Iterable[int]]) -> None:
        """`order` are the rows' places in the table in the order in which they are sent."""
        self.rows = rows
        self._order = order
        # Results of batches, and the table's records in each: the first and the last.
        self._parts: list[tuple[ProduceRequestResult, int, int]] = []
        self._error: KafkaError | None = None

    def add(self, result: ProduceRequestResult, first: int, last: int) -> None:
        """Note that rows are the records `first` to `last` of a batch."""
        self._parts.append((result, first, last))

    def fail(self, error: KafkaError) -> None:
        """Fail the rows that were not taken."""
        taken = sum(last - first + 1 for _, first, last in self._parts)
        self._error = type(error)(f"{self.rows - taken} of {self.rows} rows were not taken: {error}")

    def result(self, timeout: float | None = None) -> int:
        """Return the number of rows, once all are stored; waits at most `timeout` seconds.

        Raises `KafkaTimeoutError` when that takes longer, or the first error with which rows failed.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error.with_traceback(None)
        return self.rows

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Return the first error with which rows failed, or None; waits at most `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for result, *ends in self._parts:
            for index in ends:
                result.wait_for(index, None if deadline is None else max(0.0, deadline - time.monotonic()))
        return self._error or next(self._errors(), None)

    def _errors(self) -> Iterator[KafkaError]:
        for result, first, last in self._parts:
            # One error fails a whole batch; only where it was split its records may differ.
            for index in range(first, last + 1) if result.is_split else (first,):
                error = result.outcome(index)[1]
                if error is not None:
                    yield error

    def failed_rows(self) -> list[tuple[int, KafkaError]]:
        """Return the rows that failed, by their place in the table, with their errors; waits until all are done."""
        if self.exception() is None:
            return []
        order = itertools.chain.from_iterable(self._order)
        sent = (
            (next(order), result.outcome(index)[1])
            for result, first, last in self._parts
            for index in range(first, last + 1)
        )
        found = [(row, error) for row, error in sent if error is not None]
        return found if self._error is None else [*found, *((row, self._error) for row in order)]

    def last_offsets(self) -> dict[TopicPartition, int]:
        """Return the highest offset of the stored rows in each partition."""
        found: dict[TopicPartition, int] = {}
        for result, _first, last in self._parts:
            (partition, offset, _time), error = result.outcome(last)
            if error is None and offset >= 0:
                found[partition] = max(offset, found.get(partition, -1))
        return found

    def __await__(self) -> Generator[Any, None, int]:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> int:
        from barnabas.client.producer.record_metadata import wait_for_record

        for result, *ends in self._parts:
            for index in ends:
                if not result.done(index):
                    await wait_for_record(result, index)
        return self.result(0)

    def done(self) -> bool:
        """Whether every row was stored or has failed."""
        return all(result.done(index) for result, *ends in self._parts for index in ends)


class Places:
    """The places in a table of `count` rows of a chunk that begins at row `start`; `order` says which, None: all."""

    __slots__ = ("_count", "_order", "_start")

    def __init__(self, start: int, count: int, order: pa.Array | None = None) -> None:
        self._start, self._count, self._order = start, count, order

    def __iter__(self) -> Iterator[int]:
        places = range(self._count) if self._order is None else self._order.to_pylist()
        return (self._start + place for place in places)


class Group(NamedTuple):
    """Rows of a table for one partition (-1: the sticky one)."""

    partition: int
    rows: pa.RecordBatch
    places: Places


def dealt_out(
    cluster: Cluster, topic: str, table: pa.Table | pa.RecordBatch, max_record_size: int, now_ms: int
) -> list[Group]:
    """Return the table's rows by partition, checked: from here on each of them can be sent."""
    pa = pyarrow()
    if not isinstance(table, pa.Table | pa.RecordBatch):
        raise IllegalTypeError(f"send_table() takes a pyarrow.Table or RecordBatch, not {type(table).__name__}")
    chunks = table.to_batches() if isinstance(table, pa.Table) else [table]
    groups, start = list[Group](), 0
    for chunk in chunks:
        arrow_rows(chunk, now_ms)
        _check_timestamps(chunk)
        _check_sizes(chunk, max_record_size)
        groups += _by_partition(chunk, start, cluster.partition_count_for_topic(topic) or 0, topic)
        start += chunk.num_rows
    return groups


def _by_partition(chunk: pa.RecordBatch, begin: int, count: int, topic: str) -> Iterator[Group]:
    import pyarrow as pa
    import pyarrow.compute as pc

    names = chunk.schema.names
    if not chunk.num_rows:
        return
    if count == 1 and "partition" not in names:
        # With nothing to choose, rows with and without key stay in their order.
        yield Group(0, chunk, Places(begin, chunk.num_rows))
        return
    if "key" not in names and "partition" not in names:
        yield Group(STICKY, chunk, Places(begin, chunk.num_rows))
        return
    if "key" in names:
        chosen = partition_column(chunk.column("key"), count)
    else:
        chosen = pa.repeat(plain_scalar(pa, pa.int32(), STICKY), chunk.num_rows)
    if "partition" in names:
        given = _given_partitions(chunk.column("partition"), count, topic)
        chosen = pc.coalesce(given, chosen)
    # A stable sort: rows of one partition keep their order.
    order = pc.sort_indices(chosen)
    ordered, chunk = chosen.take(order), chunk.take(order)
    counted = pc.value_counts(ordered)
    start = 0
    for entry in sorted(counted.to_pylist(), key=lambda entry: entry["values"]):
        rows = start, entry["counts"]
        yield Group(entry["values"], chunk.slice(*rows), Places(begin, entry["counts"], order.slice(*rows)))
        start += entry["counts"]


def _given_partitions(column: pa.Array, count: int, topic: str) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type):
        raise IllegalTypeError(f"column 'partition' has type {column.type}; it must hold integers")
    bounds = pc.min_max(column).as_py()
    for bound in bounds.values():
        if bound is not None and not 0 <= bound < count:
            raise IllegalArgumentError(f"column 'partition' holds {bound}; topic {topic!r} has 0 to {count - 1}")
    return column.cast(pa.int32())


def _check_timestamps(chunk: pa.RecordBatch) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if "timestamp" not in chunk.schema.names:
        return
    # Before they are cut to milliseconds, which would make 0 of a microsecond before 1970.
    least = pc.min(chunk.column("timestamp").cast(pa.int64())).as_py()
    if least is not None and least < 0:
        raise IllegalArgumentError(
            f"column 'timestamp' holds {least}, which is before 1970: Kafka's records have no negative timestamps; "
            "nothing of the table was sent"
        )


def _check_sizes(chunk: pa.RecordBatch, limit: int) -> None:
    import pyarrow.compute as pc

    columns = [chunk.column(name) for name in ("key", "value") if name in chunk.schema.names]
    # Length fields of key and value take at most five bytes each.
    room = limit - record_size_upper_bound(None, None) - 10
    if sum(pc.max(pc.binary_length(_plain(column))).as_py() or 0 for column in columns) <= room:
        return
    lengths = [pc.fill_null(pc.binary_length(_plain(column)), 0) for column in columns]
    sizes = lengths[0] if len(lengths) == 1 else pc.add(*lengths)
    largest = pc.max(sizes).as_py()
    if largest > room:
        row = pc.index(sizes, pc.max(sizes)).as_py()
        raise RecordTooLargeError(
            f"Row {row} takes {largest} bytes, more than max.request.size or buffer.memory allow ({limit}); nothing of "
            "the table was sent"
        )


def _plain(column: pa.Array) -> pa.Array:
    """Return the column in a type whose lengths Arrow can tell (not a dictionary or a view)."""
    import pyarrow as pa

    return column if column.type in (pa.binary(), pa.string(), pa.large_binary()) else column.cast(pa.binary())
