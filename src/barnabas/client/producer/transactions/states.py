"""The states of a producer's transactions, and which may follow which."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.errors import IllegalArgumentError


class State(Enum):
    """Where a producer stands; the idempotent one knows only the first three and FATAL_ERROR."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    PREPARED_TRANSACTION = "PREPARED_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


# From which states each state can be reached, as in Kafka 4.3. Nothing leads out of FATAL_ERROR, everything into it.
SOURCES: dict[State, frozenset[State]] = {
    State.UNINITIALIZED: frozenset({State.READY, State.ABORTABLE_ERROR}),
    State.INITIALIZING: frozenset({State.UNINITIALIZED, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}),
    State.READY: frozenset({State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.PREPARED_TRANSACTION: frozenset({State.IN_TRANSACTION, State.INITIALIZING}),
    State.COMMITTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.PREPARED_TRANSACTION}),
    State.ABORTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.PREPARED_TRANSACTION, State.ABORTABLE_ERROR}),
    State.ABORTABLE_ERROR: frozenset(
        {State.IN_TRANSACTION, State.COMMITTING_TRANSACTION, State.ABORTABLE_ERROR, State.INITIALIZING}
    ),
    State.FATAL_ERROR: frozenset(State),
}


class PreparedTxnState(NamedTuple):
    """Which transaction was prepared (KIP-939): to be stored with the other participant's data, as `str`.

    After a crash `producer.complete_transaction(PreparedTxnState.parse(stored))` commits the transaction that the
    broker kept if it is this one, and aborts it if it is not. Empty when no transaction was prepared.
    """

    producer_id: int = -1
    epoch: int = -1

    @classmethod
    def parse(cls, text: str) -> PreparedTxnState:
        """The state that `str` wrote. Raises `IllegalArgumentError` for anything else."""
        if not text:
            return cls()
        producer_id, colon, epoch = text.partition(":")
        if not (colon and producer_id.isdecimal() and epoch.isdecimal()):
            raise IllegalArgumentError(f"A prepared transaction is written as 'producer id:epoch', not {text!r}")
        return cls(int(producer_id), int(epoch))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.producer_id >= 0 else ""
