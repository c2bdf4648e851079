"""Iterating over a consumer record by record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_record import ConsumerRecord
    from barnabas.client.consumer.consumer_records import ConsumerRecords
    from barnabas.protocol.topic_partition import TopicPartition


class RecordIteration:
    """Goes through what `poll` returned, one record at a time, and knows which have not been handed out yet.

    `poll` moves positions past everything it returns; a loop over records may be left, or may commit, in the middle.
    What it still holds is therefore taken off: it counts as not consumed. Asking costs nothing per record,
    since Python's list iterators tell what is left in them.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[TopicPartition, Sequence[ConsumerRecord], Any]] = []

    def records(self, poll: Callable[[], ConsumerRecords]) -> Iterator[ConsumerRecord]:
        """All records, for ever: first those left by an earlier loop, then what `poll` brings."""
        while True:
            while (iterator := self.first()) is not None:
                yield from iterator
                self.gone_through(iterator)
            self.fill(poll())

    def first(self) -> Iterator[ConsumerRecord] | None:
        """Return the records of one partition that have not been handed out; None when there are none of any.

        For a loop to go through without another generator around it, which each record would have to pass.
        """
        return self._waiting[0][2] if self._waiting else None

    def gone_through(self, iterator: Iterator[ConsumerRecord]) -> None:
        """All that `first` gave was handed out."""
        if self._waiting and self._waiting[0][2] is iterator:
            del self._waiting[0]

    def fill(self, found: ConsumerRecords) -> None:
        """Take over what `poll` returned."""
        self._waiting = [(name, found.records(name), iter(found.records(name))) for name in found.partitions()]

    def undelivered(self) -> dict[TopicPartition, ConsumerRecord]:
        """Return the first record of each partition that was polled and not handed out."""
        found: dict[TopicPartition, ConsumerRecord] = {}
        for name, records, iterator in self._waiting:
            left = iterator.__length_hint__()
            if left:
                found.setdefault(name, records[len(records) - left])
        return found

    def drop(self, partition: TopicPartition) -> None:
        """Hand out nothing more of this partition."""
        for name, records, iterator in self._waiting:
            if name == partition:
                iterator.__setstate__(len(records))

    def rest(self) -> dict[TopicPartition, Sequence[ConsumerRecord]]:
        """Return all records, by partition, that were polled and not handed out."""
        found: dict[TopicPartition, Sequence[ConsumerRecord]] = {}
        for name, records, iterator in self._waiting:
            left = iterator.__length_hint__()
            if left:
                found[name] = records[len(records) - left :]
        return found

    def clear(self) -> None:
        """Hand out nothing more."""
        for name in {name for name, _, _ in self._waiting}:
            self.drop(name)
        self._waiting = []
