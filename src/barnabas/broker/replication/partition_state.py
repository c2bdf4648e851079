"""The ISR as its leader knows it: committed, or with a proposal to the controller in flight (KIP-497)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.metadata.partition_registration import RECOVERED

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.protocol.topic_partition import TopicPartition


class LeaderAndIsr(NamedTuple):
    """What a leader proposes: the ISR with the broker epoch of each (KIP-903), for this leader and partition epoch.

    `leader_recovery_state` says whether a leader that was elected uncleanly has recovered (KIP-704).
    """

    leader: int
    leader_epoch: int
    isr: tuple[tuple[int, int], ...]
    partition_epoch: int
    leader_recovery_state: int = RECOVERED


class CommittedPartitionState(NamedTuple):
    """The ISR that the controller has given, and whether it waits for its leader to recover (KIP-704)."""

    isr: frozenset[int]
    leader_recovery_state: int = RECOVERED

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Who has to have a record before it is committed."""
        return self.isr


class PendingExpandIsr(NamedTuple):
    """A replica is to join. It counts already: if the controller has accepted, it may be elected."""

    new_replica: int
    sent: LeaderAndIsr
    last_committed: CommittedPartitionState

    @property
    def isr(self) -> frozenset[int]:
        """The ISR as it is committed."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Who has to have a record before it is committed."""
        return self.last_committed.isr | {self.new_replica}


class PendingShrinkIsr(NamedTuple):
    """Replicas are to leave. They count still: if the controller has not accepted, they may be elected."""

    out_of_sync: frozenset[int]
    sent: LeaderAndIsr
    last_committed: CommittedPartitionState

    @property
    def isr(self) -> frozenset[int]:
        """The ISR as it is committed."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Who has to have a record before it is committed."""
        return self.last_committed.isr


class PendingRecovery(NamedTuple):
    """The leader, elected uncleanly, says that it has recovered; the ISR stays as it is."""

    sent: LeaderAndIsr
    last_committed: CommittedPartitionState

    @property
    def isr(self) -> frozenset[int]:
        """The ISR as it is committed."""
        return self.last_committed.isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Who has to have a record before it is committed."""
        return self.last_committed.isr


PendingPartitionChange = PendingExpandIsr | PendingShrinkIsr | PendingRecovery
PartitionState = CommittedPartitionState | PendingPartitionChange


class AlterPartitionManager(Protocol):
    """The way to the controller."""

    def submit(
        self,
        name: TopicPartition,
        topic_id: bytes,
        proposed: LeaderAndIsr,
        done: Callable[[PartitionRegistration | int, int], None],
    ) -> None:
        """Send a proposal, and again while the controller cannot be reached.

        `done` gets the partition as the controller has it now, or the number of its error; and the time (epoch ms).
        """


class Brokers(Protocol):
    """What the metadata say of the cluster's brokers."""

    @property
    def local_broker_epoch(self) -> int:
        """The epoch of this broker's registration."""

    def alive_broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a broker's registration, -1 where brokers are not told those of others (ZooKeeper).

        None stands for one that is not registered or is fenced (KIP-841).
        """

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether a broker is in its controlled shutdown."""


class IsrChanges:
    """Counts the changes of ISRs that a leader has proposed, by what the controller said."""

    __slots__ = ("expands", "failed", "shrinks")

    def __init__(self) -> None:
        self.expands = self.shrinks = self.failed = 0

    def note(self, proposal: PendingPartitionChange, answer: object) -> None:
        """Count a proposal that was answered; an error is a number."""
        if isinstance(answer, int):
            self.failed += 1
        elif isinstance(proposal, PendingExpandIsr):
            self.expands += 1
        elif isinstance(proposal, PendingShrinkIsr):
            self.shrinks += 1
