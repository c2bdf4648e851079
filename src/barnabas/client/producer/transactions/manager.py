"""Transactions (KIP-98, KIP-360, KIP-447, KIP-890, KIP-939): the state machine behind `Producer`'s methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.client.producer.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    TransactionalRequest,
    TxnOffsetCommit,
)
from barnabas.client.producer.transactions.results import TransactionalRequestResult
from barnabas.client.producer.transactions.states import PreparedTxnState, State
from barnabas.client.producer.transactions.transactional_states import TransactionalStates
from barnabas.errors import (
    ClusterAuthorizationError,
    IllegalStateError,
    InvalidPidMappingError,
    InvalidTxnStateError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationError,
    UnknownProducerIdError,
    UnsupportedVersionError,
)
from barnabas.network.log_context import client_logger
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.producer_identity import NO_PRODUCER, ProducerIdAndEpoch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.network.exponential_backoff import ExponentialBackoff
    from barnabas.network.node import Node
    from barnabas.network.node_api_versions import NodeApiVersions

log = client_logger("barnabas.producer")

_FATAL_FOR_BATCHES = (
    ClusterAuthorizationError,
    TransactionalIdAuthorizationError,
    ProducerFencedError,
    UnsupportedVersionError,
    InvalidPidMappingError,
)
_FIRST_INIT_PRODUCER_ID_THAT_BUMPS = 3


class TransactionalManager(TransactionalStates):
    """What a transactional producer knows: its state, the transaction's partitions, and the requests that wait.

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
        super().__init__(transactional_id)
        self.transaction_timeout_ms = transaction_timeout_ms
        self.two_phase_commit = two_phase_commit
        self.in_flight: TransactionalRequest | None = None
        self.coordinators: dict[tuple[int, str], Node] = {}
        self.transaction_started = False
        self.is_v2 = False
        self.prepared = PreparedTxnState()
        self._retry_backoff = retry_backoff
        self._api_versions = api_versions
        self._waiting: list[TransactionalRequest] = []
        self._partitions: set[TopicPartition] = set()
        self._being_added: set[TopicPartition] = set()
        self._features_epoch = -1
        self._client_side_epoch_bump = False
        self._unfinished: tuple[TransactionalRequestResult, State] | None = None

    # What the application asks for

    def init_transactions(self, keep_prepared_txn: bool = False) -> TransactionalRequestResult:
        """Ask for the producer id and a new epoch."""

        def start() -> TransactionalRequestResult:
            self.fail_with_error()
            self.transition_to(State.INITIALIZING)
            return self.enqueue(InitProducerId(self, "init_transactions()", keep_prepared_txn=keep_prepared_txn))

        return self._start(State.INITIALIZING, "init_transactions()", start)

    def begin_transaction(self) -> None:
        """Take records from now on. Raises `IllegalStateError` if this is not the time."""
        with self.lock:
            self._refuse_while_unfinished("begin_transaction()")
            self.fail_with_error()
            self.transition_to(State.IN_TRANSACTION, "begin_transaction()")

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionalRequestResult:
        """Make the offsets part of the transaction."""
        with self.lock:
            self._refuse_while_unfinished("send_offsets_to_transaction()")
            self.fail_with_error()
            if self.state is not State.IN_TRANSACTION:
                raise IllegalStateError(f"send_offsets_to_transaction(): {self._why_not()}")
            if not self.is_v2:
                return self.enqueue(AddOffsetsToTxn(self, offsets, group))
            self.transaction_started = True
            return self.enqueue(TxnOffsetCommit(self, offsets, group))

    def prepare(self) -> PreparedTxnState:
        """Take no more records; the transaction then survives this producer."""
        with self.lock:
            self._refuse_while_unfinished("prepare_transaction()")
            self.fail_with_error()
            self.transition_to(State.PREPARED_TRANSACTION, "prepare_transaction()")
            self.prepared = PreparedTxnState(*self.producer)
            return self.prepared

    def detach(self) -> frozenset[TopicPartition]:
        """Forget the open transaction, all of whose records are stored; whoever knows its identity may end it.

        Returns the partitions it has records in. `adopt` comes next.
        """
        with self.lock:
            self._refuse_while_unfinished("detach()")
            self.fail_with_error()
            if self.state is not State.IN_TRANSACTION:
                raise IllegalStateError(f"detach(): {self._why_not()}")
            partitions = frozenset(self._partitions)
            self._forget(State.UNINITIALIZED)
            return partitions

    def adopt(self, transactional_id: str, producer: ProducerIdAndEpoch | None = None) -> None:
        """Go on under another transactional id: one to be initialized, or (in transaction version 2) one whose last
        transaction was ended by somebody else, which gave it this producer id and epoch.
        """
        with self.lock:
            self._refuse_while_unfinished("adopt()")
            self.fail_with_error()
            if self.state not in (State.UNINITIALIZED, State.READY):
                raise IllegalStateError(f"adopt(): {self._why_not()}")
            self.transactional_id = transactional_id
            self._forget(State.UNINITIALIZED if producer is None else State.READY)
            if producer is not None:
                self.is_v2 = True
                self.producer = producer

    def _forget(self, state: State) -> None:
        self.producer = NO_PRODUCER
        self._entries.clear()
        self._unresolved.clear()
        self.transaction_started = False
        self._partitions.clear()
        self._being_added.clear()
        self.state = state
        self._refuse_records(self._error_for_records)

    def begin_commit(self) -> TransactionalRequestResult:
        """Take no more records, and commit when all have their results."""

        def start() -> TransactionalRequestResult:
            self.fail_with_error()
            self.transition_to(State.COMMITTING_TRANSACTION, "commit_transaction()")
            return self._begin_completing(committed=True)

        return self._start(State.COMMITTING_TRANSACTION, "commit_transaction()", start)

    def begin_abort(self) -> TransactionalRequestResult:
        """Take no more records, drop those not sent yet, and abort when the others have their results."""

        def start() -> TransactionalRequestResult:
            if self.state is not State.ABORTABLE_ERROR:
                self.fail_with_error()
            self.transition_to(State.ABORTING_TRANSACTION, "abort_transaction()")
            return self._begin_completing(committed=False)

        return self._start(State.ABORTING_TRANSACTION, "abort_transaction()", start)

    def abort_on_close(self) -> None:
        """As `begin_abort`, when nobody will call again what has timed out."""
        with self.lock:
            if self._unfinished is not None:
                self._unfinished[0].is_acked = True
            self.begin_abort()

    def _begin_completing(self, committed: bool) -> TransactionalRequestResult:
        ended = self.enqueue(EndTxn(self, committed))
        self._update_transaction_version(initial=False)
        if not self._client_side_epoch_bump:
            return ended
        return self.enqueue(InitProducerId(self, ended.operation, is_epoch_bump=True))

    def _start(
        self, target: State, operation: str, start: Callable[[], TransactionalRequestResult]
    ) -> TransactionalRequestResult:
        """Begin what leads to `target`, or give the result of the same call that timed out before."""
        with self.lock:
            if self._unfinished is not None:
                result, aim = self._unfinished
                if not result.is_acked and aim is target:
                    return result
            self._refuse_while_unfinished(operation)
            result = start()
            self._unfinished = result, target
            return result

    def _refuse_while_unfinished(self, operation: str) -> None:
        if self._unfinished is None:
            return
        result, _ = self._unfinished
        if not result.is_acked:
            raise IllegalStateError(
                f"{operation} has to wait: {result.operation} timed out and must be called again until it returns"
            )
        self._unfinished = None

    # Errors

    def authorization_failed(self) -> KafkaError | None:
        """After init_transactions() was denied: back to the beginning, so that it can be called again; the error."""
        with self.lock:
            error = self.last_error
            denied = isinstance(error, TransactionalIdAuthorizationError | ClusterAuthorizationError)
            if self.state is not State.ABORTABLE_ERROR or not denied:
                return None
            assert error is not None
            self.transition_to(State.UNINITIALIZED)
            self.fail_waiting(error)
            return error

    def fail_waiting(self, error: KafkaError) -> None:
        """Give up all requests that have not been sent, and whatever the application waits for."""
        with self.lock:
            for request in self._waiting:
                request.result.fail(error)
            self._waiting.clear()
            if self._unfinished is not None:
                self._unfinished[0].fail(error)

    def guard(self, handle: Callable[[Any, float], None], message: Any, now: float) -> None:
        """Handle an answer; one that comes where the states have no place for it ends the producer."""
        try:
            handle(message, now)
        except IllegalStateError as error:
            self.transition_to_fatal_error(error)

    # Requests

    def enqueue(self, request: TransactionalRequest) -> TransactionalRequestResult:
        """Line the request up, behind all of its priority; returns its result."""
        with self.lock:
            at = len(self._waiting)
            while at > 0 and self._waiting[at - 1].priority > request.priority:
                at -= 1
            self._waiting.insert(at, request)
            return request.result

    def retry(self, request: TransactionalRequest, now: float, backoff: float | None = None) -> None:
        """Line the request up once more; it leaves no sooner than the backoff allows."""
        request.retry_at = now + (self._retry_backoff.backoff(request.attempts) if backoff is None else backoff)
        request.attempts += 1
        self.enqueue(request)

    def next_request(self, has_incomplete_batches: bool) -> TransactionalRequest | None:
        """The request that is next; None while it has to wait for batches, or there is none."""
        with self.lock:
            while self._waiting:
                request = self._waiting[0]
                if request.is_end_txn and has_incomplete_batches:
                    return None
                if not self._is_pointless(request):
                    return request
                self._waiting.pop(0)
            return None

    def _is_pointless(self, request: TransactionalRequest) -> bool:
        if self.state is State.ABORTABLE_ERROR and not isinstance(request, FindCoordinator):
            request.result.fail(self.api_error())
            return True
        if request.is_end_txn and not self.transaction_started:
            # The broker knows nothing of this transaction.
            self.reset_transaction_state()
            request.result.done()
            return True
        return False

    def take(self, request: TransactionalRequest) -> None:
        """The request is being sent."""
        with self.lock:
            self._waiting.remove(request)
            self.in_flight = request

    @property
    def has_waiting_requests(self) -> bool:
        """Whether requests wait or are on their way."""
        return bool(self._waiting) or self.in_flight is not None

    def coordinator(self, request: TransactionalRequest) -> Node | None:
        """The broker for the request, None while it is not known."""
        assert request.COORDINATOR is not None
        return self.coordinators.get((request.COORDINATOR, request.coordinator_key))

    def look_up_coordinator(self, request: TransactionalRequest, now: float | None = None) -> None:
        """Ask who the request's coordinator is; from `now` on after a backoff, as the last one was out of reach."""
        assert request.COORDINATOR is not None
        where = request.COORDINATOR, request.coordinator_key
        with self.lock:
            self.coordinators.pop(where, None)
            for waiting in self._waiting:
                if isinstance(waiting, FindCoordinator) and (waiting.key_type, waiting.key) == where:
                    return
            look_up = FindCoordinator(self, *where)
            if now is None:
                self.enqueue(look_up)
            else:
                self.retry(look_up, now)

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
            self.partitions_added(new)
        else:
            self._being_added |= new
            self.enqueue(AddPartitionsToTxn(self, new))

    def partitions_added(self, partitions: frozenset[TopicPartition]) -> None:
        """Records may be sent to the partitions now."""
        self.transaction_started = True
        self._being_added -= partitions
        self._partitions |= partitions

    @property
    def has_partitions(self) -> bool:
        """Whether any partition is part of the transaction."""
        return bool(self._partitions)

    def start_epoch(self, producer: ProducerIdAndEpoch) -> None:
        """Take a new epoch from the coordinator; every partition's numbers begin at 0."""
        self.producer = producer
        self._entries.clear()
        self._unresolved.clear()
        self._update_transaction_version(initial=True)

    def resume_prepared(self, kept: PreparedTxnState) -> None:
        """Go on with a transaction that was prepared before (KIP-939)."""
        self.transition_to(State.PREPARED_TRANSACTION)
        self.prepared = kept
        self.transaction_started = True

    def reset_transaction_state(self) -> None:
        """The transaction has ended: be ready for the next, or get a new epoch first."""
        self.transition_to(State.INITIALIZING if self._client_side_epoch_bump else State.READY)
        self._client_side_epoch_bump = False
        self.transaction_started = False
        self.prepared = PreparedTxnState()
        self._partitions.clear()
        self._being_added.clear()

    def _update_transaction_version(self, initial: bool) -> None:
        versions = self._coordinator_versions()
        if versions is None or versions.finalized_features_epoch < self._features_epoch:
            return
        self._features_epoch = versions.finalized_features_epoch
        was_v2, self.is_v2 = self.is_v2, versions.finalized_features.get("transaction.version", 0) >= 2
        if self.is_v2 and not was_v2 and not initial:
            # This transaction ends in the old way, so only the client can raise the epoch before the next.
            self._client_side_epoch_bump = True

    def _coordinator_versions(self) -> NodeApiVersions | None:
        node = self.coordinators.get((CoordinatorType.TRANSACTION, self.transactional_id))
        return None if node is None else self._api_versions(node.id)

    @property
    def _can_bump_epoch(self) -> bool:
        versions = self._coordinator_versions()
        supported = None if versions is None else versions.supported(ApiKey.INIT_PRODUCER_ID)
        return supported is not None and supported[1] >= _FIRST_INIT_PRODUCER_ID_THAT_BUMPS

    @property
    def can_handle_abortable_error(self) -> bool:
        """Whether a new epoch can be had after an abort, so that lost sequence numbers do no harm."""
        return self.is_v2 or self._can_bump_epoch

    def note_epoch_bump_needed(self) -> None:
        """Get a new epoch after the abort; in transaction version 2 the broker gives one by itself."""
        if not self.is_v2 and self._can_bump_epoch:
            self._client_side_epoch_bump = True

    def bump_epoch_and_reset_id_if_needed(self) -> None:
        """Nothing here: only the coordinator gives a transactional producer an epoch."""

    # Batches: the Sender thread

    def may_send(self, first: ProducerBatch) -> bool:
        """Whether the first batch of a partition may leave; its partition must be part of the transaction."""
        return first.topic_partition in self._partitions and super().may_send(first)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Number a batch and mark it as part of the transaction."""
        batch.is_transactional = True
        super().assign_sequence(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: KafkaError, adjust_sequence_numbers: bool) -> None:
        """A batch has failed for good, and with it the transaction."""
        with self.lock:
            self._fail_transaction(error)
        entry = self._entry(batch.topic_partition)
        entry.remove(batch)
        if self.has_fatal_error:
            return
        if isinstance(error, UnknownProducerIdError):
            self._entries.pop(batch.topic_partition, None)
            self._unresolved.pop(batch.topic_partition, None)
        elif adjust_sequence_numbers and batch.has_sequence:
            entry.close_gap(batch)

    def record_not_taken(self, error: KafkaError) -> None:
        """A record of the open transaction failed before it reached a batch: a commit would lack it."""
        with self.lock:
            if self.state is State.IN_TRANSACTION:
                self._fail_transaction(error)

    def _fail_transaction(self, error: KafkaError) -> None:
        if isinstance(error, _FATAL_FOR_BATCHES):
            self.transition_to_fatal_error(error)
            return
        if error.retriable or isinstance(error, InvalidTxnStateError):
            abortable = TransactionAbortableError(f"A record could not be stored, whatever was tried: {error}")
            abortable.__cause__ = error
            error = abortable
        if not self.is_completing:
            self.note_epoch_bump_needed()
        if not self.has_fatal_error:
            self.transition_to_abortable_error(error)

    def maybe_resolve_sequences(self) -> None:
        """A partition whose expired batch was not made up for by later answers makes the transaction fail."""
        for tp in [tp for tp in self._unresolved if not self._entry(tp).in_flight]:
            if not self._is_next_sequence(tp, self._entry(tp).next_sequence):
                self._fail_for_unresolved(tp)
            del self._unresolved[tp]

    def _fail_for_unresolved(self, tp: TopicPartition) -> None:
        error = KafkaError(f"It is not known whether records that expired are stored in {tp}, or will be")
        with self.lock:
            if self.has_fatal_error:
                return
            if self.can_handle_abortable_error:
                self.note_epoch_bump_needed()
                self.transition_to_abortable_error(error)
            else:
                self.transition_to_fatal_error(error)

    def can_retry(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int) -> bool:
        """Whether to send the batch again; a gap in the numbers fails the transaction instead."""
        tp = batch.topic_partition
        if isinstance(error, UnknownProducerIdError):
            if log_start_offset == -1 or batch.sequence_has_been_reset:
                return True
            entry = self._entry(tp)
            if entry.last_acked_offset >= log_start_offset:
                return False
            # Our records were deleted, and with them what the broker knew of us: 0 is what it expects.
            entry.start_sequences_at_beginning(self.producer)
            return True
        if isinstance(error, OutOfOrderSequenceError) and tp not in self._unresolved:
            return batch.sequence_has_been_reset or not self._is_next_sequence(tp, batch.base_sequence)
        return error.retriable
