"""Tells the controller where this broker's logs end, of partitions that no replica can lead without loss (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.membership.broker_metadata_publisher import changed_replicas
from barnabas.broker.metadata.replica_log_end import ReplicaLogEnd

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.protocol.topic_partition import TopicPartition


class LogEndReports:
    """Follows the images that the broker goes by: what it tells of a leader epoch does not change within it.

    `end_of(name)` gives the leader epoch of a log's last record and its end offset; None while that cannot be told:
    the log is not open, its disk may come back, or an earlier role goes on.
    """

    def __init__(self, me: int, end_of: Callable[[TopicPartition], tuple[int, int] | None]) -> None:
        self._me = me
        self._end_of = end_of
        self._wanted: dict[TopicPartition, tuple[bytes, int]] = {}
        self._told: dict[TopicPartition, tuple[bytes, int]] = {}

    def published(self, old: MetadataImage, new: MetadataImage) -> None:
        """Look at the partitions that have changed."""
        changed, deleted = changed_replicas(old, new, self._me)
        for name in deleted:
            self._wanted.pop(name, None)
        for name, (topic_id, registration) in changed.items():
            if registration.awaits_recovery and self._me in registration.replicas:
                self._wanted[name] = topic_id, registration.leader_epoch
            else:
                self._wanted.pop(name, None)

    @property
    def has_news(self) -> bool:
        """Whether there is a partition of which the last heartbeat did not tell."""
        return any(self._told.get(name) != epoch for name, epoch in self._wanted.items())

    def take(self) -> list[ReplicaLogEnd]:
        """Return what the next heartbeat tells."""
        self._told = dict(self._wanted)
        found: list[ReplicaLogEnd] = []
        for name, (topic_id, leader_epoch) in self._wanted.items():
            end = self._end_of(name)
            if end is not None:
                found.append(ReplicaLogEnd(topic_id, name.partition, leader_epoch, *end))
        return found
