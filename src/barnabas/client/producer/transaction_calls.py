"""The calls of a producer that concern transactions: written once, as steps, for threads and for event loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.producer import arguments
from barnabas.client.producer.producer_metrics import TXN_BEGIN, TXN_OPERATIONS, TXN_PREPARE
from barnabas.client.producer.transactions.states import PreparedTxnState, State
from barnabas.errors import IllegalStateError, IllegalTypeError, KafkaError, KafkaTimeoutError
from barnabas.network.log_context import enter_client
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.producer_core import ProducerCore
    from barnabas.client.producer.transactions.transaction_manager import TransactionManager
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.client.producer.waits import Waits
    from barnabas.client.steps import Steps

Offsets = Mapping[TopicPartition, "OffsetAndMetadata | int"]


class TransactionCalls:
    """What `Producer`'s methods for transactions do. See there for what each means."""

    def __init__(self, core: ProducerCore, waits: Waits) -> None:
        self._core = core
        self._waits = waits
        self._metrics = core.parts.metrics
        self._transactions = core.parts.transactions

    @property
    def has_failed(self) -> bool:
        """Whether a transactional producer can only be closed, as another one has taken over, for instance."""
        return self._transactions is not None and self._transactions.has_fatal_error

    def manager(self, operation: str) -> TransactionManager:
        """Return the manager, for a call that needs it now; raises `IllegalStateError` if it may not be made."""
        self._core.lifetime.check()
        if self._transactions is None:
            raise IllegalStateError(f"{operation} needs the setting transactional.id, which this producer has not")
        if self._core.parts.accumulator.closed:
            raise IllegalStateError(f"{operation}: the producer is closed; make a new one")
        self._waits.check_may_wait(operation)
        enter_client(self._core.parts.config.client_id)
        return self._transactions

    def begin(self) -> None:
        """Begin: every record from now on belongs to the transaction."""
        with self._metrics.times.spent(TXN_BEGIN):
            self.manager("begin_transaction()").begin_transaction()

    def initialize(self, timeout: float | None, keep_prepared_txn: bool) -> Steps[None]:
        """`init_transactions`."""
        timeout = arguments.timeout(timeout)
        manager = self.manager("init_transactions()")
        if keep_prepared_txn and not manager.two_phase_commit:
            raise IllegalStateError("keep_prepared_txn needs transaction.two.phase.commit.enable=true")
        yield from self._wait_for(manager.init_transactions(keep_prepared_txn), timeout)

    def send_offsets(
        self, offsets: Offsets, group_metadata: ConsumerGroupMetadata | str, timeout: float | None
    ) -> Steps[None]:
        """`send_offsets_to_transaction`."""
        group = arguments.group_metadata(group_metadata)
        checked = arguments.offsets_consumed(offsets, group_metadata)
        timeout = arguments.timeout(timeout)
        manager = self.manager("send_offsets_to_transaction()")
        if checked:
            yield from self._wait_for(manager.send_offsets(checked, group), timeout)

    def commit(self, timeout: float | None = None) -> Steps[None]:
        """`commit_transaction`."""
        timeout = arguments.timeout(timeout)
        yield from self._wait_for(self.manager("commit_transaction()").begin_commit(), timeout)

    def abort(self, timeout: float | None = None) -> Steps[None]:
        """`abort_transaction`."""
        timeout = arguments.timeout(timeout)
        yield from self._wait_for(self.manager("abort_transaction()").begin_abort(), timeout)

    def prepare(self) -> Steps[PreparedTxnState]:
        """`prepare_transaction`."""
        with self._metrics.times.spent(TXN_PREPARE):
            manager = self.manager("prepare_transaction()")
            if not manager.two_phase_commit:
                raise IllegalStateError("prepare_transaction() needs transaction.two.phase.commit.enable=true")
            manager.states.fail_with_error()
            yield from self._core.flush(self._core.max_block)
            return manager.prepare()

    def complete(self, prepared: PreparedTxnState | str, timeout: float | None) -> Steps[None]:
        """`complete_transaction`."""
        timeout = arguments.timeout(timeout)
        if isinstance(prepared, str):
            prepared = PreparedTxnState.parse(prepared)
        if not isinstance(prepared, PreparedTxnState):
            raise IllegalTypeError(f"prepared is a PreparedTxnState or its str, not {type(prepared).__name__}")
        manager = self.manager("complete_transaction()")
        if manager.state is State.READY:
            return
        if manager.state is not State.PREPARED_TRANSACTION:
            raise IllegalStateError("complete_transaction() ends a prepared transaction, and there is none")
        yield from self.commit(timeout) if manager.prepared == prepared else self.abort(timeout)

    def leave(self, error: BaseException | None) -> Steps[None]:
        """End the context of `transaction()`, whose body raised this error, or none."""
        return leave_transaction(error, self.commit, self.abort, lambda: self.has_failed)

    def _wait_for(self, result: TransactionalRequestResult, timeout: float | None) -> Steps[None]:
        self._core.parts.client.wakeup()
        seconds = self._core.max_block if timeout is None else timeout
        with self._metrics.times.spent(TXN_OPERATIONS[result.operation]):
            yield from self._waits.wait_for_transaction(result, seconds)
        self._core.parts.exit.raise_noted()
        result.end_wait(seconds)


def leave_transaction(
    error: BaseException | None,
    commit: Callable[[], Steps[None]],
    abort: Callable[[], Steps[None]],
    has_failed: Callable[[], bool],
) -> Steps[None]:
    """Commit a transaction whose body ended well, and abort one that raised an error; a failed commit aborts too.

    Raises what the commit raised.
    """
    if error is None:
        try:
            yield from commit()
        except KafkaTimeoutError:
            # The commit is in flight, and it may succeed: only calling it again tells.
            raise
        except KafkaError as failed:
            yield from leave_transaction(failed, commit, abort, has_failed)
            raise
        return
    if has_failed():
        return
    try:
        yield from abort()
    except KafkaError as problem:
        # The first error is the one to see. The broker aborts after transaction.timeout.ms at the latest.
        error.add_note(f"The transaction could not be aborted either: {problem}")
