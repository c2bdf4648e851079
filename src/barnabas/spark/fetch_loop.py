"""What a task does: fetch a range of offsets and hand it to Spark as Arrow batches."""

from __future__ import annotations

import functools
import gc
import logging
import os
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.client.consumer.consumer import Consumer
from barnabas.spark.consumer_cache import ConsumerCache
from barnabas.spark.errors import DataLossError
from barnabas.spark.fetched_ahead import FetchedAheadCache
from barnabas.spark.handover import Handover
from barnabas.spark.kafka_consumer_thread import Fetched, KafkaConsumerThread
from barnabas.spark.kafka_fetcher import KafkaFetcher, fetched_until
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.protocol.topic_partition import TopicPartition

LOGGER = logging.getLogger("barnabas.spark")

#: What a task's consumer is set to, unless the query's `kafka.*` options say otherwise.
CONSUMER_DEFAULTS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    "allow.auto.create.topics": "false",
    # All of a range exists. A fetch that waits is one beyond its end, and the next task's fetch would wait behind it.
    "fetch.max.wait.ms": "10",
    # Kafka's 1 MB is 9,000 rows of 100 bytes, of which each fetch costs the interpreter as much as decoding 2,000.
    "max.partition.fetch.bytes": str(4 << 20),
}

#: Where an executor's machine says in which rack it stands, unless kafka.client.rack says it for all.
RACK_VARIABLE = "BARNABAS_CLIENT_RACK"

_consumers: ConsumerCache[Consumer] = ConsumerCache()
_fetched_ahead = FetchedAheadCache()


def read_range(
    options: SourceOptions, offset_range: OffsetRange, topic_id: bytes | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order, as batches in the source's schema.

    Offsets without a record (compacted, or markers of transactions) are passed over. Raises DataLossError when the
    range's first offsets are gone and failOnDataLoss is true, KafkaTimeoutError when nothing arrives for
    kafkaConsumer.pollTimeoutMs.
    """
    settings = frozenset(options.client.items())
    consumer = _consumers.acquire(settings, lambda: _new_consumer(options))
    is_in_order = False
    try:
        yield from _read(options, consumer, offset_range, (settings, offset_range.topic_partition, topic_id))
        is_in_order = True
    except GeneratorExit:
        is_in_order = True  # Spark wants no more rows
        raise
    finally:
        if is_in_order:
            _consumers.release(settings, consumer)
        else:
            consumer.close()
        _spare_garbage_collection()


def _read(
    options: SourceOptions, consumer: Consumer, offset_range: OffsetRange, reader: Hashable
) -> Iterator[pa.RecordBatch]:
    left = offset_range
    while left.size > 0:
        ahead = _fetched_ahead.take(reader, left.start) if options.keep_fetched_ahead else ()
        fetcher = _fetcher(options, consumer, left, ahead)
        try:
            yield from fetcher.run_fetch_loop()
            left = left._replace(start=fetcher.position)
        except errors.OffsetOutOfRangeError as error:
            left = left._replace(start=_after_loss(options, consumer, left, fetcher.position, error))
        finally:
            if options.keep_fetched_ahead:
                _fetched_ahead.keep(reader, fetcher.position, fetcher.fetched_ahead)


def _fetcher(options: SourceOptions, consumer: Consumer, left: OffsetRange, ahead: Fetched) -> KafkaFetcher:
    partition = left.topic_partition
    _position(consumer, partition, fetched_until(ahead, left.start), anew=not options.keep_fetched_ahead)
    handover: Handover[Fetched] = Handover()

    def describe_stall() -> str:
        return (
            f"no record of {partition} came for {options.poll_timeout:g} s while reading offsets {left.start} to "
            f"{left.end}: see whether the brokers {options.client['bootstrap.servers']} can be reached, or raise "
            "kafkaConsumer.pollTimeoutMs"
        )

    thread = KafkaConsumerThread(consumer, handover, stall_timeout=options.poll_timeout, describe_stall=describe_stall)
    return KafkaFetcher(left, thread, handover, options.columns, ahead)


def _position(consumer: Consumer, partition: TopicPartition, offset: int, *, anew: bool) -> None:
    """Have the consumer read on from `offset`; unless `anew`, what it has fetched stays if it stands there already."""
    if consumer.assignment() != {partition}:
        consumer.assign([partition])
    elif not anew and consumer.position(partition) == offset:
        return
    consumer.seek(partition, offset)


def _after_loss(options: SourceOptions, consumer: Consumer, left: OffsetRange, position: int, error: Exception) -> int:
    """Where to read on without the offsets that are gone; past the range when all of it is."""
    partition = left.topic_partition
    earliest = _earliest(consumer, partition)
    lost = min(earliest, left.end) if earliest > position else left.end
    message = (
        f"offsets {position} to {lost} of {partition} are gone (it begins at {earliest} now): they aged out, or the "
        "topic was deleted and created again"
    )
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{message}. Some data may have been missed. To go on without it set failOnDataLoss=false"
        ) from error
    LOGGER.warning("failOnDataLoss=false: %s", message)
    return lost


def _earliest(consumer: Consumer, partition: TopicPartition) -> int:
    while True:
        try:
            return consumer.beginning_offsets([partition])[partition]
        except errors.WakeupError:
            continue  # left over from the shutdown of the thread that polled


@functools.cache
def _spare_garbage_collection() -> None:
    """Leave what the worker has loaded so far out of the collection that Spark's daemon runs after every task.

    It is 80,000 objects of modules that stay anyway, and looking at them takes as long as reading 100,000 records.
    """
    if "SPARK_REUSE_WORKER" in os.environ:
        gc.freeze()


def _new_consumer(options: SourceOptions) -> Consumer:
    return Consumer(consumer_settings(options.client, os.environ))


def consumer_settings(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What a task's consumer is set to: the query's `kafka.*` options, and the rack of the executor's machine."""
    rack = {"client.rack": environment[RACK_VARIABLE]} if environment.get(RACK_VARIABLE) else {}
    settings = {name: value for name, value in given.items() if name != "group.id"}
    return {**CONSUMER_DEFAULTS, **rack, **settings}
