"""The state of a transactional producer, and the errors that belong to each state."""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.client.producer.transactions.sequences import TransactionManager
from barnabas.client.producer.transactions.states import SOURCES, State
from barnabas.errors import IllegalStateError, KafkaError, ProducerFencedError, TransactionAbortableError
from barnabas.network.log_context import client_logger

log = client_logger("barnabas.producer")

_WHY_NO_RECORDS = {
    State.UNINITIALIZED: "call init_transactions() first",
    State.INITIALIZING: "init_transactions() has not ended; call it again to wait on",
    State.READY: "no transaction is open: call begin_transaction(), or use `with producer.transaction():`",
    State.PREPARED_TRANSACTION: "the transaction is prepared, and can only be committed, aborted or completed",
    State.COMMITTING_TRANSACTION: "the transaction is being committed",
    State.ABORTING_TRANSACTION: "the transaction is being aborted",
}


class TransactionalStates(TransactionManager):
    """The part of `TransactionalManager` that changes the state, and says so to whoever sends records."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__()
        self.transactional_id = transactional_id
        self.lock = threading.RLock()
        self._refuse_records: Callable[[Callable[[], KafkaError] | None], None] = lambda why: None

    def refuse_records_by(self, refuse: Callable[[Callable[[], KafkaError] | None], None]) -> None:
        """Say with `refuse` from now on whether records may be taken; None means that they may."""
        self._refuse_records = refuse
        refuse(self._error_for_records)

    def fail_waiting(self, error: KafkaError) -> None:
        """Give up whatever waits for an answer."""
        raise NotImplementedError

    def transition_to(self, target: State, operation: str = "", error: KafkaError | None = None) -> None:
        """Enter a state. Raises `IllegalStateError` where the table has no such way."""
        if self.state not in SOURCES[target]:
            raise IllegalStateError(
                f"{operation or target.value} is not possible for transactional.id {self.transactional_id!r} in state "
                f"{self.state.value}: {self._why_not()}"
            )
        log.debug("transactional.id %r: %s, was %s", self.transactional_id, target.value, self.state.value)
        self.state = target
        self.last_error = error
        self._refuse_records(None if target is State.IN_TRANSACTION else self._error_for_records)

    def transition_to_abortable_error(self, error: KafkaError) -> None:
        """The transaction can only be aborted; not said of one that is being aborted anyway."""
        with self.lock:
            if self.state is not State.ABORTING_TRANSACTION:
                log.info("transactional.id %r: the transaction must be aborted: %s", self.transactional_id, error)
                self.transition_to(State.ABORTABLE_ERROR, error=error)

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """The producer can only be closed; everyone who waits gets the error."""
        with self.lock:
            if self.has_fatal_error:
                return
            log.error("transactional.id %r: the producer has failed for good: %s", self.transactional_id, error)
            self.transition_to(State.FATAL_ERROR, error=error)
            self.fail_waiting(error)

    @property
    def is_completing(self) -> bool:
        """Whether a commit or an abort is under way."""
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
        """The error of the present state, as the methods for transactions raise it."""
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
        """What this producer is told when another one has its transactional.id."""
        return ProducerFencedError(
            f"Another producer with transactional.id {self.transactional_id!r} has taken over from this one "
            f"(producer id {self.producer.producer_id}, epoch {self.producer.epoch}), or its transaction took longer "
            "than transaction.timeout.ms; close this producer"
        )

    def _error_for_records(self) -> KafkaError:
        if self.state not in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return IllegalStateError(f"The record was not taken: {self._why_not()}")
        error = self.api_error()
        if not isinstance(error, TransactionAbortableError):
            return error
        # Not an error of the broker's about this record, so send() raises it.
        raised = KafkaError(f"The record was not taken: {error}")
        raised.__cause__ = error.__cause__
        return raised

    def _why_not(self) -> str:
        return _WHY_NO_RECORDS.get(self.state, f"{self.last_error or 'a transaction is open already'}")
