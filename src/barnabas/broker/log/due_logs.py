"""Logs by the time at which they are to be looked at again: what nothing happens in costs nothing until then."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition


class DueLogs:
    """A heap of partitions by the time at which each is due, in epoch milliseconds. Each is there once, for its first.

    A time that turns out to be later is found out when the earlier one has come.
    """

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[TopicPartition, float] = {}
        self._heap: list[tuple[float, TopicPartition]] = []

    def __len__(self) -> int:
        return len(self._due)

    def put(self, name: TopicPartition, due_ms: float) -> None:
        """Have a partition looked at by this time at the latest; infinity is never."""
        if due_ms < self._due.get(name, inf):
            self._due[name] = due_ms
            heappush(self._heap, (due_ms, name))

    def take(self, now_ms: int) -> list[TopicPartition]:
        """Take out the partitions whose time has come."""
        found = []
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, name = heappop(self._heap)
            if self._due.get(name) == due_ms:
                del self._due[name]
                found.append(name)
        return found
