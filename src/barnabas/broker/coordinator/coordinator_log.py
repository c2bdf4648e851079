"""A coordinator's topic, as the coordinator writes to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.protocol.coordinator_partition import partition_for

if TYPE_CHECKING:
    from barnabas.broker.coordinator.draft import Draft
    from barnabas.broker.coordinator.partition_storage import PartitionStorage, Record
    from barnabas.broker.instant import Instant
    from barnabas.protocol.producer_identity import ProducerIdAndEpoch


class CoordinatorLog:
    """Which partition holds the records of an id, and how they get there."""

    __slots__ = ("storage",)

    def __init__(self, storage: PartitionStorage):
        self.storage = storage

    def partition_of(self, id: str) -> int:
        """Give the partition that holds the records of this group or transactional id."""
        return partition_for(id, self.storage.partition_count)

    def ensure_topic(self, now_ms: int) -> None:
        """Create the topic if it does not exist. Raises `KafkaError`."""
        self.storage.ensure(now_ms)

    def commit(self, id: str, draft: Draft, at: Instant, producer: ProducerIdAndEpoch | None = None) -> None:
        """Write the draft's records into the partition of `id`, then make its changes.

        With `producer` the records are part of its open transaction. Raises `KafkaError`; then nothing has changed.
        """

        def append(records: Sequence[Record]) -> int:
            self.ensure_topic(at.now_ms)
            return self.storage.append(self.partition_of(id), records, at.now_ms, producer)

        draft.commit(append)
