"""Transactions (KIP-98, KIP-360, KIP-447, KIP-890, KIP-939): what the producer's methods ask for, step by step."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.transactions.outcomes import (
    Action,
    CoordinatorFound,
    EpochStarted,
    Failed,
    OffsetsAdded,
    OffsetsCommitted,
    Outcome,
    PartitionsAdded,
    Retry,
    TransactionEnded,
    failure_of_batch,
)
from barnabas.client.producer.transactions.pending_state_transition import PendingStateTransition
from barnabas.client.producer.transactions.request_queue import RequestQueue
from barnabas.client.producer.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    Identity,
    InitProducerId,
    TransactionalRequest,
    TxnOffsetCommit,
)
from barnabas.client.producer.transactions.states import PreparedTxnState, State, TransactionStates
from barnabas.client.producer.transactions.transaction_version import TransactionVersion
from barnabas.client.producer.transactions.txn_partition_map import TxnPartitionMap
from barnabas.errors import (
    ClusterAuthorizationError,
    IllegalStateError,
    KafkaError,
    OutOfOrderSequenceError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
)
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.producer_identity import NO_PRODUCER, ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
    from barnabas.network.client_request import ClientResponse
    from barnabas.network.exponential_backoff import ExponentialBackoff
    from barnabas.network.node_api_versions import NodeApiVersions

# Seconds before a transaction's first partition is tried again while the last one is still being ended (KAFKA-5482).
_FIRST_PARTITION_BACKOFF = 0.02


class TransactionManager:
    """What a transactional producer knows: its numbers, its state, the transaction's partitions, the waiting requests.

    The application's threads begin and end transactions, the Sender thread does the rest; `lock` guards the state and
    the queue. Partitions and sequence numbers are the Sender's alone.
    """

    def __init__(
        self,
        transactional_id: str,
        transaction_timeout_ms: int,
        retry_backoff: ExponentialBackoff,
        api_versions: Callable[[int], NodeApiVersions | None],
        two_phase_commit: bool = False,
    ) -> None:
        self.lock = threading.RLock()
        self.sequences = TxnPartitionMap()
        self.states = TransactionStates(transactional_id, lambda: self.sequences.producer, self.lock)
        self.requests = RequestQueue(self.lock, retry_backoff)
        self.transaction_timeout_ms = transaction_timeout_ms
        self.two_phase_commit = two_phase_commit
        self.transaction_started = False
        self.version = TransactionVersion(lambda: self._coordinator_versions(api_versions))
        self.prepared = PreparedTxnState()
        self._partitions: set[TopicPartition] = set()
        self._being_added: set[TopicPartition] = set()
        self._pending = PendingStateTransition()

    def _coordinator_versions(self, api_versions: Callable[[int], NodeApiVersions | None]) -> NodeApiVersions | None:
        node = self.requests.coordinators.get((CoordinatorType.TRANSACTION, self.transactional_id))
        return None if node is None else api_versions(node.id)

    @property
    def is_v2(self) -> bool:
        """Whether transactions are of version 2 (KIP-890)."""
        return self.version.is_v2

    @property
    def transactional_id(self) -> str:
        """The id under which transactions are written now."""
        return self.states.transactional_id

    @property
    def state(self) -> State:
        """Where the producer stands."""
        return self.states.state

    @property
    def last_error(self) -> KafkaError | None:
        """The error of the present state."""
        return self.states.last_error

    @property
    def has_fatal_error(self) -> bool:
        """Whether nothing can be sent any more; `last_error` says why."""
        return self.states.has_fatal_error

    @property
    def is_completing(self) -> bool:
        """Whether a commit or an abort is in progress, so that its batches must leave at once."""
        return self.states.is_completing

    # What the application asks for

    def init_transactions(self, keep_prepared_txn: bool = False) -> TransactionalRequestResult:
        """Ask for the producer id and a new epoch."""

        def start() -> TransactionalRequestResult:
            self.states.fail_with_error()
            self.states.transition_to(State.INITIALIZING)
            request = self._init_producer_id(NO_PRODUCER, "init_transactions()", keep_prepared_txn)
            return self.requests.enqueue(request)

        return self._begin(State.INITIALIZING, "init_transactions()", start)

    def begin_transaction(self) -> None:
        """Take records from now on. Raises `IllegalStateError` if this is not the time."""
        with self.lock:
            self._pending.refuse("begin_transaction()")
            self.states.fail_with_error()
            self.states.transition_to(State.IN_TRANSACTION, "begin_transaction()")

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionalRequestResult:
        """Make the offsets part of the transaction."""
        with self.lock:
            self._require_transaction("send_offsets_to_transaction()")
            if not self.is_v2:
                return self.requests.enqueue(AddOffsetsToTxn(self._identity(), offsets, group))
            self.transaction_started = True
            return self.requests.enqueue(TxnOffsetCommit(self._identity(), offsets, group))

    def prepare(self) -> PreparedTxnState:
        """Take no more records; the transaction then survives this producer."""
        with self.lock:
            self._pending.refuse("prepare_transaction()")
            self.states.fail_with_error()
            self.states.transition_to(State.PREPARED_TRANSACTION, "prepare_transaction()")
            self.prepared = PreparedTxnState(*self.sequences.producer)
            return self.prepared

    def detach(self) -> frozenset[TopicPartition]:
        """Forget the open transaction, all of whose records are stored; another process may end it by its identity.

        Returns the partitions it has records in. `adopt` comes next.
        """
        with self.lock:
            self._require_transaction("detach()")
            partitions = frozenset(self._partitions)
            self._begin_anew(State.UNINITIALIZED, NO_PRODUCER)
            return partitions

    def adopt(self, transactional_id: str, producer: ProducerIdAndEpoch | None = None) -> None:
        """Go on under another transactional id.

        One to be initialized, or (in transaction version 2) one whose last transaction another process has
        ended, which gave it this producer id and epoch.
        """
        with self.lock:
            self._pending.refuse("adopt()")
            self.states.fail_with_error()
            if self.state not in (State.UNINITIALIZED, State.READY):
                raise IllegalStateError(f"adopt(): {self.states.why_not()}")
            self.states.transactional_id = transactional_id
            if producer is None:
                self._begin_anew(State.UNINITIALIZED, NO_PRODUCER)
            else:
                self.version.is_v2 = True
                self._begin_anew(State.READY, producer)

    def _require_transaction(self, operation: str) -> None:
        self._pending.refuse(operation)
        self.states.fail_with_error()
        if self.state is not State.IN_TRANSACTION:
            raise IllegalStateError(f"{operation}: {self.states.why_not()}")

    def _begin_anew(self, state: State, producer: ProducerIdAndEpoch) -> None:
        self.sequences.start_over(producer)
        self._forget_transaction()
        self.states.reset(state)

    def begin_commit(self) -> TransactionalRequestResult:
        """Take no more records, and commit when all have their results."""

        def start() -> TransactionalRequestResult:
            self.states.fail_with_error()
            self.states.transition_to(State.COMMITTING_TRANSACTION, "commit_transaction()")
            return self._begin_completing(committed=True)

        return self._begin(State.COMMITTING_TRANSACTION, "commit_transaction()", start)

    def begin_abort(self) -> TransactionalRequestResult:
        """Take no more records, drop those not sent yet, and abort when the others have their results."""

        def start() -> TransactionalRequestResult:
            if self.state is not State.ABORTABLE_ERROR:
                self.states.fail_with_error()
            self.states.transition_to(State.ABORTING_TRANSACTION, "abort_transaction()")
            return self._begin_completing(committed=False)

        return self._begin(State.ABORTING_TRANSACTION, "abort_transaction()", start)

    def abort_on_close(self) -> None:
        """As `begin_abort`, when the application will not call again what has timed out."""
        with self.lock:
            self._pending.give_up()
            self.begin_abort()

    def _begin(
        self, target: State, operation: str, start: Callable[[], TransactionalRequestResult]
    ) -> TransactionalRequestResult:
        """Begin what leads to `target`, or give the result of the same call that timed out before."""
        with self.lock:
            return self._pending.begin(target, operation, start)

    def _begin_completing(self, committed: bool) -> TransactionalRequestResult:
        ended = self.requests.enqueue(EndTxn(self._identity(), committed))
        self.version.update(initial=False)
        if not self.version.client_side_epoch_bump:
            return ended
        return self.requests.enqueue(self._init_producer_id(self.sequences.producer, ended.operation))

    # Requests: the Sender thread

    def _identity(self) -> Identity:
        return Identity(self.transactional_id, self.sequences.producer, self.is_v2)

    def _init_producer_id(
        self, producer: ProducerIdAndEpoch, operation: str, keep_prepared_txn: bool = False
    ) -> InitProducerId:
        identity = self._identity()._replace(producer=producer)
        return InitProducerId(
            identity, operation, self.transaction_timeout_ms, self.two_phase_commit, keep_prepared_txn
        )

    def next_request(self, has_incomplete_batches: bool) -> TransactionalRequest | None:
        """Return the request that is next; None while it has to wait for batches, or there is none."""
        with self.lock:
            while (request := self.requests.first()) is not None:
                if request.IS_END_TXN and has_incomplete_batches:
                    return None
                if not self._is_pointless(request):
                    return request
                self.requests.drop(request)
                self._guard(request, lambda: self._end_without_sending(request))
            return None

    def _is_pointless(self, request: TransactionalRequest) -> bool:
        if self.state is State.ABORTABLE_ERROR and not isinstance(request, FindCoordinator):
            return True
        # The broker knows nothing of this transaction.
        return request.IS_END_TXN and not self.transaction_started

    def _end_without_sending(self, request: TransactionalRequest) -> None:
        if self.state is State.ABORTABLE_ERROR:
            request.result.fail(self.states.api_error())
        else:
            self._end_transaction()
            request.result.done()

    def on_response(self, request: TransactionalRequest, response: ClientResponse) -> None:
        """Apply what the end of a request means; its callback in the NetworkClient.

        An outcome for which the states have no place ends the producer.
        """
        with self.lock:
            self.requests.in_flight = None
            if self.has_fatal_error:
                request.result.fail(self.states.api_error())
                return
            self._guard(request, lambda: self._apply(request.outcome_of(response), request, response.received_at))

    def _guard(self, request: TransactionalRequest, apply: Callable[[], None]) -> None:
        """Do what ends a request. An error in it ends the producer, for no answer will bring the request's result."""
        try:
            apply()
        except IllegalStateError as error:
            self.transition_to_fatal_error(error)
        except BaseException as error:
            failure = KafkaError(f"{request.NAME} ended in an unexpected error: {error!r}")
            self.transition_to_fatal_error(failure)
            request.result.fail(failure)
            raise

    def on_not_sent(self, request: TransactionalRequest, error: BaseException) -> None:
        """Fail a request that could not be sent at all; the transaction can only be aborted."""
        with self.lock:
            self.requests.in_flight = None
            failure = error if isinstance(error, KafkaError) else KafkaError(f"{request.NAME} was not sent: {error!r}")
            request.result.fail(self._fail(Failed(Action.ABORT, failure)))

    def _apply(self, outcome: Outcome, request: TransactionalRequest, now: float) -> None:
        match outcome:
            case Retry():
                self._retry(request, outcome, now)
                return
            case Failed():
                request.result.fail(self._fail(outcome))
                return
            case OffsetsAdded(offsets, group):
                self.transaction_started = True
                self.requests.enqueue(TxnOffsetCommit(self._identity(), offsets, group, request.result))
                return
            case CoordinatorFound(key_type, key, node):
                self.requests.coordinators[key_type, key] = node
            case EpochStarted():
                self._start_epoch(outcome)
            case PartitionsAdded(partitions):
                self._on_partitions_added(partitions)
            case TransactionEnded(producer):
                if producer is not None:
                    self._take_epoch(producer)
                self._end_transaction()
            case OffsetsCommitted():
                pass
        request.result.done()

    def _retry(self, request: TransactionalRequest, outcome: Retry, now: float) -> None:
        if outcome.needs_coordinator:
            self.requests.look_up_coordinator(request)
        is_first = outcome.is_concurrent and not self._partitions
        self.requests.retry(request, now, _FIRST_PARTITION_BACKOFF if is_first else None)

    def _fail(self, outcome: Failed) -> KafkaError:
        """Take the producer to the state that goes with the failure; returns the error for the application."""
        action, error = outcome
        if action is Action.FENCED:
            error = self.states.fenced_error()
        if action is Action.ABORT_AND_BUMP:
            action = Action.ABORT if self.version.can_handle_abortable_error else Action.FATAL
            self.version.require_epoch_bump()
        if action is Action.ABORT:
            self.states.transition_to_abortable_error(error)
        else:
            self.transition_to_fatal_error(error)
        return error

    # Errors

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Allow nothing but closing; every call that waits gets the error."""
        with self.lock:
            if self.states.transition_to_fatal_error(error):
                self.fail_waiting(error)

    def authorization_failed(self) -> KafkaError | None:
        """After init_transactions() was denied: back to the beginning, so that it can be called again; the error."""
        with self.lock:
            error = self.last_error
            denied = isinstance(error, TransactionalIdAuthorizationError | ClusterAuthorizationError)
            if self.state is not State.ABORTABLE_ERROR or not denied:
                return None
            assert error is not None
            self.states.transition_to(State.UNINITIALIZED)
            self.fail_waiting(error)
            return error

    def fail_waiting(self, error: KafkaError) -> None:
        """Fail all requests that have not been sent, and the call that the application waits in."""
        with self.lock:
            self.requests.fail_all(error)
            self._pending.fail(error)

    # Partitions and epochs: the Sender thread

    def add_partitions(self, partitions: Iterable[TopicPartition]) -> None:
        """Make partitions that hold records part of the transaction, so that `may_send` lets them go."""
        if self.state not in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
            return
        new = frozenset(partitions) - self._partitions - self._being_added
        if not new:
            return
        if self.is_v2:
            # The partitions' leaders add them with the first batch.
            self._on_partitions_added(new)
        else:
            self._being_added |= new
            self.requests.enqueue(AddPartitionsToTxn(self._identity(), new))

    def _on_partitions_added(self, partitions: frozenset[TopicPartition]) -> None:
        self.transaction_started = True
        self._being_added -= partitions
        self._partitions |= partitions

    def _start_epoch(self, started: EpochStarted) -> None:
        self._take_epoch(started.producer)
        if started.prepared is None:
            self.states.transition_to(State.READY)
            return
        self.states.transition_to(State.PREPARED_TRANSACTION)
        self.prepared = started.prepared
        self.transaction_started = True

    def _take_epoch(self, producer: ProducerIdAndEpoch) -> None:
        self.sequences.start_over(producer)
        self.version.update(initial=True)

    def _end_transaction(self) -> None:
        self.states.transition_to(State.INITIALIZING if self.version.client_side_epoch_bump else State.READY)
        self.version.client_side_epoch_bump = False
        self.prepared = PreparedTxnState()
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        self.transaction_started = False
        self._partitions.clear()
        self._being_added.clear()

    # Batches: the Sender thread

    def may_send(self, first: ProducerBatch, leader_id: int) -> bool:
        """Whether the first batch of a partition may leave; its partition must be part of the transaction."""
        return first.topic_partition in self._partitions and self.sequences.may_send(first, leader_id)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch its number and mark it as part of the transaction."""
        batch.is_transactional = True
        self.sequences.assign_sequence(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, adjust_sequence_numbers: bool) -> None:
        """Fail the transaction with a batch of it: see `BatchNumbering.handle_failed_batch`."""
        with self.lock:
            self._fail_transaction(error)
        self.sequences.remove_in_flight_batch(batch)
        if self.has_fatal_error:
            return
        if isinstance(error, UnknownProducerIdError):
            self.sequences.forget(batch.topic_partition)
        elif adjust_sequence_numbers and batch.has_sequence:
            self.sequences.entry(batch.topic_partition).close_gap(batch)

    def on_record_refused(self, error: KafkaError) -> None:
        """Fail the transaction with a record that never reached a batch: a commit would lack it."""
        with self.lock:
            if self.state is State.IN_TRANSACTION:
                self._fail_transaction(error)

    def _fail_transaction(self, error: KafkaError) -> None:
        action, error = failure_of_batch(error)
        if action is Action.FATAL:
            self.transition_to_fatal_error(error)
            return
        if not self.is_completing:
            self.version.require_epoch_bump()
        if not self.has_fatal_error:
            self.states.transition_to_abortable_error(error)

    def maybe_resolve_sequences(self) -> None:
        """Fail the transaction where expired batches left a gap, once nothing is in flight in the partition."""
        for tp in self.sequences.resolve():
            self._fail_for_unresolved(tp)

    def _fail_for_unresolved(self, tp: TopicPartition) -> None:
        error = KafkaError(f"It is not known whether records that expired are stored in {tp}, or will be")
        with self.lock:
            if self.has_fatal_error:
                return
            if self.version.can_handle_abortable_error:
                self.version.require_epoch_bump()
                self.states.transition_to_abortable_error(error)
            else:
                self.transition_to_fatal_error(error)

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether to send the batch again; a gap in the numbers fails the transaction instead."""
        tp = batch.topic_partition
        if isinstance(error, UnknownProducerIdError):
            if log_start_offset == -1 or batch.sequence_has_been_reset:
                return True
            entry = self.sequences.entry(tp)
            if entry.last_acked_offset >= log_start_offset:
                return False
            # Our records were deleted, and with them what the broker knew of us: 0 is what it expects.
            entry.start_sequences_at_beginning(self.sequences.producer)
            return True
        if isinstance(error, OutOfOrderSequenceError) and self.sequences.unresolved(tp) is None:
            return batch.sequence_has_been_reset or not self.sequences.is_next(tp, batch.base_sequence)
        return error.retriable
