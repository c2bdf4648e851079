"""Partitions of a data directory that cannot be served, and what the broker's log says of them (OfflinePartitions)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.protocol.topic_partition import TopicPartition


class OfflinePartitions:
    """Topic → partitions whose log is offline or could not be opened. Each is one line in the log, and one when back.

    `by_topic` is read by those who answer clients.
    """

    __slots__ = ("_reported", "by_topic")

    def __init__(self) -> None:
        self.by_topic: dict[str, set[int]] = {}
        self._reported: set[TopicPartition] = set()

    def add_unopened(self, name: TopicPartition, error: Exception) -> None:
        """Note that a log cannot be opened, and say so once."""
        self.by_topic.setdefault(name.topic, set()).add(name.partition)
        if name not in self._reported:
            from logging import getLogger

            self._reported.add(name)
            remedy = "that is tried again" if isinstance(error, OSError) else "repair it, and restart the broker"
            getLogger(__name__).error("%s cannot be opened and is not served: %s; %s", name, error, remedy)

    def add_failed(self, name: TopicPartition) -> None:
        """Note that a log went offline; `LogHealth` has said so."""
        self._reported.add(name)
        self.by_topic.setdefault(name.topic, set()).add(name.partition)

    def remove(self, name: TopicPartition) -> None:
        """Note that a log is served, and say so if it was not."""
        self._forget(name)
        if name in self._reported:
            from logging import getLogger

            self._reported.discard(name)
            getLogger(__name__).warning("%s is served again", name)

    def remove_deleted(self, name: TopicPartition) -> None:
        """Note that a log was deleted."""
        self._reported.discard(name)
        self._forget(name)

    def _forget(self, name: TopicPartition) -> None:
        partitions = self.by_topic.get(name.topic)
        if partitions is not None:
            partitions.discard(name.partition)
            if not partitions:
                del self.by_topic[name.topic]
