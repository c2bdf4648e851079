"""What a task does: fetch a range of offsets and hand it to Spark as Arrow batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.client.consumer.consumer import Consumer
from barnabas.spark.errors import DataLossError
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.schema import arrow_schema, column_names

if TYPE_CHECKING:
    import pyarrow as pa

LOGGER = logging.getLogger("barnabas.spark")

#: How long one poll waits, and how long a task goes without a single record before it gives up.
POLL_SECONDS, STALL_SECONDS = 1.0, 120.0

#: Spark reuses its Python workers, so a consumer with its connections outlives the task: one for each set of settings.
_consumers: dict[frozenset[tuple[str, str]], Consumer] = {}


def read_range(options: SourceOptions, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order, as batches in the source's schema.

    Offsets without a record (compacted, or markers of transactions) are passed over. Raises DataLossError when the
    range's first offsets are gone and failOnDataLoss is true, KafkaTimeoutError when nothing arrives for two minutes.
    """
    consumer = _consumer(options)
    try:
        yield from _read(options, consumer, offset_range)
    except BaseException:
        _discard(consumer)
        raise
    consumer.unsubscribe()


def _read(options: SourceOptions, consumer: Consumer, offset_range: OffsetRange) -> Iterator[pa.RecordBatch]:
    partition = offset_range.topic_partition
    schema, columns = arrow_schema(options.include_headers), column_names(options.include_headers)
    consumer.assign([partition])
    consumer.seek(partition, offset_range.start)
    position, heard = offset_range.start, time.monotonic()
    while position < offset_range.end:
        try:
            batch = consumer.poll_arrow(POLL_SECONDS)
        except errors.OffsetOutOfRangeError as error:
            position = _after_loss(options, consumer, offset_range, position, error)
            continue
        before, position = position, consumer.position(partition)
        if batch is not None and batch.num_rows:
            batch = _until(batch, offset_range.end).select(columns)
            if batch.num_rows:
                yield batch if batch.schema == schema else batch.cast(schema)
        if position > before:
            heard = time.monotonic()
        elif time.monotonic() - heard > STALL_SECONDS:
            raise errors.KafkaTimeoutError(
                f"no record of {partition} came for {STALL_SECONDS:.0f} s at offset {position} of {offset_range.start} "
                f"to {offset_range.end}: see whether the brokers {options.client['bootstrap.servers']} can be reached"
            )


def _until(batch: pa.RecordBatch, end: int) -> pa.RecordBatch:
    """Cut what lies at or past `end`; the offsets of a batch rise."""
    offsets = batch.column("offset")
    if offsets[-1].as_py() < end:
        return batch
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high) // 2
        if offsets[middle].as_py() < end:
            low = middle + 1
        else:
            high = middle
    return batch.slice(0, low)


def _after_loss(
    options: SourceOptions, consumer: Consumer, offset_range: OffsetRange, position: int, error: Exception
) -> int:
    partition = offset_range.topic_partition
    earliest = consumer.beginning_offsets([partition])[partition]
    lost = min(earliest, offset_range.end)
    message = (
        f"offsets {position} to {lost} of {partition} are gone (it begins at {earliest} now): they aged out, or the "
        "topic was deleted and created again"
    )
    if options.fail_on_data_loss or earliest <= position:
        raise DataLossError(
            f"{message}. Some data may have been missed. To go on without it set failOnDataLoss=false"
        ) from error
    LOGGER.warning("failOnDataLoss=false: %s", message)
    consumer.seek(partition, lost)
    return lost


def _consumer(options: SourceOptions) -> Consumer:
    key = frozenset(options.client.items())
    if key not in _consumers:
        settings = {name: value for name, value in options.client.items() if name != "group.id"}
        defaults = {"enable.auto.commit": "false", "auto.offset.reset": "none", "allow.auto.create.topics": "false"}
        _consumers[key] = Consumer({**defaults, **settings})
    return _consumers[key]


def _discard(consumer: Consumer) -> None:
    """Forget a consumer that failed in mid-range, so that the next task starts with a fresh one."""
    for key in [key for key, value in _consumers.items() if value is consumer]:
        del _consumers[key]
    consumer.close()
