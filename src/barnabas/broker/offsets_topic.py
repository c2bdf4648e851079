"""The port through which the group coordinator reads and writes `__consumer_offsets`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.topic_admin import TopicAdmin

GROUP_METADATA_TOPIC = "__consumer_offsets"


class OffsetsTopic:
    """`__consumer_offsets` as partitions of record batches; the topic is created when it is first needed."""

    __slots__ = ("_replica_manager", "_topics", "partition_count")

    def __init__(self, replica_manager: ReplicaManager, topics: TopicAdmin, partition_count: int):
        self._replica_manager = replica_manager
        self._topics = topics
        #: offsets.topic.num.partitions, or what the existing topic has.
        self.partition_count = partition_count

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist. Raises KafkaError when that fails."""
        self._topics.ensure_internal(GROUP_METADATA_TOPIC, now_ms)

    def append(self, partition: int, batch: bytes | bytearray, now_ms: int) -> int:
        """Append one record batch (offsets from 0, as built); gives its base offset. Raises KafkaError."""
        return self._replica_manager.append_internal(TopicPartition(GROUP_METADATA_TOPIC, partition), batch, now_ms)

    def read(self, partition: int, offset: int, max_bytes: int = 1 << 20) -> bytes:
        """Whole batches from `offset` on (at least one); empty at the end or when there is no such partition."""
        return self._replica_manager.read_internal(TopicPartition(GROUP_METADATA_TOPIC, partition), offset, max_bytes)

    def end_offset(self, partition: int) -> int:
        """The offset that the next record gets; 0 when there is no such partition."""
        return self._replica_manager.end_offset(TopicPartition(GROUP_METADATA_TOPIC, partition))
