"""The port through which a coordinator writes its records and reads them back, and that port on record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas import errors
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.producer_identity import NO_PRODUCER_ID, NO_SEQUENCE, ProducerIdAndEpoch
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.compression import CODECS
from barnabas.records.control_record import parse_control_type

if TYPE_CHECKING:
    from barnabas.broker.coordinator.internal_topic import InternalTopic

#: What one batch may take; the topic's own limit is the same by default.
MAX_BATCH_BYTES = 1 << 20

#: A record that is written: key, and value or None for a tombstone.
Record = tuple[bytes, bytes | None]


class StoredRecord(NamedTuple):
    """A record as it stands in the log.

    `producer_id` is -1 outside transactions. With `ends_transaction` it is a marker: True commits, False aborts.
    """

    offset: int
    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID
    ends_transaction: bool | None = None


class PartitionStorage(Protocol):
    """The port: partitions that records are appended to and read back from. Every method may raise KafkaError."""

    @property
    def name(self) -> str:
        """The topic."""

    @property
    def partition_count(self) -> int:
        """How many partitions the coordinator's ids are spread over."""

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist."""

    def append(
        self, partition: int, records: Sequence[Record], now_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> int:
        """Write all records or none, in the open transaction of `producer` if one is given; the first one's offset."""

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        """Return some records from `offset` on and the offset to go on from, which is `offset` itself at the end."""

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        """Begin to read beside the loop what `read` would wait for; False if it waits for nothing.

        `done` is called on the loop, perhaps before this returns.
        """

    def may_hold_records(self, partition: int) -> bool:
        """Whether the partition holds records, or only reading it can tell."""

    def after_commit(self, partition: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that a partition has now is committed, or with why that will not be."""


class BatchStorage:
    """PartitionStorage on the record batches of an internal topic."""

    __slots__ = ("_compression", "_topic", "name")

    def __init__(self, topic: InternalTopic, compression: int = 0):
        self._topic = topic
        self.name = topic.name
        self._compression = CODECS[compression]

    @property
    def partition_count(self) -> int:
        """What the coordinator's setting names, or what the existing topic has."""
        return self._topic.partition_count

    def ensure(self, now_ms: int) -> None:
        """Create the topic if it does not exist."""
        self._topic.ensure(now_ms)

    def may_hold_records(self, partition: int) -> bool:
        """Whether the partition holds records, or only reading it can tell."""
        return self._topic.may_hold_records(partition)

    def after_commit(self, partition: int, tell: Callable[[errors.KafkaError | None], None]) -> None:
        """Call `tell` when all that a partition has now is committed, or with why that will not be."""
        self._topic.after_commit(partition, tell)

    def append(
        self, partition: int, records: Sequence[Record], now_ms: int, producer: ProducerIdAndEpoch | None = None
    ) -> int:
        """Write the records as one batch. Raises RecordTooLargeError when they do not fit into one."""
        builder = RecordBatchBuilder(MAX_BATCH_BYTES, compression=self._compression)
        for key, value in records:
            if builder.try_append(now_ms, key, value, ()) < 0:
                raise errors.RecordTooLargeError(
                    f"{len(records)} records for {self.name}-{partition} take more than {MAX_BATCH_BYTES} bytes"
                )
        if producer is not None:
            builder.set_producer_state(producer.producer_id, producer.epoch, NO_SEQUENCE, transactional=True)
        return self._topic.append_batch(partition, builder.close(), now_ms)

    def bring_in(self, partition: int, offset: int, done: Callable[[], None]) -> bool:
        """See `PartitionStorage`."""
        return self._topic.bring_in(partition, offset, done)

    def read(self, partition: int, offset: int) -> tuple[list[StoredRecord], int]:
        """Return the records of the next batches. Raises CorruptRecordError."""
        records: list[StoredRecord] = []
        next_offset = offset
        for batch in read_batches(self._topic.read_batches(partition, offset)):
            next_offset = batch.last_offset + 1
            producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
            for record in batch:
                if record.offset < offset or record.key is None:
                    continue
                ends = parse_control_type(record.key) == ControlRecordType.COMMIT if batch.is_control else None
                records.append(StoredRecord(record.offset, record.key, record.value, producer_id, ends))
        return records, next_offset
