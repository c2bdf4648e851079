"""Flink's `KafkaFetcher`: takes what the consumer thread hands over, decodes it, and gives it on as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from barnabas.records.arrow import ColumnBuilder
from barnabas.spark.handover import ClosedError, Handover
from barnabas.spark.kafka_consumer_thread import Fetched, KafkaConsumerThread
from barnabas.spark.ranges import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.client.consumer.fetched_data import FetchedData


class KafkaFetcher:
    """Reads one range of offsets; the next poll is on its way while a batch is decoded and worked on.

    It never calls Kafka: that is the thread's part. `position` is the next offset to be handed out, and once
    `run_fetch_loop` has ended `fetched_ahead` is what is at hand beyond it.
    """

    def __init__(
        self,
        offset_range: OffsetRange,
        thread: KafkaConsumerThread,
        handover: Handover[Fetched],
        columns: Iterable[str],
        ahead: Fetched = (),
    ) -> None:
        """`ahead` is data fetched earlier, from the range's start on; `thread` goes on where it ends."""
        self._range = offset_range
        self._thread = thread
        self._handover = handover
        self._builder = ColumnBuilder(columns)
        self._running = True
        self._in_hand: Fetched = ahead
        self.position = offset_range.start
        self.fetched_ahead: list[FetchedData] = []

    def run_fetch_loop(self) -> Iterator[pa.RecordBatch]:
        """Yield the range's records in order; raises what the consumer thread reported, on the task's thread.

        However it ends, by its own end, an error or the caller's closing, the thread is shut down. It is joined too:
        the consumer belongs to the caller again, and must not be in use any more.
        """
        try:
            if fetched_until(self._in_hand, self.position) < self._range.end:
                self._thread.start()
            yield from self._decoded()
            while self._running and self.position < self._range.end:
                self._in_hand = self._poll_next()
                yield from self._decoded()
        finally:
            self._thread.shutdown()
            self._thread.join()
            self.fetched_ahead = following([*self._in_hand, *self._thread.undelivered], self.position)

    def cancel(self) -> None:
        """End the loop after the batch in hand; from any thread."""
        self._running = False
        self._thread.shutdown()

    def _poll_next(self) -> Fetched:
        try:
            return self._handover.poll_next()
        except ClosedError:
            if self._running:
                raise
            return ()

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        """Decode what of the data in hand lies in the range, with the timestamps that Kafka gave."""
        for data in self._in_hand:
            while self.position < min(data.end_offset, self._range.end):
                before = self.position
                self.position = data.append_to(self._builder, before, self._range.end)
                if self._builder.row_count:
                    yield self._builder.finish()
                elif self.position == before:
                    return


def following(fetched: Fetched, position: int) -> list[FetchedData]:
    """Of data in order, what goes on from `position` without a gap."""
    found: list[FetchedData] = []
    for data in fetched:
        if data.offset <= position < data.end_offset:
            found.append(data)
            position = data.end_offset
    return found


def fetched_until(fetched: Fetched, position: int) -> int:
    """Up to where the data reaches."""
    return fetched[-1].end_offset if fetched else position
