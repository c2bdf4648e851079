"""The methods of `Producer` that concern transactions."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from barnabas.client.producer import lifetime
from barnabas.client.producer.producer_metrics import TXN_BEGIN, TXN_OPERATIONS, TXN_PREPARE
from barnabas.client.producer.transactions.manager import TransactionManager
from barnabas.client.producer.transactions.states import PreparedTxnState, State
from barnabas.errors import IllegalArgumentError, IllegalStateError, IllegalTypeError, KafkaError, KafkaTimeoutError
from barnabas.network.log_context import enter_client
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.producer_config import ProducerConfig
    from barnabas.client.producer.producer_metrics import ProducerMetrics
    from barnabas.client.producer.record_accumulator import RecordAccumulator
    from barnabas.client.producer.sender_thread import SenderThread
    from barnabas.client.producer.transactions.results import TransactionalRequestResult


class TransactionOperations:
    """What transactions need of a producer without waiting. Operations that take time are begun here."""

    _accumulator: RecordAccumulator
    _config: ProducerConfig
    _client: Any
    _max_block: float
    _metrics: ProducerMetrics
    _transactions: TransactionManager | None

    def begin_transaction(self) -> None:
        """Begin: every record from now on belongs to the transaction, until it is committed or aborted."""
        with self._metrics.times.spent(TXN_BEGIN):
            self._manager("begin_transaction()").begin_transaction()

    @property
    def has_failed(self) -> bool:
        """Whether a transactional producer can only be closed, as another one has taken over, for instance."""
        return self._transactions is not None and self._transactions.has_fatal_error

    def _check_may_wait(self, operation: str) -> None:
        """Raise `IllegalStateError` where waiting would never end."""

    def _manager(self, operation: str) -> TransactionManager:
        lifetime.check(self)
        if self._transactions is None:
            raise IllegalStateError(f"{operation} needs the setting transactional.id, which this producer has not")
        if self._accumulator.closed:
            raise IllegalStateError(f"{operation}: the producer is closed; make a new one")
        self._check_may_wait(operation)
        enter_client(self._config.client_id)
        return self._transactions

    def _initializing(self, keep_prepared_txn: bool) -> TransactionalRequestResult:
        manager = self._manager("init_transactions()")
        if keep_prepared_txn and not manager.two_phase_commit:
            raise IllegalStateError("keep_prepared_txn needs transaction.two.phase.commit.enable=true")
        return manager.init_transactions(keep_prepared_txn)

    def _sending_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> TransactionalRequestResult | None:
        manager = self._manager("send_offsets_to_transaction()")
        group = _group(group_metadata)
        settled = {tp: _offset(tp, offset) for tp, offset in offsets.items()}
        return manager.send_offsets(settled, group) if settled else None

    def _committing(self) -> TransactionalRequestResult:
        return self._manager("commit_transaction()").begin_commit()

    def _aborting(self) -> TransactionalRequestResult:
        return self._manager("abort_transaction()").begin_abort()

    def _preparing(self) -> TransactionManager:
        manager = self._manager("prepare_transaction()")
        if not manager.two_phase_commit:
            raise IllegalStateError("prepare_transaction() needs transaction.two.phase.commit.enable=true")
        manager.states.fail_with_error()
        return manager

    def _completing(self, prepared: PreparedTxnState | str) -> TransactionalRequestResult | None:
        manager = self._manager("complete_transaction()")
        if isinstance(prepared, str):
            prepared = PreparedTxnState.parse(prepared)
        if manager.state is State.READY:
            return None
        if manager.state is not State.PREPARED_TRANSACTION:
            raise IllegalStateError("complete_transaction() ends a prepared transaction, and there is none")
        return self._committing() if manager.prepared == prepared else self._aborting()


class ProducerTransactions(TransactionOperations):
    """Base of `Producer`: what a producer with a `transactional.id` can do besides.

    All methods that talk to a broker wait up to max.block.ms, or `timeout` seconds. After a `KafkaTimeoutError` the
    operation is still under way: call the method again. `TransactionAbortableError` says that the transaction must be
    aborted, `ProducerFencedError` that another producer has taken over; any other `KafkaError` that is not a usage
    error is the producer's end.
    """

    _thread: SenderThread

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has its result."""
        raise NotImplementedError

    def init_transactions(self, timeout: float | None = None, *, keep_prepared_txn: bool = False) -> None:
        """Get an id and a new epoch, once, before the first transaction; what an earlier producer left is aborted.

        With `keep_prepared_txn` a transaction that was prepared is kept, to be ended by `complete_transaction`
        (KIP-939). Raises `TransactionalIdAuthorizationError`, `UnsupportedVersionError`.
        """
        self._wait_for(self._initializing(keep_prepared_txn), timeout)

    def transaction(self) -> Transaction:
        """A transaction as a context: `with producer.transaction():` commits at its end, and aborts after an error.

        An error of a record, or of the commit, aborts too and is raised.
        """
        self._manager("transaction()")
        return Transaction(self)

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction: they count if and only if its records do.

        `offsets` are those of the next records to read; `group_metadata` is the consumer's `group_metadata()`, by
        which the broker refuses a member that was replaced (KIP-447). The consumer must not commit by itself.
        Raises `CommitFailedError` where the group has moved on; the transaction must be aborted then.
        """
        result = self._sending_offsets(offsets, group_metadata)
        if result is not None:
            self._wait_for(result, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left, and commit: readers with isolation.level=read_committed see all of it.

        Raises `TransactionAbortableError` when a record could not be stored.
        """
        self._wait_for(self._committing(), timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort: readers with isolation.level=read_committed see nothing of it. Records not sent yet fail."""
        self._wait_for(self._aborting(), timeout)

    def prepare_transaction(self) -> PreparedTxnState:
        """Make the transaction outlive this producer, for a two-phase commit (KIP-939); returns what identifies it.

        Needs transaction.two.phase.commit.enable=true here and on the broker. `str` of the state is to be stored with
        the other participant's data; then commit, or after a crash `init_transactions(keep_prepared_txn=True)` and
        `complete_transaction(state)`.
        """
        with self._metrics.times.spent(TXN_PREPARE):
            manager = self._preparing()
            self.flush(self._max_block)
            return manager.prepare()

    def complete_transaction(self, prepared: PreparedTxnState | str, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one, else abort it; without one do nothing (KIP-939)."""
        result = self._completing(prepared)
        if result is not None:
            self._wait_for(result, timeout)

    def _check_may_wait(self, operation: str) -> None:
        if threading.current_thread() is self._thread:
            raise IllegalStateError(
                f"{operation} in a callback would wait for itself: callbacks run in the Sender thread"
            )

    def _wait_for(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        self._client.wakeup()
        with self._metrics.times.spent(TXN_OPERATIONS[result.operation]):
            result.wait(self._max_block if timeout is None else timeout)


class Transactional(Protocol):
    """What a `Transaction` needs of its producer."""

    @property
    def has_failed(self) -> bool:
        """Whether the producer can only be closed."""

    def begin_transaction(self) -> None:
        """Begin."""

    def commit_transaction(self) -> None:
        """Commit."""

    def abort_transaction(self) -> None:
        """Abort."""


class Transaction:
    """One transaction of a producer, as a context. Made by `Producer.transaction()`."""

    def __init__(self, producer: Transactional) -> None:
        self._producer = producer

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._abort(error)
            return
        try:
            self._producer.commit_transaction()
        except KafkaTimeoutError:
            # Still under way, and it may succeed: only calling it again tells.
            raise
        except KafkaError as failed:
            self._abort(failed)
            raise

    def _abort(self, reason: BaseException) -> None:
        if self._producer.has_failed:
            return
        try:
            self._producer.abort_transaction()
        except KafkaError as problem:
            # The first error is the one to see. The broker aborts after transaction.timeout.ms at the latest.
            reason.add_note(f"The transaction could not be aborted either: {problem}")


def _group(given: ConsumerGroupMetadata | str) -> ConsumerGroupMetadata:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata

    group = ConsumerGroupMetadata(given) if isinstance(given, str) else given
    if not isinstance(group, ConsumerGroupMetadata):
        raise IllegalTypeError(f"group_metadata is consumer.group_metadata() or a group.id, not {given!r}")
    if group.generation_id > 0 and not group.member_id:
        raise IllegalArgumentError(f"group_metadata of generation {group.generation_id} has no member_id")
    return group


def _offset(tp: TopicPartition, given: OffsetAndMetadata | int) -> OffsetAndMetadata:
    from barnabas.client.consumer.offsets import OffsetAndMetadata

    offset = OffsetAndMetadata(given) if isinstance(given, int) else given
    if offset.offset < 0:
        raise IllegalArgumentError(f"An offset is never negative: {offset.offset} for {tp}")
    return offset
