"""What `poll` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic

from barnabas.client.consumer.consumer_record import ConsumerRecord, K, V
from barnabas.records.decoder import EncodedRecords

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition


class ConsumerRecords(Generic[K, V]):
    """Records by partition, each partition's in the order of its offsets. Iterating goes through all of them.

    Where keys and values are bytes, iterating makes each record when its turn comes, and anew each time: a loop that
    keeps none needs no memory for them. `records()` gives lists, which stay. What was polled keeps what was fetched in
    memory as long as it is kept itself; a record never does.
    `next_offsets` has, for each partition that moved, the offset that the next `poll` goes on from.
    """

    __slots__ = ("_by_partition", "next_offsets")

    def __init__(
        self,
        by_partition: Mapping[TopicPartition, list[ConsumerRecord[K, V]] | EncodedRecords],
        next_offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self._by_partition: dict[TopicPartition, Any] = dict(by_partition)
        self.next_offsets = next_offsets

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return chain.from_iterable(self._by_partition.values())

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def __bool__(self) -> bool:
        return bool(self._by_partition)

    def partitions(self) -> set[TopicPartition]:
        """Return the partitions that there are records of."""
        return set(self._by_partition)

    def records(self, where: TopicPartition | str) -> Sequence[ConsumerRecord[K, V]]:
        """Return the records of one partition, or of all partitions of a topic."""
        if isinstance(where, str):
            found = [self.records(partition) for partition in self._by_partition if partition.topic == where]
            return list(chain.from_iterable(found))
        records = self._by_partition.get(where, ())
        if isinstance(records, EncodedRecords):
            records = self._by_partition[where] = list(records)
        made: Sequence[ConsumerRecord[K, V]] = records
        return made

    def count(self) -> int:
        """How many records there are; the same as `len`."""
        return len(self)

    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self._by_partition

    def __repr__(self) -> str:
        counts = ", ".join(f"{partition}: {len(records)}" for partition, records in self._by_partition.items())
        return f"ConsumerRecords({counts})"


EMPTY: Final[ConsumerRecords[Any, Any]] = ConsumerRecords({}, {})
