"""What a log knows about one producer, and the check of its next batches (ProducerStateEntry, ProducerAppendInfo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.append_origin import CLIENT, REPLICATION
from barnabas.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from barnabas.protocol.kinds import ControlRecordType
from barnabas.protocol.producer_identity import (
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    decrement_sequence,
    increment_sequence,
)
from barnabas.records.control_record import TRANSACTION_ENDS

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import Buffer
    from barnabas.records.batch_header import BatchHeader
    from barnabas.records.control_record import EndTxnMarker

NUM_BATCHES_TO_RETAIN = 5
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """One batch of a producer, remembered to recognise its repetition."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence number of its first record."""
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerStateEntry:
    """A producer's epoch, its last five batches, and its open transaction's first offset (-1: none).

    `lacks_batches` says that the log may hold more of the last five than are remembered: the entry is from a snapshot.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "lacks_batches",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        current_txn_first_offset: int = NO_OFFSET,
        batches: list[BatchMetadata] | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: list[BatchMetadata] = [] if batches is None else batches
        self.lacks_batches = False

    @property
    def last_sequence(self) -> int:
        """The last sequence number, -1 when no batch is remembered."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The last record's offset, -1 when no batch is remembered."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        """How far the last batch reaches beyond its first offset."""
        return self.batches[-1].offset_delta if self.batches else 0

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        """Remember a batch in place of the oldest of five; those of another epoch are forgotten."""
        assert NO_SEQUENCE <= batch.last_sequence <= MAX_SEQUENCE
        assert batch.first_offset >= 0
        self._update_epoch(producer_epoch)
        if len(self.batches) == NUM_BATCHES_TO_RETAIN:
            del self.batches[0]
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def _update_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.lacks_batches = False
            self.producer_epoch = producer_epoch

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Take in a transaction marker."""
        self._update_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = NO_OFFSET
        self.last_timestamp = timestamp

    def update(self, following: ProducerStateEntry) -> None:
        """Take in what an append added."""
        self._update_epoch(following.producer_epoch)
        self.batches.extend(following.batches)
        del self.batches[:-NUM_BATCHES_TO_RETAIN]
        self.coordinator_epoch = following.coordinator_epoch
        self.current_txn_first_offset = following.current_txn_first_offset
        self.last_timestamp = following.last_timestamp

    def find_duplicate(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Return the remembered batch with exactly this epoch and these sequence numbers."""
        if producer_epoch == self.producer_epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def may_lack(self, producer_epoch: int, first_sequence: int) -> bool:
        """Whether a batch with this epoch and sequence number may be one of the last five, and not remembered."""
        return (
            self.lacks_batches
            and producer_epoch == self.producer_epoch
            and 0 < len(self.batches) < NUM_BATCHES_TO_RETAIN
            and decrement_sequence(self.batches[0].first_sequence, first_sequence) <= MAX_SEQUENCE // 2
        )

    def remember(self, earlier: list[BatchMetadata]) -> None:
        """Take in those batches before the remembered ones that the log has."""
        self.batches[:0] = earlier
        self.lacks_batches = False


class CompletedTxn(NamedTuple):
    """A transaction whose marker was written at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerAppendInfo:
    """Checks one producer's batches in an append, and gathers what changes, before anything is written."""

    __slots__ = ("_current", "_origin", "_partition", "started_transactions", "updated")

    def __init__(self, partition: str, current: ProducerStateEntry, origin: int) -> None:
        self._partition = partition
        self._current = current
        self._origin = origin
        self.started_transactions: list[int] = []
        self.updated = ProducerStateEntry(
            current.producer_id,
            current.producer_epoch,
            current.coordinator_epoch,
            current.last_timestamp,
            current.current_txn_first_offset,
        )

    def append(self, buffer: Buffer, header: BatchHeader, base_offset: int) -> CompletedTxn | None:
        """Check and take in the batch of `buffer` that gets this base offset; the transaction that it completes.

        Raises what `append_data_batch` and `append_end_txn_marker` raise.
        """
        last_offset = base_offset + header.last_offset_delta
        if not header.is_control:
            self.append_data_batch(
                header.producer_epoch,
                header.base_sequence,
                base_offset,
                last_offset,
                header.max_timestamp,
                transactional=header.is_transactional,
            )
            return None
        marker = _end_txn_marker(buffer, header)
        if marker is None:
            return None
        return self.append_end_txn_marker(
            header.producer_epoch,
            marker.coordinator_epoch,
            last_offset,
            header.max_timestamp,
            aborted=marker.control_type == ControlRecordType.ABORT,
        )

    def append_data_batch(
        self,
        epoch: int,
        first_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        *,
        transactional: bool,
    ) -> None:
        """Check and take in a batch of records.

        Raises `InvalidProducerEpochError`, `OutOfOrderSequenceError`, and `InvalidTxnStateError` for records outside
        the transaction that is open.
        """
        self._check_producer_epoch(epoch, first_offset)
        if self._origin == CLIENT:
            self._check_sequence(epoch, first_sequence, first_offset)
        updated = self.updated
        delta = last_offset - first_offset
        last_sequence = increment_sequence(first_sequence, delta) if first_sequence >= 0 else NO_SEQUENCE
        updated.add_batch(epoch, BatchMetadata(last_sequence, last_offset, delta, timestamp))
        if updated.current_txn_first_offset != NO_OFFSET:
            if not transactional:
                raise InvalidTxnStateError(
                    f"producer {updated.producer_id} wrote records outside its open transaction at offset "
                    f"{first_offset} in {self._partition}"
                )
        elif transactional:
            updated.current_txn_first_offset = first_offset
            self.started_transactions.append(first_offset)

    def append_end_txn_marker(
        self, epoch: int, coordinator_epoch: int, offset: int, timestamp: int, *, aborted: bool
    ) -> CompletedTxn | None:
        """Check and take in a transaction marker; what it completes, None for a transaction without records here.

        Raises `InvalidProducerEpochError` and `TransactionCoordinatorFencedError`.
        """
        updated = self.updated
        self._check_producer_epoch(epoch, offset)
        if coordinator_epoch < updated.coordinator_epoch and self._origin != REPLICATION:
            raise TransactionCoordinatorFencedError(
                f"the marker for producer {updated.producer_id} at offset {offset} in {self._partition} comes from "
                f"coordinator epoch {coordinator_epoch}; {updated.coordinator_epoch} has written since"
            )
        first_offset = updated.current_txn_first_offset
        updated.end_transaction(epoch, coordinator_epoch, timestamp)
        if first_offset == NO_OFFSET:
            return None
        return CompletedTxn(updated.producer_id, first_offset, offset, aborted)

    def _check_producer_epoch(self, epoch: int, offset: int) -> None:
        # A follower takes what its leader has accepted.
        if epoch < self.updated.producer_epoch and self._origin != REPLICATION:
            raise InvalidProducerEpochError(
                f"epoch {epoch} of producer {self.updated.producer_id} at offset {offset} in {self._partition} is "
                f"older than the last one seen, {self.updated.producer_epoch}"
            )

    def _check_sequence(self, epoch: int, first_sequence: int, offset: int) -> None:
        updated = self.updated
        if epoch != updated.producer_epoch:
            if first_sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceError(
                    f"producer {updated.producer_id} begins epoch {epoch} at offset {offset} in {self._partition} "
                    f"with sequence number {first_sequence} in place of 0 (last epoch: {updated.producer_epoch})"
                )
            return
        if updated.batches:
            last_sequence = updated.last_sequence
        elif epoch == self._current.producer_epoch:
            last_sequence = self._current.last_sequence
        else:
            last_sequence = NO_SEQUENCE
        # A producer that is not known here (its records expired or were deleted) may go on with any number.
        in_sequence = first_sequence == last_sequence + 1 or (first_sequence == 0 and last_sequence == MAX_SEQUENCE)
        if self._current.producer_epoch != NO_PRODUCER_EPOCH and not in_sequence:
            raise OutOfOrderSequenceError(
                f"producer {updated.producer_id} sent sequence number {first_sequence} at offset {offset} in "
                f"{self._partition}; the last one was {last_sequence}"
            )


def _end_txn_marker(buffer: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """Return the marker in a control batch.

    None if compaction has emptied it or it holds another kind of control record.
    """
    from barnabas.records.control_record import parse_control_type, parse_end_txn_marker
    from barnabas.records.record_batch import read_batches

    batch = memoryview(buffer)[header.position : header.position + header.size_in_bytes]
    record = next((record for found in read_batches(batch) for record in found), None)
    if record is None or parse_control_type(record.key) not in TRANSACTION_ENDS:
        return None
    return parse_end_txn_marker(record.key, record.value)
