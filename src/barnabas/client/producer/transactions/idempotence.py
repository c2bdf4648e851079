"""The idempotent producer without transactions (KIP-98, KIP-360): its id, and what a gap in its numbers means."""

from __future__ import annotations

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.transactions.states import State
from barnabas.client.producer.transactions.txn_partition_map import TxnPartitionMap
from barnabas.errors import (
    ClusterAuthorizationError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
    UnsupportedVersionError,
    for_code,
)
from barnabas.protocol.producer_identity import MAX_PRODUCER_EPOCH, NO_PRODUCER, ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition


class IdempotenceManager:
    """Where the idempotent producer stands: without an id (UNINITIALIZED, INITIALIZING), READY, or in FATAL_ERROR.

    Only the Sender thread calls it. A gap in a partition's sequence numbers that cannot be closed makes it raise the
    epoch and number the partition's batches anew.
    """

    is_completing = False

    def __init__(self) -> None:
        self.sequences = TxnPartitionMap()
        self.state = State.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self._epoch_bump_required = False
        self._to_rewrite: set[TopicPartition] = set()

    # The producer id

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing can be sent any more; `last_error` says why."""
        return self.state is State.FATAL_ERROR

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Send nothing any more."""
        self.state = State.FATAL_ERROR
        self.last_error = error

    def begin_initializing(self) -> None:
        """Note that the request for an id is in flight."""
        self.state = State.INITIALIZING

    def on_initialize_failed(self) -> None:
        """Ask for an id again, as the request got no answer."""
        self.state = State.UNINITIALIZED

    def handle_init_producer_id(self, error_code: int, producer_id: int, epoch: int) -> KafkaError | None:
        """Take the answer; returns the error with which waiting batches must fail, if it is one that stays."""
        if error_code == 0:
            self.sequences.producer = ProducerIdAndEpoch(producer_id, epoch)
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

    def bump_epoch_and_reset_id_if_needed(self) -> None:
        """Raise the epoch if a partition asked for it; past the last epoch, ask for a new id."""
        if not self._epoch_bump_required:
            return
        self._epoch_bump_required = False
        producer = self.sequences.producer
        if producer.epoch == MAX_PRODUCER_EPOCH:
            # Other partitions keep their batches in flight with the old id until those end; see `may_send`.
            self.sequences.producer = NO_PRODUCER
            self.state = State.UNINITIALIZED
            return
        self.sequences.producer = producer._replace(epoch=producer.epoch + 1)
        self._rewrite_sequences()

    def _rewrite_sequences(self) -> None:
        for tp in self._to_rewrite:
            self.sequences.renumber(tp)
        self._to_rewrite.clear()

    def _request_epoch_bump(self, tp: TopicPartition) -> None:
        self._epoch_bump_required = True
        self._to_rewrite.add(tp)

    # Batches

    def may_send(self, first: ProducerBatch, leader_id: int) -> bool:
        """Whether the first batch of a partition may leave to its leader now."""
        return self.sequences.may_send(first, leader_id)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch its number when it leaves for the first time."""
        self.sequences.assign_sequence(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, adjust_sequence_numbers: bool) -> None:
        """Act on a batch that has failed for good: see `BatchNumbering.handle_failed_batch`."""
        if isinstance(error, ClusterAuthorizationError | UnsupportedVersionError | ProducerFencedError):
            self.transition_to_fatal_error(error)
        tp = batch.topic_partition
        self.sequences.remove_in_flight_batch(batch)
        if self.has_fatal_error:
            return
        if isinstance(error, OutOfOrderSequenceError):
            self._request_epoch_bump(tp)
        elif isinstance(error, UnknownProducerIdError):
            # The broker knows nothing of us in this partition, and will accept 0.
            self.sequences.forget(tp)
        elif adjust_sequence_numbers:
            self._request_epoch_bump(tp)

    def maybe_resolve_sequences(self) -> None:
        """Raise the epoch where expired batches left a gap, once nothing is in flight in the partition."""
        for tp in self.sequences.resolve():
            self._request_epoch_bump(tp)

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether to send the batch again; asks for a higher epoch where its numbers make no sense any more."""
        if isinstance(error, UnknownProducerIdError):
            # Without the log's start the broker is about to hand the partition over, and after a renumbering the other
            # batches in flight fail the same way: both are only sent again. Else the broker lost our state, for
            # instance because all our records were deleted, and a new epoch begins at 0.
            if log_start_offset != -1 and not batch.sequence_has_been_reset:
                self._request_epoch_bump(batch.topic_partition)
            return True
        if isinstance(error, OutOfOrderSequenceError):
            self._consider_out_of_order(batch)
            return True
        return error.retriable

    def _consider_out_of_order(self, batch: ProducerBatch) -> None:
        tp = batch.topic_partition
        unresolved = self.sequences.unresolved(tp)
        if unresolved is None:
            # One that is not next waits for earlier ones in flight. One whose turn has passed waits for nothing.
            if not batch.sequence_has_been_reset and not self.sequences.is_ahead(tp, batch.base_sequence):
                self._request_epoch_bump(tp)
        elif unresolved == batch.base_sequence:
            self._request_epoch_bump(tp)
