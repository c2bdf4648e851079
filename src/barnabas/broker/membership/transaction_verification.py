"""Asks the coordinators of transactions, which may be other brokers, before records are written (KIP-890).

Handlers ask `AddPartitionsToTxnManager`, and have to be answered at once. What is not known yet raises
`VerificationNeededError` through them, before anything was done; `with_verification` finds out, and handles the
request again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import errors
from barnabas.broker.coordinator.committed_answers import ChainedOperation
from barnabas.broker.coordinator.coordinator_partition import partition_for
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.broker_state import BrokerState
    from barnabas.broker.handlers.registry import Handler
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.request_context import RequestContext
    from barnabas.broker.transactions.transaction_metadata import TopicIndex
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

_NOT_ADDED = (errors.TransactionAbortableError.code, errors.InvalidTxnStateError.code)
_TV_2 = 2


class Question(NamedTuple):
    """Whether partitions are in a producer's transaction, or (`adds`) that they be added to it."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicIndex]
    adds: bool


#: Partition → error code.
Codes = dict["TopicIndex", int]
Told = Callable[[Codes], None]


class VerificationNeededError(Exception):
    """Raised through a handler that needs what only a coordinator can tell."""

    def __init__(self, question: Question):
        super().__init__(f"{question} has to be asked first")
        self.question = question


class BrokerVerifications(BrokerQueue[Question, Told]):
    """The questions for one broker: a `Requester`. All that are there go with the next request."""

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        node = self.target
        if node is None:
            return None
        # A response names transactions by their ids only, so each goes once.
        asked: dict[str, tuple[Question, Told]] = {}
        for question, tell in self.unsent:
            asked.setdefault(question.transactional_id, (question, tell))
        self.in_flight = list(asked.values())
        self.unsent = [one for one in self.unsent if one not in self.in_flight]
        return node, AddPartitionsToTxnRequest(transactions=[_transaction(one) for one, _ in self.in_flight])

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._tell({}, errors.CoordinatorNotAvailableError.code)

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        assert isinstance(response, AddPartitionsToTxnResponse)
        found: dict[str, Codes] = {
            result.transactional_id: {
                (topic.name, partition.partition_index): partition.partition_error_code
                for topic in result.topic_results
                for partition in topic.results_by_partition
            }
            for result in response.results_by_transaction
        }
        self._tell(found, response.error_code or errors.CoordinatorNotAvailableError.code)

    def _tell(self, found: dict[str, Codes], otherwise: int) -> None:
        for question, tell in self.take_answered():
            codes = found.get(question.transactional_id, {})
            tell({name: codes.get(name, otherwise) for name in question.partitions})


def _transaction(question: Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for name, index in sorted(question.partitions):
        topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=question.transactional_id,
        producer_id=question.producer_id,
        producer_epoch=question.epoch,
        verify_only=not question.adds,
        topics=list(topics.values()),
    )


class TransactionVerification:
    """Implements `TransactionPartitions` with answers that have come, each of which counts once."""

    def __init__(
        self,
        me: int,
        image: Callable[[], MetadataImage],
        of_broker: Callable[[int], BrokerVerifications],
    ) -> None:
        self._me = me
        self._image = image
        self._of_broker = of_broker
        self._answers: dict[Question, Codes] = {}

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicIndex],
        at: Instant,
        *,
        version: int,
    ) -> None:
        """See `TransactionPartitions`. Raises `VerificationNeededError`, too."""
        codes = self._answer(Question(transactional_id, producer_id, epoch, partitions, adds=True))
        for code in codes.values():
            if code:
                raise errors.for_code(code)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicIndex]
    ) -> frozenset[TopicIndex]:
        """See `TransactionPartitions`. Raises `VerificationNeededError`, too."""
        codes = self._answer(Question(transactional_id, producer_id, epoch, partitions, adds=False))
        for code in codes.values():
            if code and code not in _NOT_ADDED:
                raise errors.for_code(code)
        return frozenset(name for name, code in codes.items() if code)

    def _answer(self, question: Question) -> Codes:
        codes = self._answers.pop(question, None)
        if codes is None:
            raise VerificationNeededError(question)
        return codes

    def find_out(self, broker: BrokerState, question: Question, at: Instant, go_on: Callable[[], None]) -> None:
        """Ask who coordinates the transaction, and call `go_on` when it has answered."""

        def tell(codes: Codes) -> None:
            self._answers[question] = codes
            go_on()
            self._answers.pop(question, None)

        def tell_all(code: int) -> None:
            tell(dict.fromkeys(question.partitions, code))

        topic = self._image().topic(TRANSACTION_STATE_TOPIC)
        index = 0 if topic is None else partition_for(question.transactional_id, len(topic.partitions))
        leader = -1 if topic is None else topic.partitions[index].leader
        if leader == self._me:
            self._ask_here(broker, question, at, TopicPartition(TRANSACTION_STATE_TOPIC, index), tell)
        elif leader < 0:
            tell_all(errors.CoordinatorNotAvailableError.code)
        else:
            self._of_broker(leader).add(question, tell)

    def _ask_here(
        self, broker: BrokerState, question: Question, at: Instant, partition: TopicPartition, tell: Told
    ) -> None:
        coordinator = broker.transaction_coordinator
        producer = question.transactional_id, question.producer_id, question.epoch
        missing: frozenset[TopicIndex] = frozenset()
        try:
            if question.adds:
                coordinator.add_partitions(*producer, question.partitions, at, version=_TV_2)
            else:
                missing = coordinator.verify_partitions(*producer, question.partitions)
        except errors.KafkaError as problem:
            tell(dict.fromkeys(question.partitions, problem.code))
            return

        def committed(problem: errors.KafkaError | None) -> None:
            refusal = errors.TransactionAbortableError.code
            lost = errors.NotCoordinatorError.code
            tell({name: lost if problem else refusal if name in missing else 0 for name in question.partitions})

        broker.replica_manager.after_commit(partition, committed)


def with_verification(api_key: int, local: Handler, verification: TransactionVerification) -> Handler:
    """Return a handler that asks for what it needs to know of transactions; others are as they were."""
    if api_key not in (ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT):
        return local

    def handle(broker: BrokerState, context: RequestContext, request: Any) -> Any:
        try:
            return local(broker, context, request)
        except VerificationNeededError as needed:
            return _later(broker, context, request, needed.question)

    def _later(broker: BrokerState, context: RequestContext, request: Any, question: Question) -> DelayedOperation:
        _own_records(request)
        operation = ChainedOperation(broker, DelayedOperation())

        def go_on() -> None:
            if operation.done:
                return
            result = handle(broker, context, request)
            if isinstance(result, DelayedOperation):
                operation.inner = result
                broker.purgatory.park(result, operation.complete)
            elif result is not None:
                operation.complete(result)

        verification.find_out(broker, question, context.instant, go_on)
        return operation

    return handle


def _own_records(request: Any) -> None:
    """Copy what lies in the connection's buffer, which the next request uses."""
    for topic in getattr(request, "topic_data", ()):
        for data in topic.partition_data:
            if data.records is not None:
                data.records = bytearray(data.records)
