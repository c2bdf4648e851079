"""Fetched bytes on their own, for those who decode them elsewhere than in the thread that polls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.records.arrow import ColumnBuilder
    from barnabas.records.types import AbortedTransactions, Buffer


class FetchedData(NamedTuple):
    """What one fetch brought of one partition, still encoded: offsets `offset` to before `end_offset`.

    It stays valid after later calls of the consumer, and keeps its response's memory alive. `aborted_transactions` is
    None unless isolation.level is read_committed.
    """

    topic_partition: TopicPartition
    offset: int
    end_offset: int
    data: Buffer
    check_crcs: bool
    aborted_transactions: AbortedTransactions | None

    @property
    def size_in_bytes(self) -> int:
        """As received: compressed records are as they are."""
        return len(self.data)

    def append_to(self, builder: ColumnBuilder, position: int, end_offset: int | None = None) -> int:
        """Decode from `position` to before `end_offset` into a `ColumnBuilder`; returns where to go on.

        Raises `CorruptRecordError`. The lock of the interpreter is released while bytes are decoded.
        """
        topic, partition = self.topic_partition
        reached: int = builder.append(
            self.data,
            topic,
            partition,
            position,
            end_offset=end_offset,
            check_crcs=self.check_crcs,
            aborted_transactions=self.aborted_transactions,
        )
        return reached
