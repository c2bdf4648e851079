"""What the coordinator knows of one transactional id, and the next value of it for each event (TransactionMetadata).

A value is never changed: a transition makes a new one, which is written to the log and then takes the old one's place.
"""

from __future__ import annotations

from typing import Self

from barnabas.broker.transactions.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    RESTING,
    check_transition,
)
from barnabas.errors import IllegalStateError
from barnabas.protocol.producer_identity import MAX_PRODUCER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.records.batch_header import NO_TIMESTAMP

#: What a two-phase commit has in place of a time-out (KIP-939): it is never aborted for its age.
NO_TIMEOUT = 0x7FFFFFFF
#: Transaction versions: the first protocol, and the one in which every transaction has its own epoch (KIP-890).
TV_0, TV_2 = 0, 2

#: Topic and partition index.
TopicIndex = tuple[str, int]


def is_epoch_exhausted(epoch: int) -> bool:
    """Whether no client may get a later epoch: the last one is kept for fencing."""
    return epoch >= MAX_PRODUCER_EPOCH - 1


class TransactionMetadata:
    """One transactional id. `partitions` are those of the open transaction, or those that still lack a marker."""

    __slots__ = (
        "client_transaction_version",
        "last_producer_epoch",
        "last_update_ms",
        "next_producer_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        timeout_ms: int,
        last_update_ms: int,
        *,
        state: int = EMPTY,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        last_producer_epoch: int = NO_PRODUCER_EPOCH,
        previous_producer_id: int = NO_PRODUCER_ID,
        next_producer_id: int = NO_PRODUCER_ID,
        next_producer_epoch: int = NO_PRODUCER_EPOCH,
        partitions: frozenset[TopicIndex] = frozenset(),
        start_ms: int = NO_TIMESTAMP,
        client_transaction_version: int = TV_0,
    ):
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        #: The epoch before, by which a repeated InitProducerId is recognised; not written to the log.
        self.last_producer_epoch = last_producer_epoch
        self.previous_producer_id = previous_producer_id
        #: What the client has, or is to get, where that is not `producer_id` and `producer_epoch`.
        self.next_producer_id = next_producer_id
        self.next_producer_epoch = next_producer_epoch
        self.timeout_ms = timeout_ms
        self.state = state
        self.partitions = partitions
        self.start_ms = start_ms
        self.last_update_ms = last_update_ms
        self.client_transaction_version = client_transaction_version

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"TransactionMetadata({fields})"

    @property
    def is_two_phase(self) -> bool:
        """Whether a two-phase commit decides about the transaction, without a time-out (KIP-939)."""
        return self.timeout_ms == NO_TIMEOUT

    @property
    def is_recovered(self) -> bool:
        """Whether the client has a newer identity than the open transaction."""
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def client_producer_id(self) -> int:
        """The producer id that the client presents."""
        return self.next_producer_id if self.is_recovered else self.producer_id

    @property
    def client_producer_epoch(self) -> int:
        """The epoch that the client presents."""
        return self.next_producer_epoch if self.is_recovered else self.producer_epoch

    def has_timed_out(self, now_ms: int) -> bool:
        """Whether the transaction is open for longer than its time-out."""
        return self.state == ONGOING and not self.is_two_phase and self.start_ms + self.timeout_ms < now_ms

    def initialized(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> Self:
        """After InitProducerId: ready for a first transaction of this epoch."""
        return self._to(
            EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    def with_partitions(self, added: frozenset[TopicIndex], version: int, now_ms: int) -> Self:
        """With these partitions in the transaction, which begins now if none was open."""
        return self._to(
            ONGOING,
            partitions=self.partitions | added,
            start_ms=now_ms if self.state in RESTING else self.start_ms,
            last_update_ms=now_ms,
            client_transaction_version=version,
        )

    def fenced(self) -> Self:
        """One epoch later, which shuts the producer out; only ever a step on the way to an abort."""
        return self._to(
            PREPARE_EPOCH_FENCE,
            producer_epoch=min(self.producer_epoch + 1, MAX_PRODUCER_EPOCH),
            last_producer_epoch=NO_PRODUCER_EPOCH,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        )

    def recovered(self, producer_id: int, epoch: int, timeout_ms: int, now_ms: int) -> Self:
        """Open as before, and under the control of a new producer with this identity (KIP-939)."""
        return self._to(
            ONGOING,
            next_producer_id=producer_id,
            next_producer_epoch=epoch,
            timeout_ms=timeout_ms,
            last_update_ms=now_ms,
        )

    def prepared(
        self,
        commit: bool,
        version: int,
        next_producer_id: int,
        now_ms: int,
        next_producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Self:
        """With the result decided.

        `next_producer_id` (or -1) is what the client goes on with after the last epoch, or after a recovery, then with
        `next_producer_epoch`.
        """
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if version >= TV_2:
            epoch, last_epoch = min(epoch + 1, MAX_PRODUCER_EPOCH), epoch
        return self._to(
            PREPARE_COMMIT if commit else PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            next_producer_epoch=next_producer_epoch,
            # An abort that nothing preceded begins when it ends.
            start_ms=now_ms if self.state in RESTING else self.start_ms,
            last_update_ms=now_ms,
            client_transaction_version=version,
        )

    def without(self, partitions: frozenset[TopicIndex]) -> Self:
        """Without partitions whose markers are written; the same state."""
        return self._copy(partitions=self.partitions - partitions)

    def completed(self, now_ms: int) -> Self:
        """With all markers written."""
        producer_id, epoch = self.producer_id, self.producer_epoch
        if self.is_recovered:
            producer_id, epoch = self.next_producer_id, self.next_producer_epoch
        elif self.next_producer_id != NO_PRODUCER_ID:
            producer_id, epoch = self.next_producer_id, 0
        return self._to(
            COMPLETE_COMMIT if self.state == PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            partitions=frozenset(),
            last_update_ms=now_ms,
        )

    def _to(self, state: int, **changes: object) -> Self:
        check_transition(self.transactional_id, self.state, state)
        following = self._copy(state=state, previous_producer_id=self.producer_id, **changes)
        if following.producer_id < 0 or not 0 <= following.producer_epoch <= MAX_PRODUCER_EPOCH:
            raise IllegalStateError(f"{following} has no valid producer id and epoch")
        return following

    def _copy(self, **changes: object) -> Self:
        copy = object.__new__(type(self))
        for name in self.__slots__:
            setattr(copy, name, changes[name] if name in changes else getattr(self, name))
        return copy
