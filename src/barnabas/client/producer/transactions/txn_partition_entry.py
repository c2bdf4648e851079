"""Sequence numbers of one partition."""

from __future__ import annotations

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.protocol.producer_identity import NO_PRODUCER, NO_SEQUENCE, ProducerIdAndEpoch, increment_sequence


class TxnPartitionEntry:
    """The next sequence number, the last acknowledged one, and the batches in flight in order. The Sender's."""

    __slots__ = ("acked_over", "in_flight", "last_acked_offset", "last_acked_sequence", "next_sequence", "producer")

    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = -1
        #: The number of the connection over which a batch was acknowledged last; no connection has the number -1.
        self.acked_over = -1
        self.in_flight: list[ProducerBatch] = []

    @property
    def first_unacked_sequence(self) -> int:
        """What follows the last acknowledged number."""
        return 0 if self.last_acked_sequence == NO_SEQUENCE else increment_sequence(self.last_acked_sequence, 1)

    def add(self, batch: ProducerBatch) -> None:
        """Note a batch in flight, in the order of epoch and sequence."""
        at = len(self.in_flight)
        while at > 0 and _comes_after(self.in_flight[at - 1], batch):
            at -= 1
        self.in_flight.insert(at, batch)

    def remove(self, batch: ProducerBatch) -> None:
        """Forget a batch that ended."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def start_sequences_at_beginning(self, producer: ProducerIdAndEpoch) -> None:
        """Give the batches in flight new numbers from 0, for a new id or epoch."""
        sequence = 0
        for batch in self.in_flight:
            batch.reset_producer_state(producer.producer_id, producer.epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.producer = producer
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE
        self.acked_over = -1

    def close_gap(self, failed: ProducerBatch) -> None:
        """Move the batches that followed one which the broker refused up into its place."""
        for batch in self.in_flight:
            if is_later(batch.base_sequence, failed.base_sequence):
                sequence = increment_sequence(batch.base_sequence, -failed.record_count)
                batch.reset_producer_state(batch.producer_id, batch.producer_epoch, sequence)
        self.next_sequence = increment_sequence(self.next_sequence, -failed.record_count)


def is_later(one: int, other: int) -> bool:
    """Whether one sequence number comes after another; they wrap at 2**31, so it is less than half of the circle."""
    return 0 < (one - other) & 0x7FFFFFFF < 1 << 30


def _comes_after(one: ProducerBatch, other: ProducerBatch) -> bool:
    mine, theirs = (one.producer_id, one.producer_epoch), (other.producer_id, other.producer_epoch)
    return mine > theirs if mine != theirs else is_later(one.base_sequence, other.base_sequence)
