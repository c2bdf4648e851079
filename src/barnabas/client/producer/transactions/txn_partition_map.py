"""The sequence numbers of a producer's batches (KIP-98), kept alike with and without transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.transactions.txn_partition_entry import TxnPartitionEntry, is_later
from barnabas.errors import IllegalStateError, KafkaError
from barnabas.protocol.producer_identity import (
    NO_PRODUCER,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    ProducerIdAndEpoch,
    increment_sequence,
)
from barnabas.protocol.topic_partition import TopicPartition


class TxnPartitionMap:
    """The producer's id and epoch, and an entry for each partition that it wrote to. Only the Sender thread calls it.

    `connection_number` tells which of the client's connections leads to a node; the Sender brings it.

    A partition is unresolved after a batch that was sent there expired: the broker may or may not have stored it, which
    only the answers to later batches tell. What a gap in the numbers means, `BatchNumbering` decides.
    """

    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        self._entries: dict[TopicPartition, TxnPartitionEntry] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self.connection_number: Callable[[int], int] = lambda node_id: 0

    @property
    def has_producer_id(self) -> bool:
        """Whether batches can be numbered."""
        return self.producer.producer_id > NO_PRODUCER_ID

    def entry(self, tp: TopicPartition) -> TxnPartitionEntry:
        """Return the partition's numbers, which begin at 0 when it is new."""
        entry = self._entries.get(tp)
        if entry is None:
            entry = self._entries[tp] = TxnPartitionEntry()
        return entry

    def forget(self, tp: TopicPartition) -> None:
        """Begin at 0 again, for a broker that knows nothing of the producer in this partition."""
        self._entries.pop(tp, None)
        self._unresolved.pop(tp, None)

    def start_over(self, producer: ProducerIdAndEpoch) -> None:
        """Take another id or epoch, under which every partition's numbers begin at 0."""
        self.producer = producer
        self._entries.clear()
        self._unresolved.clear()

    def renumber(self, tp: TopicPartition) -> None:
        """Give the partition's batches in flight new numbers from 0, under the present epoch."""
        self.entry(tp).start_sequences_at_beginning(self.producer)
        self._unresolved.pop(tp, None)

    # Batches on their way

    def may_send(self, first: ProducerBatch, leader_id: int) -> bool:
        """Whether the first batch of a partition may leave to its leader without breaking the order of its numbers."""
        if self.producer.producer_id <= NO_PRODUCER_ID:
            return False
        tp = first.topic_partition
        entry = self.entry(tp)
        if not entry.in_flight:
            return first.has_sequence or tp not in self._unresolved
        if first.has_sequence:
            # A batch that is sent again goes only when it is the oldest in flight.
            return entry.in_flight[0].base_sequence == first.base_sequence
        if entry.producer != self.producer:
            return False
        # The first batch over a connection goes alone: a broker that knows nothing of the producer takes any sequence
        # number, so it would store the second one if it was not ready yet for the first (a new topic, and a log that
        # is being recovered, answer NOT_LEADER for a moment). It never heard of the producer, or lost what it knew
        # with its power. And what is sent again, or is in flight at a former leader, may have been stored already: a
        # new batch could be answered before it, and the callbacks would run out of order; after five more no broker
        # would know it again (Kafka's producer sends them).
        connection = self.connection_number(leader_id)
        if entry.acked_over != connection or any(b.in_retry or b.sent_over != connection for b in entry.in_flight):
            return False
        return tp not in self._unresolved

    def leaves(self, batch: ProducerBatch, leader_id: int) -> None:
        """Note that a batch is sent to the leader, for the first time or again."""
        batch.sent_over = self.connection_number(leader_id)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch its number when it leaves for the first time, and track it as in flight."""
        entry = self.entry(batch.topic_partition)
        if entry.producer != self.producer:
            # All batches of the old id or epoch have ended: the numbers begin again.
            entry.start_sequences_at_beginning(self.producer)
        batch.set_producer_state(self.producer.producer_id, self.producer.epoch, entry.next_sequence)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.add(batch)

    def add_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Track a numbered batch as in flight; raises `IllegalStateError` when it has no number."""
        if not batch.has_sequence:
            raise IllegalStateError(f"{batch!r} has no sequence number, so it cannot be tracked")
        self.entry(batch.topic_partition).add(batch)

    def remove_in_flight_batch(self, batch: ProducerBatch) -> None:
        """Forget a batch without counting it as stored."""
        self.entry(batch.topic_partition).remove(batch)

    def handle_completed_batch(self, batch: ProducerBatch, base_offset: int) -> None:
        """Count a batch as stored."""
        entry = self.entry(batch.topic_partition)
        if (batch.producer_id, batch.producer_epoch) == entry.producer:
            last = batch.last_sequence
            if entry.last_acked_sequence == NO_SEQUENCE or is_later(last, entry.last_acked_sequence):
                entry.last_acked_sequence = last
            entry.acked_over = batch.sent_over
        if base_offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.record_count - 1)
        entry.remove(batch)

    # Gaps

    def is_next(self, tp: TopicPartition, sequence: int) -> bool:
        """Whether all numbers before this one were acknowledged, and no other."""
        return sequence == self.entry(tp).first_unacked_sequence

    def is_ahead(self, tp: TopicPartition, sequence: int) -> bool:
        """Whether numbers before this one were not acknowledged yet."""
        return is_later(sequence, self.entry(tp).first_unacked_sequence)

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Note that a batch which had been sent expired."""
        following = increment_sequence(batch.last_sequence, 1)
        known = self._unresolved.get(batch.topic_partition)
        if known is None or is_later(following, known):
            self._unresolved[batch.topic_partition] = following

    def unresolved(self, tp: TopicPartition) -> int | None:
        """Return the number after the last expired batch of an unresolved partition, None where none expired."""
        return self._unresolved.get(tp)

    def resolve(self) -> list[TopicPartition]:
        """Settle the unresolved partitions that have nothing in flight any more; returns those that have a gap."""
        if not self._unresolved:
            return []
        gaps = []
        for tp in [tp for tp in self._unresolved if not self.entry(tp).in_flight]:
            if not self.is_next(tp, self.entry(tp).next_sequence):
                gaps.append(tp)
            del self._unresolved[tp]
        return gaps


class BatchNumbering(Protocol):
    """What Sender and accumulator ask about the numbers of batches.

    `IdempotenceManager` and `TransactionManager` answer. They differ in what a gap means: the one raises the epoch by
    itself, the other fails the transaction.
    """

    sequences: TxnPartitionMap

    @property
    def is_completing(self) -> bool:
        """Whether a transaction is being ended, so that its batches must leave at once."""

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing can be sent any more; `last_error` says why."""

    @property
    def last_error(self) -> KafkaError | None:
        """The error of the present state."""

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Send nothing any more."""

    def may_send(self, first: ProducerBatch, leader_id: int) -> bool:
        """Whether the first batch of a partition may leave to its leader now."""

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch its number when it leaves for the first time."""

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether to send a batch again after this error."""

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, adjust_sequence_numbers: bool) -> None:
        """Act on a batch that has failed for good.

        `adjust_sequence_numbers` says that the broker certainly did not store it, so that its numbers leave a gap.
        """

    def maybe_resolve_sequences(self) -> None:
        """Decide about the partitions with expired batches in which nothing is in flight any more."""
