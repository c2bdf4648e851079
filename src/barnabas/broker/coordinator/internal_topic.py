"""A topic that the broker itself writes to, as partitions of record batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.topic_admin import TopicAdmin
    from barnabas.errors import KafkaError

#: So much is read at once.
_READ_BYTES = 1 << 20


class InternalTopic:
    """What the topics of both coordinators share; the topic is created when it is first needed."""

    __slots__ = ("_count", "_replica_manager", "_topics", "name")

    def __init__(self, name: str, replica_manager: ReplicaManager, topics: TopicAdmin, count: Callable[[], int]):
        self.name = name
        self._replica_manager = replica_manager
        self._topics = topics
        self._count = count

    @property
    def partition_count(self) -> int:
        """What the topic has, or would be created with."""
        return self._count()

    def after_commit(self, partition: int, tell: Callable[[KafkaError | None], None]) -> None:
        """Call `tell` when all that a partition has now is committed, or with why that will not be."""
        self._replica_manager.after_commit(TopicPartition(self.name, partition), tell)

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist. Raises KafkaError when that fails."""
        self._topics.ensure_internal(self.name, now_ms)

    def append_batch(self, partition: int, batch: bytes | bytearray, now_ms: int) -> int:
        """Append one record batch (offsets from 0, as built); gives its base offset. Raises KafkaError."""
        return self._replica_manager.append_internal(TopicPartition(self.name, partition), batch, now_ms)

    def read_batches(self, partition: int, offset: int) -> bytes:
        """Whole batches from `offset` on (at least one); empty at the end or when there is no such partition."""
        return self._replica_manager.read_internal(TopicPartition(self.name, partition), offset, _READ_BYTES)

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        """Begin to read beside the loop what `read_batches` would wait for; False if it waits for nothing."""
        return self._replica_manager.bring_in_internal(TopicPartition(self.name, partition), offset, _READ_BYTES, done)

    def may_hold_records(self, partition: int) -> bool:
        """Whether the partition holds records, or only reading it can tell. Raises KafkaError."""
        return self._replica_manager.may_hold_records(TopicPartition(self.name, partition))
