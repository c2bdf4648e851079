"""Which process of a broker serves a partition, and since when.

Of several brokers one that nothing reaches may take itself for the leader, or coordinator, for a while yet. It changes
nothing that counts, but what it tells without a change is of then, in Apache Kafka too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.metadata.cluster_metadata import GROUP_METADATA_TOPIC
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.parts import OFFSETS_PARTITIONS

if TYPE_CHECKING:
    from barnabas.testing.simulator.parts import ServedParts

#: After so many seconds none of several brokers tells any more what was before, nor is an answer of then on its way.
_STALE = 5.0


def of_coordinator(parts: ServedParts, group: str) -> Reign:
    """Return that of a group's coordinator."""
    return Reign(parts, TopicPartition(GROUP_METADATA_TOPIC, partition_for(group, OFFSETS_PARTITIONS)))


class Reign:
    """What is known of that at the moments at which it is asked."""

    def __init__(self, parts: ServedParts, partition: TopicPartition) -> None:
        self._parts = parts
        self._partition = partition
        self._era: object = None
        self._since = 0.0

    @property
    def era(self) -> object:
        """What changes with the process; None while it is not one for certain."""
        return self._parts.servers.era(self._partition)

    @property
    def is_sure(self) -> bool:
        """Whether what is told is of now; one broker tells nothing else."""
        return self.has_lasted(_STALE if self._parts.replicas > 1 else 0.0)

    def has_lasted(self, seconds: float) -> bool:
        """Whether it has been one and the same for longer than that, as far as was asked."""
        era, now = self.era, self._parts.world.now
        if era != self._era:
            self._era, self._since = era, now
        return era is not None and now >= self._since + seconds
