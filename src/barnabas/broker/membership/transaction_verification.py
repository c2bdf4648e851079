"""Asks the coordinators of transactions, which may be other brokers, before records are written (KIP-890).

`transactions/verification.py` has a handler wait for the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.membership.broker_queue import BrokerQueue
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.broker.transactions.verification import Question, VerificationNeededError
from barnabas.protocol.coordinator_partition import partition_for
from barnabas.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from barnabas.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage
    from barnabas.broker.transactions.transaction_metadata import TopicIndex
    from barnabas.broker.transactions.verification import Coordinating
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

_NOT_ADDED = (errors.TransactionAbortableError.code, errors.InvalidTxnStateError.code)
_TV_2 = 2


#: Partition → error code.
Codes = dict["TopicIndex", int]
Told = Callable[[Codes], None]


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

    def not_answered(self, asked: Question, answer: Told) -> None:
        """See `BrokerQueue`."""
        answer(dict.fromkeys(asked.partitions, errors.CoordinatorNotAvailableError.code))

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
        def codes_of(question: Question) -> Codes:
            codes = found.get(question.transactional_id, {})
            return {name: codes.get(name, otherwise) for name in question.partitions}

        self.answer([partial(tell, codes_of(question)) for question, tell in self.in_flight])


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
    """The `Verification` of a member of a cluster: by answers that have come."""

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
        """See `Verification`."""
        codes = self._answer(Question(transactional_id, producer_id, epoch, partitions, adds=True))
        for code in codes.values():
            if code:
                raise errors.for_code(code)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicIndex]
    ) -> frozenset[TopicIndex]:
        """See `Verification`."""
        codes = self._answer(Question(transactional_id, producer_id, epoch, partitions, adds=False))
        for code in codes.values():
            if code and code not in _NOT_ADDED:
                raise errors.for_code(code)
        return frozenset(name for name, code in codes.items() if code)

    def _answer(self, question: Question) -> Codes:
        codes = self._answers.get(question)
        if codes is None:
            raise VerificationNeededError(question)
        return codes

    def is_completing(self, question: Question, told: Codes) -> bool:
        """See `Verification`."""
        return question.adds and errors.ConcurrentTransactionsError.code in told.values()

    @contextmanager
    def knowing(self, question: Question, told: Codes) -> Iterator[None]:
        """See `Verification`."""
        self._answers[question] = told
        try:
            yield
        finally:
            del self._answers[question]

    def find_out(self, broker: Coordinating, question: Question, at: Instant, tell: Told) -> None:
        """See `Verification`: ask who coordinates the transaction."""

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
        self, broker: Coordinating, question: Question, at: Instant, partition: TopicPartition, tell: Told
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
