"""The plain sink: Arrow batches out of Spark into topics, at least once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from barnabas.client.producer.producer import Producer
from barnabas.spark.client_cache import ClientCache
from barnabas.spark.garbage_collection import freeze_loaded_objects
from barnabas.spark.options import SinkOptions
from barnabas.spark.row_writer import RowWriter

if TYPE_CHECKING:
    import pyarrow as pa

#: Producers that no task of this Python worker uses at the moment, by their settings.
_PRODUCERS: ClientCache[Producer[Any, Any]] = ClientCache(most_idle=2)


class WrittenRecords(WriterCommitMessage):
    """How many records a task wrote; every one of them was acknowledged."""

    def __init__(self, count: int) -> None:
        """`count`: records acknowledged by the brokers."""
        self.count = count


def write_batches(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRecords:
    """Send all rows and wait for every acknowledgement; raises what the first failed row raised."""
    key = tuple(sorted(options.client.items()))
    producer = _PRODUCERS.acquire(key, lambda: Producer(options.client))
    try:
        writer = RowWriter(producer, options.topic, include_timestamp=options.include_timestamp)
        for batch in batches:
            writer.write(batch)
        count = writer.finish()
    except BaseException:
        # The task no longer waits for the records in flight.
        producer.close(0)
        raise
    _PRODUCERS.release(key, producer)
    freeze_loaded_objects()
    return WrittenRecords(count)


class KafkaBatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame; each task's records are acknowledged before it ends."""

    def __init__(self, options: SinkOptions) -> None:
        """Keep what can be pickled to the tasks."""
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; runs in an executor."""
        return write_batches(self.options, iterator)


class KafkaStreamWriter(DataSourceStreamArrowWriter):
    """Writes every micro-batch at least once: a batch that Spark runs again is written again."""

    def __init__(self, options: SinkOptions) -> None:
        """Keep what can be pickled to the tasks."""
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send a task's rows; runs in an executor."""
        return write_batches(self.options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to do: the records were acknowledged in the tasks."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing can be done: what was acknowledged stays; the batch will be written again."""
