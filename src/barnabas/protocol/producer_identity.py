"""Who wrote a batch: producer id, epoch and sequence numbers (KIP-98, KIP-360), for clients and broker alike."""

from __future__ import annotations

from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
#: Sequence numbers are not negative; after this one comes 0.
MAX_SEQUENCE: Final = 0x7FFFFFFF
#: The largest epoch of 16 bits is never given to a producer: with it a transaction coordinator fences the last one.
MAX_PRODUCER_EPOCH: Final = 0x7FFF


class ProducerIdAndEpoch(NamedTuple):
    """The identity under which a producer writes."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        """Whether the coordinator or a broker has given an id."""
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def increment_sequence(sequence: int, increment: int) -> int:
    """Return the sequence number `increment` later; after 2^31 - 1 comes 0. A negative increment goes back."""
    return (sequence + increment) & MAX_SEQUENCE


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Return the sequence number `decrement` earlier; before 0 comes 2^31 - 1."""
    return (sequence - decrement) & MAX_SEQUENCE
