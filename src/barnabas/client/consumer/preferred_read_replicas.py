"""Where the leaders sent a consumer to read, by partition (KIP-392; PreferredReadReplicas)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.topic_partition import TopicPartition


class PreferredReadReplicas:
    """Partition → the replica in the consumer's rack, and until when (monotonic seconds) it is to be read.

    `on_changed(partition)` is called whenever a partition is to be read from another node.
    """

    __slots__ = ("_first_end", "_on_changed", "_replicas")

    def __init__(self, on_changed: Callable[[TopicPartition], None]) -> None:
        self._on_changed = on_changed
        self._replicas: dict[TopicPartition, tuple[int, float]] = {}
        self._first_end = inf

    def get(self, partition: TopicPartition) -> int | None:
        """Return the node to read a partition from; None for its leader."""
        preferred = self._replicas.get(partition)
        return None if preferred is None else preferred[0]

    def update(self, partition: TopicPartition, node_id: int, until: float) -> None:
        """Read an assigned partition from this node instead of its leader, until that time."""
        self._replicas[partition] = (node_id, until)
        self._first_end = min(self._first_end, until)
        self._on_changed(partition)

    def expire(self, now: float) -> None:
        """Go back to the leaders where the time is over."""
        if now < self._first_end:
            return
        left = {partition: kept for partition, kept in self._replicas.items() if now < kept[1]}
        for partition in self._replicas.keys() - left.keys():
            self._on_changed(partition)
        self._replicas = left
        self._first_end = min((until for _, until in left.values()), default=inf)

    def clear(self, partition: TopicPartition) -> int | None:
        """Go back to the leader; tells which node it was that was read from instead."""
        preferred = self._replicas.pop(partition, None)
        if preferred is None:
            return None
        self._on_changed(partition)
        return preferred[0]

    def forget(self) -> None:
        """Go back to all leaders, for the assignment has changed."""
        self._replicas = {}
