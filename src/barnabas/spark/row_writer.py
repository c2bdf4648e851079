"""From the Arrow batches of a task to a producer, column-wise."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.errors import KafkaError
from barnabas.spark.errors import SinkSchemaError
from barnabas.spark.sink_schema import NULL_TOPIC, sink_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.producer.send_table import TableFuture
    from barnabas.protocol.topic_partition import TopicPartition


class TableSender(Protocol):
    """What is needed of a producer."""

    def send_table(self, topic: str, table: Any) -> TableFuture:
        """Send the rows of a table to a topic."""

    def flush(self) -> None:
        """Send everything now, and wait for the results."""


class RowsRefusedError(KafkaError):
    """Rows could not be written and are left out from now on; the others must be written in another transaction."""


class AskedRows(Protocol):
    """Rows of a task that may be left out when they cannot be written."""

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all rows from the first on, also when some of `batches` were taken for an attempt that failed."""

    def writer(self, producer: TableSender) -> Writer:
        """Return what writes them once; raises RowsRefusedError when they must be written again."""


class Writer(Protocol):
    """Writes the rows of a task; see `RowWriter`."""

    ends: dict[TopicPartition, int]

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows."""

    def finish(self) -> int:
        """Return the number of rows, once each is acknowledged."""


class RowWriter:
    """Sends batches of rows to their topics; the first row that fails fails the task.

    The producer's buffer.memory bounds what is on its way. The option topic wins over the column.
    """

    def __init__(
        self, producer: TableSender, topic: str | None, *, include_timestamp: bool = True, notes_ends: bool = False
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._columns = frozenset(sink_columns(include_timestamp=include_timestamp)) - {"topic"}
        self._sent: deque[TableFuture] = deque()
        self._count = 0
        self._notes_ends = notes_ends
        #: With `notes_ends` the last offset written in each partition; complete after `finish`.
        self.ends: dict[TopicPartition, int] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        """Send the rows, as far as there is memory; raises what rows sent earlier raised."""
        if batch.num_rows == 0:
            return
        for topic, rows in by_topic(batch, self._topic, self._columns):
            self._sent.append(self._producer.send_table(topic, rows))
        while self._sent and self._sent[0].done():
            self._take_result()

    def finish(self) -> int:
        """Return the number of rows, once each is acknowledged; raises what the first that failed raised."""
        if self._sent:
            self._producer.flush()
        while self._sent:
            self._take_result()
        return self._count

    def _take_result(self) -> None:
        future = self._sent.popleft()
        self._count += future.result()
        if not self._notes_ends:
            return
        for partition, offset in future.last_offsets().items():
            self.ends[partition] = max(offset, self.ends.get(partition, -1))


def by_topic(
    batch: pa.RecordBatch, option: str | None, columns: Collection[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of each topic with those of `columns` that there are.

    Raises SinkSchemaError for a topic that is null.
    """
    import pyarrow.compute as pc

    rows = batch.select([name for name in batch.schema.names if name in columns])
    if option is not None:
        yield option, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise SinkSchemaError(NULL_TOPIC)
    found = pc.unique(topics)
    for topic in found:  # one of Arrow's scalars: of a Python value it makes one by loading pandas
        yield topic.as_py(), rows if len(found) == 1 else rows.filter(pc.equal(topics, topic))
