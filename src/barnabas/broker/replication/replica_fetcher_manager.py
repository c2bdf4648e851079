"""One fetcher for each leader that this broker follows (ReplicaFetcherManager)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
    from barnabas.protocol.topic_partition import TopicPartition


class ReplicaFetchers:
    """Fetchers by leader and number (`num.replica.fetchers`); `make(leader)` gives one, with its way to the leader."""

    __slots__ = ("_make", "_per_leader", "by_leader", "on_added")

    def __init__(self, make: Callable[[int], ReplicaFetcher], per_leader: int = 1) -> None:
        self._make = make
        self._per_leader = per_leader
        self.by_leader: dict[tuple[int, int], ReplicaFetcher] = {}
        #: Called with a fetcher that has another partition to ask for.
        self.on_added: Callable[[ReplicaFetcher], None] = lambda fetcher: None

    def add(self, name: TopicPartition, topic_id: bytes, leader: int, leader_epoch: int, now_ms: int) -> None:
        """Copy a partition from this leader, and from no other any more."""
        key = (leader, crc32(str(name).encode()) % self._per_leader)
        for other, fetcher in self.by_leader.items():
            if other != key:
                fetcher.remove_partition(name)
        found = self.by_leader.get(key)
        if found is None:
            found = self.by_leader[key] = self._make(leader)
        found.add_partition(name, topic_id, leader_epoch, now_ms)
        self.on_added(found)

    def lags(self) -> dict[TopicPartition, int]:
        """Return how many records the partitions lack, as their leaders told with the last records."""
        return {name: lag for fetcher in self.by_leader.values() for name, lag in fetcher.lags()}

    def look_at(self, name: TopicPartition) -> None:
        """Tell the leader of a partition with the next Fetch what has changed here."""
        for fetcher in self.by_leader.values():
            fetcher.look_at(name)

    def remove(self, name: TopicPartition) -> None:
        """Copy a partition no more."""
        for fetcher in self.by_leader.values():
            fetcher.remove_partition(name)
