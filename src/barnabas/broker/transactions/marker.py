"""A transaction marker on its way to a partition, and the port through which it gets there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from barnabas.broker.instant import Instant
from barnabas.broker.transactions.transaction_metadata import TopicIndex
from barnabas.errors import KafkaError

#: What became of a marker: None once it is in the partition's log.
MarkerAnswer = Callable[[KafkaError | None], None]


class Marker(NamedTuple):
    """One partition's end of a transaction; `coordinator_epoch` is the leader epoch of the coordinator's partition."""

    partition: TopicIndex
    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


class MarkerWriter(Protocol):
    """Puts markers at the ends of partitions, wherever their leaders are."""

    def write(self, marker: Marker, at: Instant, answer: MarkerAnswer) -> None:
        """Write one marker and call `answer` once: before this returns, or in a later turn of the broker's loop.

        Every error comes through `answer`; `UnknownTopicOrPartitionError` means that the partition is deleted.
        """
