"""A streaming query: the driver's bookkeeping of offsets, from micro-batch to micro-batch."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from barnabas import anatomy
from barnabas.errors import KafkaError
from barnabas.spark.errors import DataLossError
from barnabas.spark.input_partitions import input_partitions, read_partition
from barnabas.spark.offset_reader import OffsetReader
from barnabas.spark.offsets import Offsets, OffsetsJson, from_json, to_json
from barnabas.spark.options import SourceOptions
from barnabas.spark.ranges import OffsetRange
from barnabas.spark.rate_limit import TriggerDelay, limited

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.protocol.topic_partition import TopicPartition

LOGGER = logging.getLogger("barnabas.spark")


class KafkaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's micro-batch source over a set of topic-partitions; offsets have the built-in connector's JSON form."""

    def __init__(self, options: SourceOptions) -> None:
        """Keep the options only: a copy of the reader is pickled to the tasks."""
        self.options = options
        self._offsets: OffsetReader | None = None
        self._end_of_available_now: Offsets | None = None
        self._delay = TriggerDelay()
        self._topic_ids: dict[str, bytes] = {}
        # Partitions of topics that were created again, and the offset of the old topic that Spark still goes on from.
        self._begun_again: Offsets = {}
        self._uncommitted: Offsets = {}
        self._committed_at = float("-inf")
        # Losses that are known: Spark asks about 94 times a second, and is told of each once.
        self._reported: set[str] = set()
        self._commit_problem = ""
        self._planned = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options}

    def initialOffset(self) -> OffsetsJson:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins."""
        return to_json(self._cluster().resolve(self.options.starting))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """`maxOffsetsPerTrigger` as Spark's ReadMaxRows, `minOffsetsPerTrigger` as ReadMinRows, or no limit."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: Mapping[str, Mapping[str, int]], limit: ReadLimit) -> OffsetsJson:  # noqa: N802
        """Return the next micro-batch's end: all there is, what the limits allow, or `start` to wait for more.

        Partitions that appeared since `start` are read from their first offset on. A partition that is missing now
        keeps its offset, and is reported by `partitions` unless it returns.
        """
        if not isinstance(limit, ReadAllAvailable | ReadMaxRows | ReadMinRows):
            raise NotImplementedError(f"the format 'barnabas' cannot limit a micro-batch by {limit!r}")
        self._commit_what_is_due()
        begin = from_json(start)
        latest = self._checked(begin, self._end(begin))
        if isinstance(limit, ReadAllAvailable):
            return to_json(latest)
        begin = {**begin, **self._cluster().earliest(set(latest) - set(begin))}
        if self._holds_back(begin, latest):
            return to_json(from_json(start))
        return to_json(limited(begin, latest, limit.max_rows) if isinstance(limit, ReadMaxRows) else latest)

    def reportLatestOffset(self) -> OffsetsJson | None:  # noqa: N802 - Spark's name
        """Return the ends of all partitions, for the query's progress."""
        return to_json(self._cluster().latest())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query that reads what exists now and stops."""
        self._end_of_available_now = self._cluster().latest(fresh=True)

    def partitions(
        self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]
    ) -> Sequence[InputPartition]:
        """Return the tasks of one micro-batch. Raises as `ranges` does."""
        return input_partitions(self.options, self.ranges(start, end), self.topic_ids)

    @property
    def topic_ids(self) -> dict[str, bytes | None]:
        """The ids of the topics that are read."""
        return self._cluster().topic_ids

    def ranges(self, start: Mapping[str, Mapping[str, int]], end: Mapping[str, Mapping[str, int]]) -> list[OffsetRange]:
        """Return the ranges of one micro-batch, empty ones too.

        Raises DataLossError when offsets are gone and failOnDataLoss is true.
        """
        begin, until = from_json(start), from_json(end)
        appeared = self._cluster().earliest(set(until) - set(begin))
        known = {partition.topic for partition in begin}
        for partition, first in appeared.items():
            # A topic that a pattern of a stream application has found begins where it begins.
            if first > 0 and (self.options.co_partitions is None or partition.topic in known):
                self._report_loss(f"{partition} is new to the query and its records before offset {first} are gone")
        for gone in sorted(set(begin) - set(until)):
            self._report_loss(self._why_gone(gone, begin[gone]))
        again = [partition for partition, offset in self._begun_again.items() if begin.get(partition) == offset]
        begin = {**begin, **appeared, **self._cluster().earliest(set(again) & set(until))}
        found = [OffsetRange(partition, begin[partition], offset) for partition, offset in sorted(until.items())]
        self._planned += 1
        if anatomy.active is not None:
            for each in found:
                told = self._name, self._planned, *each.topic_partition, each.start, each.end
                anatomy.active.record(anatomy.events.MicroBatchPlanned(*told))
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's records as Arrow batches; runs in an executor."""
        return read_partition(self.options, partition)

    def commit(self, end: Mapping[str, Mapping[str, int]]) -> None:
        """Commit a finished micro-batch's end to the group, as offsetCommitMode says.

        It is for others to see: Spark's checkpoint is what counts. A commit that fails is logged; the next one makes
        up for it.
        """
        if anatomy.active is not None:
            for partition, offset in from_json(end).items():
                anatomy.active.record(anatomy.events.MicroBatchEnded(self._name, *partition, offset))
        if self.options.commit_mode == "disabled":
            return
        self._uncommitted = from_json(end)
        if self.options.commit_mode == "oncheckpoint":
            self._commit_to_group()
        else:
            self._commit_what_is_due()

    def stop(self) -> None:
        """Commit what is left to the group, and let go of the connections."""
        if self._offsets is not None:
            if self._uncommitted:
                self._commit_to_group()
            self._offsets.close()
            self._offsets = None

    def _cluster(self) -> OffsetReader:
        if self._offsets is None:
            anatomy.record_if_asked("driver")
            self._offsets = OffsetReader(self.options)
        return self._offsets

    @property
    def _name(self) -> str:
        """What the query is called in recordings: Spark does not tell a source the query's own name."""
        return self.options.group_id or repr(self.options.strategy())

    def _end(self, begin: Offsets) -> Offsets:
        """Return the ends, asked for again where one lies before what was read: a broker may lag (KAFKA-7703)."""
        latest = self._cluster().latest() if self._end_of_available_now is None else self._end_of_available_now
        self._note_topics(begin)
        for _ in range(self.options.fetch_offset_retries):
            if not self._shrunken(begin, latest):
                break
            time.sleep(self.options.fetch_offset_retry_interval)
            latest = self._cluster().latest(fresh=True)
            self._note_topics(begin)
            if self._end_of_available_now is not None:
                self._end_of_available_now = latest
        return latest

    def _shrunken(self, begin: Offsets, latest: Offsets) -> list[TopicPartition]:
        """Partitions that end before what was read of them, though their topic was not created again."""
        return [
            partition
            for partition, offset in begin.items()
            if partition not in self._begun_again and latest.get(partition, offset) < offset
        ]

    def _commit_what_is_due(self) -> None:
        """Commit what offsetCommitMode=periodic has left, once its time has come; also while no more data comes."""
        if not self._uncommitted or self.options.commit_mode != "periodic":
            return
        if time.monotonic() - self._committed_at >= self.options.commit_interval:
            self._commit_to_group()

    def _commit_to_group(self) -> None:
        try:
            self._cluster().commit(self._uncommitted)
        except KafkaError as error:
            if str(error) != self._commit_problem:
                LOGGER.warning("Committing offsets to the group %s failed: %s", self.options.group_id, error)
            self._commit_problem = str(error)
        else:
            if self._commit_problem:
                LOGGER.warning("Committing offsets to the group %s works again", self.options.group_id)
            self._commit_problem = ""
            self._uncommitted = {}
        self._committed_at = time.monotonic()

    def _holds_back(self, begin: Offsets, latest: Offsets) -> bool:
        """Whether minOffsetsPerTrigger has the micro-batch wait; a query that reads what is there now never waits."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._end_of_available_now is not None:
            return False
        waiting = sum(end - begin[partition] for partition, end in latest.items())
        return self._delay.holds_back(waiting, least, self.options.max_trigger_delay_ms, int(time.monotonic() * 1000))

    def _checked(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Return the ends, with the loss of partitions and of offsets reported."""
        found = dict(latest)
        missing = set(begin) - set(latest)
        shrunken = self._shrunken(begin, latest)
        # What is whole again would be a new loss the next time.
        self._reported &= {str(partition) for partition in (*missing, *shrunken)}
        for partition in sorted(missing):
            found[partition] = begin[partition]
            self._report_loss(self._why_gone(partition, begin[partition]), partition)
        for partition in shrunken:
            self._report_loss(
                f"{partition} ends at offset {latest[partition]} but the query had read it up to {begin[partition]}: "
                "the topic was deleted and created again, or the broker lost records",
                partition,
            )
        return found

    def _why_gone(self, partition: TopicPartition, offset: int) -> str:
        strategy = self.options.strategy()
        if strategy.partitions({partition.topic: [partition.partition]}):
            return f"{partition} no longer exists; the query had read it up to offset {offset}"
        return (
            f"the checkpoint has {partition}, read up to offset {offset}, and the option {strategy!r} does not select "
            "it any more"
        )

    def _note_topics(self, begin: Offsets) -> None:
        """Compare the topics' ids with those seen before: a topic that was created again begins anew."""
        for partition, offset in list(self._begun_again.items()):
            if begin.get(partition) != offset:
                del self._begun_again[partition]
        for topic, topic_id in self._cluster().topic_ids.items():
            if topic_id is None:
                continue
            before = self._topic_ids.setdefault(topic, topic_id)
            if before != topic_id:
                self._topic_ids[topic] = topic_id
                read = {partition: offset for partition, offset in begin.items() if partition.topic == topic}
                self._begun_again.update(read)
                self._report_loss(f"topic {topic!r} was deleted and created again; the query had read {to_json(read)}")

    def _report_loss(self, what: str, partition: TopicPartition | None = None) -> None:
        """Raise DataLossError; or warn, of a partition once for as long as what it lost stays lost."""
        if self.options.fail_on_data_loss:
            raise DataLossError(
                f"{what}. Some data may have been missed. To go on without it set failOnDataLoss=false; to start "
                "over use a new checkpoint and startingOffsets"
            )
        if str(partition) in self._reported:
            return
        if partition is not None:
            self._reported.add(str(partition))
        LOGGER.warning("failOnDataLoss=false: %s", what)
