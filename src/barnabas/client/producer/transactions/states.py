"""The states of a producer's transactions, and which may follow which.

Rule 1: a state changes only as the table `SOURCES` allows (it is Kafka's, of TransactionManager 4.3). A call of the
application that the table does not allow raises `IllegalStateError` and changes nothing; an answer of a broker that it
does not allow is a broken protocol, and ends in FATAL_ERROR.

Rule 2: records are taken in IN_TRANSACTION and in no other state. Whether they are is one field of the accumulator
(`refusal`), changed with the state and read under the accumulator's lock: a record that `send()` took belongs to the
transaction that was open. Lock order: the manager's, then the accumulator's.

Rule 3: nothing leads out of FATAL_ERROR, and everything leads into it. Out of ABORTABLE_ERROR leads only aborting, or,
when init_transactions() itself was denied, beginning again.

Theory of operation, from the first call on (application's calls on the left, answers of the coordinator on the right):

    UNINITIALIZED           init_transactions()                   -> INITIALIZING
    INITIALIZING                           InitProducerId         -> READY, or PREPARED_TRANSACTION if one was kept
    READY                   begin_transaction()                   -> IN_TRANSACTION
    IN_TRANSACTION          prepare_transaction() (KIP-939)       -> PREPARED_TRANSACTION
    IN_TRANSACTION,         commit_transaction()                  -> COMMITTING_TRANSACTION
    PREPARED_TRANSACTION    abort_transaction()                   -> ABORTING_TRANSACTION
    COMMITTING_TRANSACTION, ABORTING_TRANSACTION  EndTxn          -> READY, or INITIALIZING if a new epoch is needed
    any but READY and the end of an abort  an error to abort for  -> ABORTABLE_ERROR
    ABORTABLE_ERROR         abort_transaction()                   -> ABORTING_TRANSACTION
    any                                    an error for good      -> FATAL_ERROR

In transaction version 2 (KIP-890) the answer to EndTxn brings the next epoch; before it, the client asks for one with
InitProducerId after an abort that lost sequence numbers. The idempotent producer knows only the first three states and
FATAL_ERROR.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from barnabas.errors import (
    IllegalArgumentError,
    IllegalStateError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
)
from barnabas.network.log_context import client_logger
from barnabas.protocol.producer_identity import ProducerIdAndEpoch

log = client_logger("barnabas.producer")


class State(Enum):
    """Where a producer stands."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    PREPARED_TRANSACTION = "PREPARED_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


# From which states each state can be reached.
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
        """Return the state that `str` wrote. Raises `IllegalArgumentError` for anything else."""
        if not text:
            return cls()
        producer_id, colon, epoch = text.partition(":")
        if not (colon and producer_id.isdecimal() and epoch.isdecimal()):
            raise IllegalArgumentError(f"A prepared transaction is written as 'producer id:epoch', not {text!r}")
        return cls(int(producer_id), int(epoch))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.producer_id >= 0 else ""


_WHY_NO_RECORDS = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "init_transactions() has not ended; call it again to wait on",
    State.READY: "no transaction is open: call begin_transaction(), or use `with producer.transaction():`",
    State.PREPARED_TRANSACTION: "the transaction is prepared, and can only be committed, aborted or completed",
    State.COMMITTING_TRANSACTION: "the transaction is being committed",
    State.ABORTING_TRANSACTION: "the transaction is being aborted",
}

Refuse = Callable[[Callable[[], KafkaError] | None], None]


class TransactionStates:
    """The state machine: where the producer stands, the error that goes with it, and whether records are taken.

    `identity()` is the producer's present id and epoch, for errors. The manager's `lock` guards it.
    """

    def __init__(
        self, transactional_id: str, identity: Callable[[], ProducerIdAndEpoch], lock: threading.RLock
    ) -> None:
        self.transactional_id = transactional_id
        self.state = State.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self._identity = identity
        self._lock = lock
        self._refuse_records: Refuse = lambda why: None

    def refuse_records_by(self, refuse: Refuse) -> None:
        """Say with `refuse` from now on whether records may be taken; None means that they may."""
        self._refuse_records = refuse
        refuse(self._error_for_records)

    def transition_to(self, target: State, operation: str = "", error: KafkaError | None = None) -> None:
        """Enter a state. Raises `IllegalStateError` where the table has no such way."""
        if self.state not in SOURCES[target]:
            raise IllegalStateError(
                f"{operation or target.value} is not possible for transactional.id {self.transactional_id!r} in state "
                f"{self.state.value}: {self.why_not()}"
            )
        log.debug("transactional.id %r: %s, was %s", self.transactional_id, target.value, self.state.value)
        self.state = target
        self.last_error = error
        self._refuse_records(None if target is State.IN_TRANSACTION else self._error_for_records)

    def reset(self, state: State) -> None:
        """Stand where another transactional id begins; the table knows no other id than one."""
        self.state = state
        self._refuse_records(self._error_for_records)

    def transition_to_abortable_error(self, error: KafkaError) -> None:
        """Allow nothing but aborting; without effect on a transaction that is being aborted."""
        with self._lock:
            if self.state is not State.ABORTING_TRANSACTION:
                log.info("transactional.id %r: the transaction must be aborted: %s", self.transactional_id, error)
                self.transition_to(State.ABORTABLE_ERROR, error=error)

    def transition_to_fatal_error(self, error: KafkaError) -> bool:
        """Allow nothing but closing; tells whether that is new."""
        with self._lock:
            if self.has_fatal_error:
                return False
            log.error("transactional.id %r: the producer has failed for good: %s", self.transactional_id, error)
            self.transition_to(State.FATAL_ERROR, error=error)
            return True

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing can be sent any more."""
        return self.state is State.FATAL_ERROR

    @property
    def is_completing(self) -> bool:
        """Whether a commit or an abort is in progress."""
        return self.state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)

    @property
    def is_aborting(self) -> bool:
        """Whether records that were not sent yet are to be dropped."""
        return self.state in (State.ABORTING_TRANSACTION, State.ABORTABLE_ERROR)

    @property
    def has_ongoing_transaction(self) -> bool:
        """Whether closing must abort. A prepared transaction is not touched."""
        return self.is_completing or self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    def fail_with_error(self) -> None:
        """Raise the error that the producer is in, if any."""
        if self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            raise self.api_error()

    def api_error(self) -> KafkaError:
        """Return the error of the present state, as the methods for transactions raise it."""
        cause = self.last_error
        if isinstance(cause, ProducerFencedError):
            return self.fenced_error()
        if self.state is State.FATAL_ERROR:
            error = KafkaError(f"The producer has failed for good; close it and make a new one. The reason: {cause}")
        else:
            error = TransactionAbortableError(f"The transaction has failed; call abort_transaction(). Reason: {cause}")
        error.__cause__ = cause
        return error

    def fenced_error(self) -> ProducerFencedError:
        """Return what this producer is told when another one has its transactional.id."""
        producer_id, epoch = self._identity()
        return ProducerFencedError(
            f"Another producer with transactional.id {self.transactional_id!r} has taken over from this one "
            f"(producer id {producer_id}, epoch {epoch}), or its transaction took longer than transaction.timeout.ms; "
            "close this producer"
        )

    def _error_for_records(self) -> KafkaError:
        if self.state not in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return IllegalStateError(f"The record was not taken: {self.why_not()}")
        error = self.api_error()
        if not isinstance(error, TransactionAbortableError):
            return error
        # Not an error of the broker's about this record, so send() raises it.
        raised = KafkaError(f"The record was not taken: {error}")
        raised.__cause__ = error.__cause__
        return raised

    def why_not(self) -> str:
        """Why the present state allows neither records nor what was asked."""
        return _WHY_NO_RECORDS.get(self.state, f"{self.last_error or 'a transaction is open already'}")
