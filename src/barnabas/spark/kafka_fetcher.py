"""Flink's `KafkaFetcher`: takes what the consumer thread hands over, decodes it, and gives it on as Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.records.arrow import ColumnBuilder
from barnabas.spark.handover import ClosedError, Handover
from barnabas.spark.kafka_consumer_thread import Fetched, KafkaConsumerThread
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.fetching.fetched_data import FetchedData
    from barnabas.protocol.topic_partition import TopicPartition


#: Data of one poll is collected into Arrow batches of at least so many bytes: each costs Spark about a millisecond.
LEAST_BATCH = 1 << 16

#: Decodes data into a builder, from a position to before an end; returns where to go on: `FetchedData.append_to`.
Appending = Callable[["FetchedData", ColumnBuilder, int, int], int]


def append_all(data: FetchedData, builder: ColumnBuilder, position: int, end: int) -> int:
    """Take all records of the data, those of transactions that were aborted left out where that is asked for."""
    return data.append_to(builder, position, end)


class KafkaFetcher:
    """Reads ranges of offsets; the next poll is on its way while a batch is decoded and worked on.

    It never calls Kafka: that is the thread's part. `positions` are the next offsets to be handed out, and once
    `run_fetch_loop` has ended `fetched_ahead` gives what is at hand beyond them.
    """

    def __init__(
        self,
        ranges: Sequence[OffsetRange],
        thread: KafkaConsumerThread,
        handover: Handover[Fetched],
        columns: Iterable[str],
        ahead: Fetched = (),
        append: Appending = append_all,
    ) -> None:
        """`ranges` are of different partitions; `ahead` is data fetched earlier, and `thread` goes on where it ends."""
        self._append = append
        self._ends = {each.topic_partition: each.end for each in ranges}
        self._thread = thread
        self._handover = handover
        self._builder = ColumnBuilder(columns)
        self._running = True
        self._in_hand: Fetched = ahead
        self.positions = {each.topic_partition: each.start for each in ranges}
        self._rest: list[FetchedData] = []

    def run_fetch_loop(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, each partition's in order; raises on the task's thread what the consumer thread reported.

        However it ends, by its own end, an error or the caller's closing, the thread is shut down. It is joined too:
        the consumer belongs to the caller again, and must not be in use any more.
        """
        if anatomy.active is not None:
            self._tell_ranges(anatomy.active)
        try:
            if self._is_before_the_ends(fetched_until(self._in_hand, self.positions)):
                self._thread.start()
            yield from self._decoded()
            while self._running and self._is_before_the_ends(self.positions):
                self._in_hand = self._poll_next()
                yield from self._decoded()
        finally:
            self._thread.shutdown()
            self._thread.join()
            self._rest = [*self._in_hand, *self._thread.undelivered]
            if anatomy.active is not None:
                anatomy.active.forget(self._handover)

    def fetched_ahead(self, partition: TopicPartition) -> list[FetchedData]:
        """Return what is at hand of a partition beyond its position."""
        return following((data for data in self._rest if data.topic_partition == partition), self.positions[partition])

    def cancel(self) -> None:
        """End the loop after the batch in hand; from any thread."""
        self._running = False
        self._thread.shutdown()

    def _is_before_the_ends(self, positions: Mapping[TopicPartition, int]) -> bool:
        return any(positions[partition] < end for partition, end in self._ends.items())

    def _tell_ranges(self, recorder: anatomy.Recorder) -> None:
        task = recorder.number_of(self._handover)
        for partition, end in self._ends.items():
            recorder.record(anatomy.events.RangeBegun(task, *partition, self.positions[partition], end))

    def _tell_position(self, recorder: anatomy.Recorder, partition: TopicPartition, before: int) -> None:
        task, position = recorder.number_of(self._handover), self.positions[partition]
        recorder.record(anatomy.events.RowsDecoded(task, *partition, position - before, position))

    def _poll_next(self) -> Fetched:
        try:
            return self._handover.poll_next()
        except ClosedError:
            if self._running:
                raise
            return ()

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        """Decode what of the data in hand lies in the ranges, with the timestamps that Kafka gave."""
        builder = self._builder
        for data in self._in_hand:
            partition = data.topic_partition
            end = self._ends[partition]
            while (before := self.positions[partition]) < min(data.end_offset, end):
                self.positions[partition] = self._append(data, builder, before, end)
                is_stuck = self.positions[partition] == before
                if anatomy.active is not None:
                    self._tell_position(anatomy.active, partition, before)
                if builder.row_count and (is_stuck or builder.is_full or builder.data_size >= LEAST_BATCH):
                    yield builder.finish()
                elif is_stuck:
                    return
        if builder.row_count:
            yield builder.finish()


def following(fetched: Iterable[FetchedData], position: int) -> list[FetchedData]:
    """Of data in order, what goes on from `position` without a gap."""
    found: list[FetchedData] = []
    for data in fetched:
        if data.offset <= position < data.end_offset:
            found.append(data)
            position = data.end_offset
    return found


def fetched_until(fetched: Fetched, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Up to where the data reaches, or where there is none the position."""
    return {**positions, **{data.topic_partition: data.end_offset for data in fetched}}
