"""Who knows, before records are written, that a coordinator knows of them (KIP-890).

Handlers ask `AddPartitionsToTxnManager`, and have to be answered at once. What is not certain yet raises
`VerificationNeededError` through them, before anything was done; `verified_requests` asks them again. That the
coordinator has it in memory is not enough: where the disk or other replicas may still lose its record, records that are
written already would stand in a transaction that never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from barnabas import errors
from barnabas.broker.metadata.cluster_metadata import TRANSACTION_STATE_TOPIC
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.instant import Instant
    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.broker.transactions.transaction_coordinator import TransactionCoordinator
    from barnabas.broker.transactions.transaction_metadata import TopicIndex


class Question(NamedTuple):
    """Whether partitions are in a producer's transaction, or (`adds`) that they be added to it."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicIndex]
    adds: bool


class VerificationNeededError(Exception):
    """Raised through a handler that needs what is not certain yet."""

    def __init__(self, question: Question):
        super().__init__(f"{question} has to be answered first")
        self.question = question


class Coordinating(Protocol):
    """What this broker coordinates, and where its logs are."""

    replica_manager: ReplicaManager

    @property
    def transaction_coordinator(self) -> TransactionCoordinator:
        """The coordinator of the transactions that this broker has."""


class Verification(Protocol):
    """Who knows which partitions are in which transaction: a coordinator here, or who asks those of other brokers."""

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
        """Take partitions into the transaction. Raises `KafkaError`, and `VerificationNeededError`."""

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicIndex]
    ) -> frozenset[TopicIndex]:
        """Return those of the partitions that are not in the open transaction. Raises as `add_partitions`."""

    def find_out(self, broker: Coordinating, question: Question, at: Instant, tell: Callable[[Any], None]) -> None:
        """Call `tell` with what is certain at last."""

    def is_completing(self, question: Question, told: Any) -> bool:
        """Whether nothing was added because the producer's last transaction is still being completed."""

    def knowing(self, question: Question, told: Any) -> AbstractContextManager[None]:
        """Answer the question by what was told, as long as the context lasts."""


class LocalVerification:
    """The `Verification` of a broker that coordinates every transaction itself: only the disk is waited for."""

    __slots__ = ("_coordinator", "_replica_manager", "_told")

    def __init__(self, coordinator: TransactionCoordinator, replica_manager: ReplicaManager) -> None:
        self._coordinator = coordinator
        self._replica_manager = replica_manager
        self._told: dict[Question, errors.KafkaError | None] = {}

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
        self._coordinator.add_partitions(transactional_id, producer_id, epoch, partitions, at, version=version)
        self._check_committed(Question(transactional_id, producer_id, epoch, partitions, adds=True))

    def verify_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: frozenset[TopicIndex]
    ) -> frozenset[TopicIndex]:
        """See `Verification`."""
        missing = self._coordinator.verify_partitions(transactional_id, producer_id, epoch, partitions)
        self._check_committed(Question(transactional_id, producer_id, epoch, partitions, adds=False))
        return missing

    def _check_committed(self, question: Question) -> None:
        if question in self._told:
            problem = self._told[question]
            if problem is not None:
                raise errors.CoordinatorNotAvailableError(str(problem))
        elif not self._replica_manager.has_committed(self._partition_of(question)):
            raise VerificationNeededError(question)

    def _partition_of(self, question: Question) -> TopicPartition:
        return TopicPartition(TRANSACTION_STATE_TOPIC, self._coordinator.partition_for(question.transactional_id))

    def find_out(self, broker: Coordinating, question: Question, at: Instant, tell: Callable[[Any], None]) -> None:
        """See `Verification`."""
        self._replica_manager.after_commit(self._partition_of(question), tell)

    def is_completing(self, question: Question, told: Any) -> bool:
        """See `Verification`: what the coordinator refuses here it has refused at once."""
        return False

    @contextmanager
    def knowing(self, question: Question, told: errors.KafkaError | None) -> Iterator[None]:
        """See `Verification`."""
        self._told[question] = told
        try:
            yield
        finally:
            del self._told[question]
