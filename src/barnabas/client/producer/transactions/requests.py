# ruff: noqa: D102  (what overrides a method of TransactionalRequest is documented there)
"""The requests of a transactional producer: what each says, and what each possible answer means (`Outcome`).

The tables say what becomes of an error; what stands in none of them is tried again if it is retriable, and is the
producer's end if not. They are those of Kafka's TransactionManager 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from barnabas import errors
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
)
from barnabas.client.producer.transactions.states import PreparedTxnState
from barnabas.client.producer.transactions.transactional_request_result import TransactionalRequestResult
from barnabas.errors import KafkaError, for_code
from barnabas.network.client_request import RequestBuilder
from barnabas.network.node import Node
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from barnabas.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from barnabas.protocol.producer_identity import NO_PRODUCER, ProducerIdAndEpoch
from barnabas.protocol.thresholds import FIND_COORDINATOR_KEYS_FROM
from barnabas.protocol.topic_partition import TopicPartition, numbers_by_topic

if TYPE_CHECKING:
    from barnabas.client.consumer.offsets import ConsumerGroupMetadata, OffsetAndMetadata
    from barnabas.network.client_request import ClientResponse
    from barnabas.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
    from barnabas.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
    from barnabas.protocol.messages.end_txn_response import EndTxnResponse
    from barnabas.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
    from barnabas.protocol.messages.init_producer_id_response import InitProducerIdResponse
    from barnabas.protocol.messages.txn_offset_commit_response import TxnOffsetCommitResponse

# In which order requests leave that wait at the same time.
FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS_OR_OFFSETS, END_TXN, EPOCH_BUMP = range(5)

# The last versions without transaction version 2 (KIP-890), the first ones with two-phase commit (KIP-939), and the
# last AddPartitionsToTxn for clients.
LAST_END_TXN_V1 = 4
LAST_TXN_OFFSET_COMMIT_V1 = 4
LAST_ADD_PARTITIONS_OF_CLIENTS = 3
LAST_INIT_PRODUCER_ID_WITHOUT_2PC = 5


_COMMON: dict[type[KafkaError], Action] = {
    errors.CoordinatorNotAvailableError: Action.FIND_COORDINATOR,
    errors.NotCoordinatorError: Action.FIND_COORDINATOR,
    # What older coordinators say instead of PRODUCER_FENCED.
    errors.InvalidProducerEpochError: Action.FENCED,
    errors.ProducerFencedError: Action.FENCED,
    errors.UnknownProducerIdError: Action.ABORT_AND_BUMP,
    errors.TransactionAbortableError: Action.ABORT,
    errors.GroupAuthorizationError: Action.ABORT,
}
_INIT_PRODUCER_ID = {
    **_COMMON,
    errors.UnknownProducerIdError: Action.FATAL,
    errors.TransactionalIdAuthorizationError: Action.ABORT,
    errors.ClusterAuthorizationError: Action.ABORT,
}
_FIND_COORDINATOR: dict[type[KafkaError], Action] = {
    errors.GroupAuthorizationError: Action.ABORT,
    errors.TransactionAbortableError: Action.ABORT,
}
_TXN_OFFSET_COMMIT = {
    **_COMMON,
    errors.UnknownProducerIdError: Action.FATAL,
    errors.KafkaTimeoutError: Action.FIND_COORDINATOR,
    errors.FencedInstanceIdError: Action.ABORT,
    errors.UnknownMemberIdError: Action.ABORT,
    errors.IllegalGenerationError: Action.ABORT,
    errors.StaleMemberEpochError: Action.ABORT,
}
# An abort that only aborting helps against would go in circles.
_END_ABORT = {**_COMMON, errors.TransactionAbortableError: Action.FATAL}
_NOT_A_MEMBER = (errors.UnknownMemberIdError, errors.IllegalGenerationError, errors.StaleMemberEpochError)


class Identity(NamedTuple):
    """On whose behalf a request is sent: what the manager was when it made the request."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    is_v2: bool


_NO_IDENTITY = Identity("", NO_PRODUCER, False)


class TransactionalRequest:
    """A request that waits or is in flight; the manager sends one at a time. `result` is what the application awaits.

    Lives under the manager's lock. `build` and `outcome_of` run in the Sender thread; they change no state but the
    request's own.
    """

    NAME: ClassVar[str]
    PRIORITY: ClassVar[int] = ADD_PARTITIONS_OR_OFFSETS
    COORDINATOR: ClassVar[int | None] = CoordinatorType.TRANSACTION
    ERRORS: Mapping[type[KafkaError], Action] = _COMMON
    # Whether it ends the transaction, so that all batches must have their results before.
    IS_END_TXN: ClassVar[bool] = False

    def __init__(self, identity: Identity, result: TransactionalRequestResult | None = None) -> None:
        self.identity = identity
        self.result = result or TransactionalRequestResult(self.NAME)
        self.priority = self.PRIORITY
        self.attempts = 0
        self.retry_at = 0.0

    @property
    def coordinator_key(self) -> str:
        """Whose coordinator it is sent to."""
        return self.identity.transactional_id

    def build(self) -> RequestBuilder:
        """Return the request, for the versions that can say it."""
        raise NotImplementedError

    def handle(self, message: Any) -> Outcome:
        """Return what the answer means; each request names the class of its own."""
        raise NotImplementedError

    def outcome_of(self, response: ClientResponse) -> Outcome:
        """Return what the end of the request means, with or without an answer."""
        if response.message is not None:
            return self.handle(response.message)
        if response.version_mismatch:
            return Failed(Action.FATAL, self.unsupported(response.error))
        if response.error is not None and not (response.disconnected or response.timed_out):
            # It could not be sent at all, as with a value that no request can carry: the next one may be well.
            return Failed(Action.ABORT, response.error)
        return Retry(needs_coordinator=self.COORDINATOR is not None)

    def unsupported(self, error: KafkaError | None) -> KafkaError:
        """Return the error for a broker that knows no version of the request that will do."""
        return errors.UnsupportedVersionError(f"{self.NAME}: {error}")

    def outcome_of_error(self, error: KafkaError) -> Outcome:
        """Return what the table says about the error."""
        action = self.action_for(error)
        if action in (Action.FIND_COORDINATOR, Action.RETRY):
            return Retry(needs_coordinator=action is Action.FIND_COORDINATOR)
        return Failed(action, error)

    def action_for(self, error: KafkaError) -> Action:
        """Return the table's line, or what holds for errors that stand in none."""
        return self.ERRORS.get(type(error)) or (Action.RETRY if error.retriable else Action.FATAL)


class FindCoordinator(TransactionalRequest):
    """Asks any broker which one coordinates a transactional id, or a consumer group."""

    NAME = "FindCoordinator"
    PRIORITY = FIND_COORDINATOR
    COORDINATOR = None
    ERRORS = _FIND_COORDINATOR

    def __init__(self, key_type: int, key: str) -> None:
        super().__init__(_NO_IDENTITY)
        self.key_type = key_type
        self.key = key

    def build(self) -> RequestBuilder:
        def build(version: int) -> FindCoordinatorRequest:
            if version < FIND_COORDINATOR_KEYS_FROM:
                return FindCoordinatorRequest(key=self.key, key_type=self.key_type)
            return FindCoordinatorRequest(key_type=self.key_type, coordinator_keys=[self.key])

        low, high = FindCoordinatorRequest.VALID_VERSIONS
        return RequestBuilder(FindCoordinatorRequest.API_KEY, build, max(low, 1), high)

    def handle(self, message: FindCoordinatorResponse) -> Outcome:
        found: Coordinator | FindCoordinatorResponse = message.coordinators[0] if message.coordinators else message
        if found.error_code:
            what = "group" if self.key_type == CoordinatorType.GROUP else "transactional.id"
            error = for_code(found.error_code)
            return self.outcome_of_error(
                type(error)(f"No coordinator for {what} {self.key!r}: {found.error_message or error}")
            )
        return CoordinatorFound(self.key_type, self.key, Node(found.node_id, found.host, found.port))


class InitProducerId(TransactionalRequest):
    """Gets the producer id and a new epoch, which fences older producers of the id and aborts what they left."""

    NAME = "InitProducerId"
    PRIORITY = INIT_PRODUCER_ID
    ERRORS = _INIT_PRODUCER_ID

    def __init__(
        self,
        identity: Identity,
        operation: str,
        transaction_timeout_ms: int,
        two_phase_commit: bool,
        keep_prepared_txn: bool = False,
    ) -> None:
        super().__init__(identity, TransactionalRequestResult(operation))
        self.transaction_timeout_ms = transaction_timeout_ms
        self.two_phase_commit = two_phase_commit
        self.keep_prepared_txn = keep_prepared_txn
        if identity.producer.is_valid:
            # A higher epoch for a producer that goes on: it waits until the transaction has ended.
            self.priority = EPOCH_BUMP

    def build(self) -> RequestBuilder:
        message = InitProducerIdRequest(
            transactional_id=self.identity.transactional_id,
            transaction_timeout_ms=self.transaction_timeout_ms,
            producer_id=self.identity.producer.producer_id,
            producer_epoch=self.identity.producer.epoch,
            enable2_pc=self.two_phase_commit,
            keep_prepared_txn=self.keep_prepared_txn,
        )
        low, high = InitProducerIdRequest.VALID_VERSIONS
        low, high = (LAST_INIT_PRODUCER_ID_WITHOUT_2PC + 1, high) if self.two_phase_commit else (low, high - 1)
        return RequestBuilder(InitProducerIdRequest.API_KEY, lambda _: message, low, high)

    def _denied(self) -> KafkaError:
        why = f"This producer may not use transactional.id {self.identity.transactional_id!r}"
        if self.two_phase_commit:
            why += ", or the broker allows no two-phase commit (KIP-939): set transaction.two.phase.commit.enable there"
        return errors.TransactionalIdAuthorizationError(why)

    def unsupported(self, error: KafkaError | None) -> KafkaError:
        if not self.two_phase_commit:
            return super().unsupported(error)
        return errors.UnsupportedVersionError(
            f"The broker offers no two-phase commit (KIP-939; transaction.two.phase.commit.enable): {error}"
        )

    def handle(self, message: InitProducerIdResponse) -> Outcome:
        if message.error_code:
            error = for_code(message.error_code)
            if isinstance(error, errors.TransactionalIdAuthorizationError):
                error = self._denied()
            return self.outcome_of_error(error)
        kept = PreparedTxnState(message.ongoing_txn_producer_id, message.ongoing_txn_producer_epoch)
        return EpochStarted(
            ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
            kept if self.keep_prepared_txn and kept.producer_id >= 0 else None,
        )


class AddPartitionsToTxn(TransactionalRequest):
    """Tells the coordinator to which partitions the transaction will write; not needed in transaction version 2."""

    NAME = "AddPartitionsToTxn"

    def __init__(self, identity: Identity, partitions: frozenset[TopicPartition]) -> None:
        super().__init__(identity)
        self.partitions = partitions

    def build(self) -> RequestBuilder:
        by_topic = numbers_by_topic(sorted(self.partitions))
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.identity.transactional_id,
            v3_and_below_producer_id=self.identity.producer.producer_id,
            v3_and_below_producer_epoch=self.identity.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=numbers) for topic, numbers in by_topic.items()
            ],
        )
        return RequestBuilder.fixed(message, LAST_ADD_PARTITIONS_OF_CLIENTS)

    def handle(self, message: AddPartitionsToTxnResponse) -> Outcome:
        failed = {
            TopicPartition(topic.name, partition.partition_index): for_code(partition.partition_error_code)
            for topic in message.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
            if partition.partition_error_code
        }
        for error in failed.values():
            if isinstance(error, errors.ConcurrentTransactionsError):
                return Retry(is_concurrent=True)
            if self.is_for_all(error):
                return self.outcome_of_error(error)
        if failed:
            return Failed(Action.ABORT, self._partition_error(failed))
        return PartitionsAdded(self.partitions)

    def is_for_all(self, error: KafkaError) -> bool:
        """Whether the error says something about the producer or the coordinator, not about one partition."""
        fatal = (
            errors.TransactionalIdAuthorizationError,
            errors.InvalidTxnStateError,
            errors.InvalidPidMappingError,
        )
        return type(error) in self.ERRORS or error.retriable or isinstance(error, fatal)

    def _partition_error(self, failed: dict[TopicPartition, KafkaError]) -> KafkaError:
        topics = tuple(
            sorted({tp.topic for tp, error in failed.items() if isinstance(error, errors.TopicAuthorizationError)})
        )
        if topics:
            denied = errors.TopicAuthorizationError(f"This producer may not write to {', '.join(topics)}")
            denied.resources = topics
            return denied
        found = "; ".join(f"{tp}: {error.name}" for tp, error in sorted(failed.items(), key=lambda item: item[0]))
        return KafkaError(f"Partitions could not be added to the transaction: {found}")


class AddOffsetsToTxn(TransactionalRequest):
    """Tells the coordinator that the transaction will commit a group's offsets; not needed in version 2."""

    NAME = "AddOffsetsToTxn"

    def __init__(
        self,
        identity: Identity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        super().__init__(identity, TransactionalRequestResult("send_offsets_to_transaction()"))
        self.offsets = offsets
        self.group = group

    def build(self) -> RequestBuilder:
        message = AddOffsetsToTxnRequest(
            transactional_id=self.identity.transactional_id,
            producer_id=self.identity.producer.producer_id,
            producer_epoch=self.identity.producer.epoch,
            group_id=self.group.group_id,
        )
        return RequestBuilder.fixed(message, AddOffsetsToTxnRequest.VALID_VERSIONS[1])

    def handle(self, message: AddOffsetsToTxnResponse) -> Outcome:
        if message.error_code:
            return self.outcome_of_error(for_code(message.error_code))
        return OffsetsAdded(self.offsets, self.group)


class TxnOffsetCommit(TransactionalRequest):
    """Gives the group's coordinator the offsets; they count once the transaction is committed."""

    NAME = "TxnOffsetCommit"
    COORDINATOR = CoordinatorType.GROUP
    ERRORS = _TXN_OFFSET_COMMIT

    def __init__(
        self,
        identity: Identity,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        result: TransactionalRequestResult | None = None,
    ) -> None:
        super().__init__(identity, result or TransactionalRequestResult("send_offsets_to_transaction()"))
        self.waiting = dict(offsets)
        self.group = group

    @property
    def coordinator_key(self) -> str:
        return self.group.group_id

    def build(self) -> RequestBuilder:
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for tp, offset in self.waiting.items():
            by_topic.setdefault(tp.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        message = TxnOffsetCommitRequest(
            transactional_id=self.identity.transactional_id,
            group_id=self.group.group_id,
            producer_id=self.identity.producer.producer_id,
            producer_epoch=self.identity.producer.epoch,
            generation_id=self.group.generation_id,
            member_id=self.group.member_id,
            group_instance_id=self.group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=found) for topic, found in by_topic.items()],
        )
        high = TxnOffsetCommitRequest.VALID_VERSIONS[1] if self.identity.is_v2 else LAST_TXN_OFFSET_COMMIT_V1
        return RequestBuilder.fixed(message, high)

    def handle(self, message: TxnOffsetCommitResponse) -> Outcome:
        retry_with: KafkaError | None = None
        for topic in message.topics:
            for partition in topic.partitions:
                if not partition.error_code:
                    self.waiting.pop(TopicPartition(topic.name, partition.partition_index), None)
                    continue
                error = for_code(partition.error_code)
                action = self.action_for(error)
                if action not in (Action.RETRY, Action.FIND_COORDINATOR):
                    return Failed(action, self._described(error))
                if retry_with is None or action is Action.FIND_COORDINATOR:
                    retry_with = error
        if self.waiting:
            return self.outcome_of_error(retry_with or errors.NetworkError("The coordinator left partitions out"))
        return OffsetsCommitted()

    def _described(self, error: KafkaError) -> KafkaError:
        if isinstance(error, _NOT_A_MEMBER):
            return errors.CommitFailedError(
                f"The offsets of group {self.group.group_id!r} cannot be committed by {self.group}: {error} Take "
                "group_metadata() of the consumer anew in each transaction"
            )
        return error


class EndTxn(TransactionalRequest):
    """Commits or aborts; in transaction version 2 the answer brings the epoch of the next transaction."""

    NAME = "EndTxn"
    PRIORITY = END_TXN
    IS_END_TXN = True

    def __init__(self, identity: Identity, committed: bool) -> None:
        operation = "commit_transaction()" if committed else "abort_transaction()"
        super().__init__(identity, TransactionalRequestResult(operation))
        self.committed = committed
        self.ERRORS = _COMMON if committed else _END_ABORT

    def build(self) -> RequestBuilder:
        message = EndTxnRequest(
            transactional_id=self.identity.transactional_id,
            producer_id=self.identity.producer.producer_id,
            producer_epoch=self.identity.producer.epoch,
            committed=self.committed,
        )
        high = EndTxnRequest.VALID_VERSIONS[1] if self.identity.is_v2 else LAST_END_TXN_V1
        return RequestBuilder.fixed(message, high)

    def handle(self, message: EndTxnResponse) -> Outcome:
        if message.error_code:
            return self.outcome_of_error(for_code(message.error_code))
        has_epoch = self.identity.is_v2 and message.producer_id >= 0
        return TransactionEnded(ProducerIdAndEpoch(message.producer_id, message.producer_epoch) if has_epoch else None)
