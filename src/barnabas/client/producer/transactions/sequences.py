"""Idempotence: producer id, epoch and sequence numbers (KIP-98, KIP-360)."""

from __future__ import annotations

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.transactions.states import State
from barnabas.client.producer.transactions.txn_partition_entry import TxnPartitionEntry, is_later
from barnabas.errors import (
    ClusterAuthorizationError,
    IllegalStateError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
    UnsupportedVersionError,
    for_code,
)
from barnabas.protocol.producer_identity import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
    increment_sequence,
)
from barnabas.protocol.topic_partition import TopicPartition


class TransactionManager:
    """The idempotent producer's state: one id and epoch, and an entry per partition that was written to.

    Only the Sender thread calls it. A gap in a partition's sequence numbers that cannot be closed makes it raise the
    epoch and number the partition's batches anew.
    """

    def __init__(self) -> None:
        self.state = State.UNINITIALIZED
        self.producer = NO_PRODUCER
        self.last_error: KafkaError | None = None
        self._entries: dict[TopicPartition, TxnPartitionEntry] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._epoch_bump_required = False
        self._to_rewrite: set[TopicPartition] = set()

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is being ended, so that its batches must leave at once."""
        return False

    # The producer id

    @property
    def has_producer_id(self) -> bool:
        """Whether batches can be numbered."""
        return self.producer.is_valid

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing can be sent any more; `last_error` says why."""
        return self.state is State.FATAL_ERROR

    def bump_epoch_and_reset_id_if_needed(self) -> None:
        """Raise the epoch if a partition asked for it; past the last epoch, ask for a new id."""
        if not self._epoch_bump_required:
            return
        self._epoch_bump_required = False
        if self.producer.epoch == MAX_PRODUCER_EPOCH:
            # Other partitions keep their batches under way with the old id until those end; see `may_send`.
            self.producer = NO_PRODUCER
            self.state = State.UNINITIALIZED
            return
        self.producer = self.producer._replace(epoch=self.producer.epoch + 1)
        self._rewrite_sequences()

    def _rewrite_sequences(self) -> None:
        for tp in self._to_rewrite:
            self._entry(tp).start_sequences_at_beginning(self.producer)
            self._unresolved.pop(tp, None)
        self._to_rewrite.clear()

    def begin_initializing(self) -> None:
        """The request for an id is on its way."""
        self.state = State.INITIALIZING

    def handle_init_producer_id(self, error_code: int, producer_id: int, epoch: int) -> KafkaError | None:
        """Take the answer; returns the error with which waiting batches must fail, if it is one that stays."""
        if error_code == 0:
            self.producer = ProducerIdAndEpoch(producer_id, epoch)
            self.state = State.READY
            self.last_error = None
            self._rewrite_sequences()
            return None
        error = for_code(error_code)
        self.last_error = error
        self.state = State.UNINITIALIZED
        if error.retriable:
            return None
        if not isinstance(error, ClusterAuthorizationError | TransactionalIdAuthorizationError):
            self.transition_to_fatal_error(error)
        return error

    def initializing_failed(self) -> None:
        """The request got no answer; it has to be sent again."""
        self.state = State.UNINITIALIZED

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Nothing can be sent any more."""
        self.state = State.FATAL_ERROR
        self.last_error = error

    # Sequence numbers

    def _entry(self, tp: TopicPartition) -> TxnPartitionEntry:
        entry = self._entries.get(tp)
        if entry is None:
            entry = self._entries[tp] = TxnPartitionEntry()
        return entry

    def may_send(self, first: ProducerBatch) -> bool:
        """Whether the first batch of a partition may leave now without breaking the order of its numbers."""
        if not self.producer.is_valid:
            return False
        tp = first.topic_partition
        entry = self._entry(tp)
        if not entry.in_flight:
            return first.has_sequence or tp not in self._unresolved
        if first.has_sequence:
            # A batch that is sent again goes only when it is the oldest under way.
            return entry.in_flight[0].base_sequence == first.base_sequence
        if entry.producer != self.producer:
            return False
        # The first batch goes alone: a broker that knows nothing of the producer takes any sequence number, so it would
        # store the second one if it was not ready yet for the first (a new topic answers NOT_LEADER for a moment).
        # And what is sent again may have been stored already: a new batch could be answered before it, and the
        # callbacks would run out of order.
        if entry.last_acked_sequence == NO_SEQUENCE or any(batch.in_retry for batch in entry.in_flight):
            return False
        return tp not in self._unresolved

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Number a batch that leaves for the first time, and note it as under way."""
        entry = self._entry(batch.topic_partition)
        if entry.producer != self.producer:
            # All batches of the old id or epoch have ended: the numbers begin again.
            entry.start_sequences_at_beginning(self.producer)
        batch.set_producer_state(self.producer.producer_id, self.producer.epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.add(batch)

    def add_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Note a numbered batch as under way; raises `IllegalStateError` when it has no number."""
        if not batch.has_sequence:
            raise IllegalStateError(f"{batch!r} has no sequence number, so it cannot be tracked")
        self._entry(batch.topic_partition).add(batch)

    def remove_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Forget a batch without counting it as stored."""
        self._entry(batch.topic_partition).remove(batch)

    def sequence_number(self, tp: TopicPartition) -> int:
        """The number that the partition's next new batch begins with."""
        return self._entry(tp).next_sequence

    def has_in_flight_batches(self, tp: TopicPartition) -> bool:
        """Whether numbered batches of the partition have not ended."""
        return bool(self._entry(tp).in_flight)

    def handle_completed_batch(self, batch: ProducerBatch, base_offset: int) -> None:
        """The broker has stored the batch."""
        entry = self._entry(batch.topic_partition)
        if (batch.producer_id, batch.producer_epoch) == entry.producer:
            last = batch.last_sequence
            if entry.last_acked_sequence == NO_SEQUENCE or is_later(last, entry.last_acked_sequence):
                entry.last_acked_sequence = last
        if base_offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.record_count - 1)
        entry.remove(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, adjust_sequence_numbers: bool) -> None:
        """The batch has failed for good.

        `adjust_sequence_numbers` says that the broker certainly did not store it, so that its numbers leave a gap.
        """
        if isinstance(error, ClusterAuthorizationError | UnsupportedVersionError | ProducerFencedError):
            self.transition_to_fatal_error(error)
        tp = batch.topic_partition
        self._entry(tp).remove(batch)
        if self.has_fatal_error:
            return
        if isinstance(error, OutOfOrderSequenceError):
            self._request_epoch_bump(tp)
        elif isinstance(error, UnknownProducerIdError):
            # The broker knows nothing of us in this partition, and will accept 0.
            self._entries.pop(tp, None)
            self._unresolved.pop(tp, None)
        elif adjust_sequence_numbers:
            self._request_epoch_bump(tp)

    def _request_epoch_bump(self, tp: TopicPartition) -> None:
        self._epoch_bump_required = True
        self._to_rewrite.add(tp)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """A batch that had been sent expired: whether the broker stored it only later answers can tell."""
        following = increment_sequence(batch.last_sequence, 1)
        known = self._unresolved.get(batch.topic_partition)
        if known is None or is_later(following, known):
            self._unresolved[batch.topic_partition] = following

    def maybe_resolve_sequences(self) -> None:
        """Decide about partitions with expired batches once nothing is under way there: either all numbers up to the
        next were acknowledged, or the epoch must rise.
        """
        if not self._unresolved:
            return
        for tp in [tp for tp in self._unresolved if not self._entry(tp).in_flight]:
            if not self._is_next_sequence(tp, self._entry(tp).next_sequence):
                self._request_epoch_bump(tp)
            del self._unresolved[tp]

    def has_unresolved_sequence(self, tp: TopicPartition) -> bool:
        """Whether an expired batch left the partition's numbers in doubt."""
        return tp in self._unresolved

    def _is_next_sequence(self, tp: TopicPartition, sequence: int) -> bool:
        return sequence == self._entry(tp).first_unacked_sequence

    def _is_ahead(self, tp: TopicPartition, sequence: int) -> bool:
        return is_later(sequence, self._entry(tp).first_unacked_sequence)

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether to send the batch again; asks for a higher epoch where its numbers make no sense any more."""
        if isinstance(error, UnknownProducerIdError):
            return self._can_retry_unknown_producer(batch, log_start_offset)
        if isinstance(error, OutOfOrderSequenceError):
            self._consider_out_of_order(batch)
            return True
        return error.retriable

    def _can_retry_unknown_producer(self, batch: ProducerBatch, log_start_offset: int) -> bool:
        # Without the log's start the broker is about to hand the partition over, and after a renumbering the other
        # batches under way fail the same way: both are only sent again. Else the broker lost our state, for instance
        # because all our records were deleted, and a new epoch begins at 0.
        if log_start_offset != -1 and not batch.sequence_has_been_reset:
            self._request_epoch_bump(batch.topic_partition)
        return True

    def _consider_out_of_order(self, batch: ProducerBatch) -> None:
        tp = batch.topic_partition
        unresolved = self._unresolved.get(tp)
        if unresolved is None:
            # One that is not next waits for earlier ones under way. One whose turn has passed waits for nothing.
            if not batch.sequence_has_been_reset and not self._is_ahead(tp, batch.base_sequence):
                self._request_epoch_bump(tp)
        elif unresolved == batch.base_sequence:
            self._request_epoch_bump(tp)
