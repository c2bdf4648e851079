"""The sink: Arrow batches out of Spark into topics, at least once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.client.producer.producer import Producer
from barnabas.spark.errors import SinkSchemaError
from barnabas.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from barnabas.client.producer.send_table import TableFuture

#: Column, the types it may have in Spark, whether it must be there.
SINK_COLUMNS = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}


class WrittenRecords(WriterCommitMessage):
    """How many records a task wrote; every one of them was acknowledged."""

    def __init__(self, count: int) -> None:
        """`count`: records acknowledged by the brokers."""
        self.count = count


def check_schema(schema: StructType, options: SinkOptions) -> None:
    """Hold the rows' schema against what a topic can take; raises SinkSchemaError as the built-in connector would."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise SinkSchemaError(f"the sink needs a column 'value' (string or binary); the rows have {sorted(types)}")
    if "topic" not in types and options.topic is None:
        raise SinkSchemaError("the sink needs the option topic, or a column 'topic' (string) in every row")
    for name, actual in types.items():
        if name not in SINK_COLUMNS:
            raise SinkSchemaError(
                f"the sink cannot write a column {name!r}; it takes {', '.join(SINK_COLUMNS)}. Select what the "
                "record shall hold, for instance to_json(struct(...)) as value"
            )
        if actual not in SINK_COLUMNS[name]:
            allowed = " or ".join(SINK_COLUMNS[name])
            raise SinkSchemaError(f"the sink's column {name!r} must be {allowed}, not {actual}")


def write_batches(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRecords:
    """Send all rows and wait for every acknowledgement; raises what the first failed row raised.

    While a batch of rows is on its way the next one is encoded; there are never more than two in memory.
    """
    count = 0
    sent: list[TableFuture] = []
    with contextlib.ExitStack() as stack:
        producer: Producer[Any, Any] | None = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            producer = producer or stack.enter_context(Producer(options.client))
            on_their_way = [producer.send_table(topic, rows) for topic, rows in _by_topic(batch, options.topic)]
            count += _acknowledged(sent)
            sent = on_their_way
        count += _acknowledged(sent)
    return WrittenRecords(count)


def _acknowledged(sent: list[TableFuture]) -> int:
    return sum(future.result() for future in sent)


def _by_topic(batch: pa.RecordBatch, option: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split by the topic column; the topic option, when set, wins over the column."""
    import pyarrow.compute as pc

    if "topic" not in batch.schema.names:
        yield option or "", batch
        return
    rows = batch.drop_columns(["topic"])
    if option is not None:
        yield option, rows
        return
    topics = batch.column("topic")
    for topic in pc.unique(topics).to_pylist():
        if topic is None:
            raise SinkSchemaError("a row has null in the column 'topic', and the option topic is not set")
        yield topic, rows.filter(pc.equal(topics, topic))


class KafkaBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; each task's records are acknowledged before it ends."""

    def __init__(self, options: SinkOptions) -> None:
        """The writer is pickled to the tasks."""
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; runs in an executor."""
        return write_batches(self.options, iterator)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes every micro-batch at least once: a batch that Spark runs again is written again."""

    def __init__(self, options: SinkOptions) -> None:
        """The writer is pickled to the tasks."""
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; runs in an executor."""
        return write_batches(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do: the records were acknowledged in the tasks."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing can be done: what was acknowledged stays; the batch will be written again."""
