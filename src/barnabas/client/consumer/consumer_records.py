"""What `poll` returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic

from barnabas.client.consumer.consumer_record import ConsumerRecord, K, V

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import OffsetAndMetadata
    from barnabas.protocol.topic_partition import TopicPartition


class ConsumerRecords(Generic[K, V]):
    """Records by partition, each partition's in the order of its offsets. Iterating goes through all of them.

    `next_offsets` has, for each partition that moved, the offset that the next `poll` goes on from.
    """

    __slots__ = ("_by_partition", "next_offsets")

    def __init__(
        self,
        by_partition: Mapping[TopicPartition, list[ConsumerRecord[K, V]]],
        next_offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        self._by_partition = by_partition
        self.next_offsets = next_offsets

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        return chain.from_iterable(self._by_partition.values())

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    def __bool__(self) -> bool:
        return bool(self._by_partition)

    def partitions(self) -> set[TopicPartition]:
        """The partitions that there are records of."""
        return set(self._by_partition)

    def records(self, where: TopicPartition | str) -> Sequence[ConsumerRecord[K, V]]:
        """The records of one partition, or of all partitions of a topic."""
        if isinstance(where, str):
            found = (records for partition, records in self._by_partition.items() if partition.topic == where)
            return list(chain.from_iterable(found))
        return self._by_partition.get(where, ())

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
