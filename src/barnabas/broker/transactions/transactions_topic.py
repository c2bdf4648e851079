"""`__transaction_state` as records: what the coordinator writes to and loads from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.internal_topic import InternalTopic
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.errors import RecordTooLargeError
from barnabas.records import RecordBatchBuilder, read_batches

if TYPE_CHECKING:
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.topic_admin import TopicAdmin

#: What one batch may take; the topic's own limit is the same by default.
MAX_BATCH_BYTES = 1 << 20

Record = tuple[bytes, bytes | None]


class StoredRecord(NamedTuple):
    """A record as it stands in the log."""

    offset: int
    key: bytes
    value: bytes | None


class TransactionStorage(Protocol):
    """The port: partitions that records are appended to and read back from. Every method may raise KafkaError."""

    @property
    def partition_count(self) -> int:
        """How many partitions the transactional ids are spread over."""

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist."""

    def append(self, partition: int, records: Sequence[Record], now_ms: int) -> None:
        """Write all records or none."""

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        """Some records from `offset` on and the offset to go on from, which is `offset` itself at the end."""

    def end_offset(self, partition: int) -> int:
        """The offset that the next record gets; 0 without the partition."""


class TransactionsTopic(InternalTopic):
    """TransactionStorage on the topic's partitions; the topic is created when it is first needed."""

    __slots__ = ()

    def __init__(self, replica_manager: ReplicaManager, topics: TopicAdmin, partition_count: int):
        super().__init__(TRANSACTION_STATE_TOPIC, replica_manager, topics, partition_count)

    def append(self, partition: int, records: Sequence[Record], now_ms: int) -> None:
        """Write the records as one batch, never compressed. Raises KafkaError."""
        builder = RecordBatchBuilder(MAX_BATCH_BYTES)
        for key, value in records:
            if builder.try_append(now_ms, key, value, ()) < 0:
                raise RecordTooLargeError(
                    f"{len(records)} records for {TRANSACTION_STATE_TOPIC}-{partition} exceed {MAX_BATCH_BYTES} bytes"
                )
        self.append_batch(partition, builder.close(), now_ms)

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        """The records of the next batches. Raises CorruptRecordError."""
        records: list[StoredRecord] = []
        next_offset = offset
        for batch in read_batches(self.read_batches(partition, offset, MAX_BATCH_BYTES)):
            next_offset = batch.last_offset + 1
            if batch.is_control:
                continue
            for record in batch:
                if record.offset >= offset and record.key is not None:
                    records.append(StoredRecord(record.offset, record.key, record.value))
        return records, next_offset
