"""What a task does: fetch ranges of offsets and hand them to Spark as Arrow batches."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.client.consumer.consumer import Consumer
from barnabas.spark.client_cache import ClientCache
from barnabas.spark.errors import DataLossError
from barnabas.spark.fetched_ahead import FetchedAheadCache
from barnabas.spark.garbage_collection import freeze_loaded_objects
from barnabas.spark.handover import Handover
from barnabas.spark.kafka_consumer_thread import Fetched, KafkaConsumerThread
from barnabas.spark.kafka_fetcher import Appending, KafkaFetcher, append_all, fetched_until
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

#: How long a task asks where a partition begins and ends, once offsets are missing.
LOOK_UP_SECONDS = 20.0

LookUp = Callable[["list[TopicPartition]", float], "dict[TopicPartition, int]"]

_consumers: ClientCache[Consumer] = ClientCache()
_fetched_ahead = FetchedAheadCache()


def read_ranges(
    options: SourceOptions,
    ranges: Iterable[OffsetRange],
    topic_ids: Mapping[str, bytes | None],
    append: Appending = append_all,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of ranges of different partitions, those of each in order, as batches in the source's schema.

    Offsets without a record (compacted, or markers of transactions) are passed over, and what `append` leaves out of
    what was fetched. Raises DataLossError when a
    range's first offsets are gone and failOnDataLoss is true, KafkaTimeoutError when nothing arrives for
    kafkaConsumer.pollTimeoutMs.
    """
    settings = frozenset(options.client.items())
    consumer = _consumers.acquire(settings, lambda: _new_consumer(options))
    is_in_order = False
    try:
        yield from _read(_Task(options, consumer, settings, topic_ids, append), ranges)
        is_in_order = True
    except GeneratorExit:
        is_in_order = True  # Spark wants no more rows
        raise
    finally:
        if is_in_order:
            _consumers.release(settings, consumer)
        else:
            consumer.close()
        freeze_loaded_objects()


class _Task(NamedTuple):
    options: SourceOptions
    consumer: Consumer
    settings: Hashable
    topic_ids: Mapping[str, bytes | None]
    append: Appending

    def __repr__(self) -> str:
        return f"_Task({self.options.client!r})"

    def take_fetched_ahead(self, offset_range: OffsetRange) -> Fetched:
        if not self.options.keep_fetched_ahead:
            return ()
        return _fetched_ahead.take(self._reader(offset_range.topic_partition), offset_range.start)

    def keep_fetched_ahead(self, fetcher: KafkaFetcher) -> None:
        if self.options.keep_fetched_ahead:
            for partition, position in fetcher.positions.items():
                _fetched_ahead.keep(self._reader(partition), position, fetcher.fetched_ahead(partition))

    def _reader(self, partition: TopicPartition) -> Hashable:
        return self.settings, partition, self.topic_ids.get(partition.topic)


def _read(task: _Task, ranges: Iterable[OffsetRange]) -> Iterator[pa.RecordBatch]:
    left = [offset_range for offset_range in ranges if offset_range.size > 0]
    while left:
        ahead = [data for offset_range in left for data in task.take_fetched_ahead(offset_range)]
        fetcher = _fetcher(task.options, task.consumer, left, ahead, task.append)
        try:
            yield from fetcher.run_fetch_loop()
        except errors.OffsetOutOfRangeError as error:
            _pass_over(task, [each for each in left if each.topic_partition in error.partitions], fetcher, error)
        except errors.KafkaTimeoutError as error:
            beyond = _beyond_the_log(task, left, fetcher)
            if not beyond:
                raise
            _pass_over(task, beyond, fetcher, error)
        finally:
            task.keep_fetched_ahead(fetcher)
        left = [each._replace(start=fetcher.positions[each.topic_partition]) for each in left]
        left = [offset_range for offset_range in left if offset_range.size > 0]


def _fetcher(
    options: SourceOptions,
    consumer: Consumer,
    left: Sequence[OffsetRange],
    ahead: Fetched,
    append: Appending = append_all,
) -> KafkaFetcher:
    starts = {offset_range.topic_partition: offset_range.start for offset_range in left}
    _position(consumer, fetched_until(ahead, starts), anew=not options.keep_fetched_ahead)
    handover: Handover[Fetched] = Handover()

    def describe_stall() -> str:
        wanted = ", ".join(f"offsets {start} to {end} of {partition}" for partition, start, end in left)
        return (
            f"no record came for {options.poll_timeout:g} s while reading {wanted}: see whether the brokers "
            f"{options.client['bootstrap.servers']} can be reached, or raise kafkaConsumer.pollTimeoutMs"
        )

    thread = KafkaConsumerThread(consumer, handover, stall_timeout=options.poll_timeout, describe_stall=describe_stall)
    return KafkaFetcher(left, thread, handover, options.columns, ahead, append)


def _position(consumer: Consumer, offsets: Mapping[TopicPartition, int], *, anew: bool) -> None:
    """Have the consumer read on from these; unless `anew`, what it has fetched stays where it stands there already."""
    if consumer.assignment() != set(offsets):
        consumer.assign(list(offsets))
        anew = True
    for partition, offset in offsets.items():
        if anew or consumer.position(partition) != offset:
            consumer.seek(partition, offset)


def _beyond_the_log(task: _Task, left: Sequence[OffsetRange], fetcher: KafkaFetcher) -> list[OffsetRange]:
    """Of ranges of which nothing came, those that go on where their partition ends: what is missing is lost."""
    unread = [each for each in left if fetcher.positions[each.topic_partition] < each.end]
    try:
        ends = _looked_up(task.consumer.end_offsets, unread)
    except errors.KafkaError:
        return []  # the brokers cannot be reached, which is the better answer
    return [each for each in unread if fetcher.positions[each.topic_partition] >= ends[each.topic_partition]]


def _pass_over(task: _Task, lost: Sequence[OffsetRange], fetcher: KafkaFetcher, error: Exception) -> None:
    """Go on without the offsets that are gone; raises DataLossError where that is not allowed."""
    for each in lost:
        position = fetcher.positions[each.topic_partition]
        fetcher.positions[each.topic_partition] = _after_loss(task, each, position, error)


def _after_loss(task: _Task, left: OffsetRange, position: int, error: Exception) -> int:
    """Where to read on without the offsets that are gone; past the range when all of it is."""
    partition = left.topic_partition
    earliest = _looked_up(task.consumer.beginning_offsets, [left])[partition]
    latest = _looked_up(task.consumer.end_offsets, [left])[partition]
    lost = min(earliest, left.end) if earliest > position else left.end
    message = (
        f"offsets {position} to {lost} of {partition} are gone (it holds {earliest} to {latest} now): they aged out, "
        "the topic was deleted and created again, or they were never written"
    )
    if task.options.fail_on_data_loss:
        raise DataLossError(
            f"{message}. Some data may have been missed. To go on without it set failOnDataLoss=false"
        ) from error
    LOGGER.warning("failOnDataLoss=false: %s", message)
    return lost


def _looked_up(ask: LookUp, ranges: Iterable[OffsetRange]) -> Mapping[TopicPartition, int]:
    partitions = [offset_range.topic_partition for offset_range in ranges]
    while True:
        try:
            return ask(partitions, LOOK_UP_SECONDS)
        except errors.WakeupError:
            continue  # left over from the shutdown of the thread that polled


def _new_consumer(options: SourceOptions) -> Consumer:
    return Consumer(consumer_settings(options.client, os.environ))


def consumer_settings(given: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return a task's consumer settings: the query's `kafka.*` options, and the rack of the executor."""
    rack = {"client.rack": environment[RACK_VARIABLE]} if environment.get(RACK_VARIABLE) else {}
    settings = {name: value for name, value in given.items() if name != "group.id"}
    return {**CONSUMER_DEFAULTS, **rack, **settings}
