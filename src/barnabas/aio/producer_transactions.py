"""The methods of `Producer` that concern transactions."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from barnabas.client.producer.producer_metrics import TXN_OPERATIONS, TXN_PREPARE
from barnabas.client.producer.producer_transactions import TransactionOperations
from barnabas.client.producer.transactions.states import PreparedTxnState
from barnabas.errors import KafkaError, KafkaTimeoutError
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.aio.loop_driver import LoopDriver
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.transactions.results import TransactionalRequestResult


class ProducerTransactions(TransactionOperations):
    """Base of `Producer`: what a producer with a `transactional.id` can do besides.

    As in `barnabas.Producer`: methods that talk to a broker wait up to max.block.ms, or `timeout` seconds. After a
    `KafkaTimeoutError`, and when the call is cancelled, the operation is still under way: call the method again.
    """

    _driver: LoopDriver

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every record sent before has its result."""
        raise NotImplementedError

    def _start(self) -> None:
        """Begin to work in the running event loop."""
        raise NotImplementedError

    async def init_transactions(self, timeout: float | None = None, *, keep_prepared_txn: bool = False) -> None:
        """Get an id and a new epoch, once, before the first transaction; what an earlier producer left is aborted.

        See `barnabas.Producer.init_transactions`.
        """
        self._start()
        await self._wait_for(self._initializing(keep_prepared_txn), timeout)

    def transaction(self) -> Transaction:
        """A transaction as a context: `async with producer.transaction():` commits at its end, aborts after an error.

        An error of a record, of the commit, or a cancellation aborts too and is raised.
        """
        self._manager("transaction()")
        return Transaction(self)

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        group_metadata: ConsumerGroupMetadata | str,
        timeout: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction. See `barnabas.Producer.send_offsets_to_transaction`."""
        self._start()
        result = self._sending_offsets(offsets, group_metadata)
        if result is not None:
            await self._wait_for(result, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is left, and commit. See `barnabas.Producer.commit_transaction`."""
        self._start()
        await self._wait_for(self._committing(), timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort; records not sent yet fail. See `barnabas.Producer.abort_transaction`."""
        self._start()
        await self._wait_for(self._aborting(), timeout)

    async def prepare_transaction(self) -> PreparedTxnState:
        """Make the transaction outlive this producer (KIP-939). See `barnabas.Producer.prepare_transaction`."""
        with self._metrics.times.spent(TXN_PREPARE):
            manager = self._preparing()
            await self.flush(self._max_block)
            return manager.prepare()

    async def complete_transaction(self, prepared: PreparedTxnState | str, timeout: float | None = None) -> None:
        """Commit the prepared transaction if it is this one, else abort it; without one do nothing (KIP-939)."""
        self._start()
        result = self._completing(prepared)
        if result is not None:
            await self._wait_for(result, timeout)

    async def _wait_for(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        self._client.wakeup()
        seconds = self._max_block if timeout is None else timeout
        with self._metrics.times.spent(TXN_OPERATIONS[result.operation]):
            await self._driver.until(lambda: result.is_completed, seconds)
        result.settle(seconds)


class Transactional(Protocol):
    """What a `Transaction` needs of its producer."""

    @property
    def has_failed(self) -> bool:
        """Whether the producer can only be closed."""

    def begin_transaction(self) -> None:
        """Begin."""

    async def commit_transaction(self) -> None:
        """Commit."""

    async def abort_transaction(self) -> None:
        """Abort."""


class Transaction:
    """One transaction of a producer, as an asynchronous context. Made by `Producer.transaction()`."""

    def __init__(self, producer: Transactional) -> None:
        self._producer = producer

    async def __aenter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            await self._abort(error)
            return
        try:
            await self._producer.commit_transaction()
        except KafkaTimeoutError:
            # Still under way, and it may succeed: only calling it again tells.
            raise
        except KafkaError as failed:
            await self._abort(failed)
            raise

    async def _abort(self, reason: BaseException) -> None:
        if self._producer.has_failed:
            return
        try:
            await self._producer.abort_transaction()
        except KafkaError as problem:
            # The first error is the one to see. The broker aborts after transaction.timeout.ms at the latest.
            reason.add_note(f"The transaction could not be aborted either: {problem}")
