"""A leader's followers: how far all in sync have come, who is to join the ISR and who to leave it (Partition)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.metadata.partition_registration import RECOVERING
from barnabas.broker.replication.partition_state import (
    CommittedPartitionState,
    LeaderAndIsr,
    PartitionState,
    PendingExpandIsr,
    PendingPartitionChange,
    PendingRecovery,
    PendingShrinkIsr,
)
from barnabas.broker.replication.replica import NO_BROKER_EPOCH, FollowerFetch, Replica

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.metadata.partition_registration import PartitionRegistration
    from barnabas.broker.replication.partition_state import Brokers

#: With these the controller says that it has the same partition epoch and has changed nothing.
_NOT_APPLIED = (errors.IneligibleReplicaError.code, errors.OperationNotAttemptedError.code)
#: After these the state stays pending: whether the proposal was applied is told by metadata that are on their way.
_AWAIT_METADATA = (
    errors.UnknownTopicOrPartitionError.code,
    errors.UnknownTopicIdError.code,
    errors.FencedLeaderEpochError.code,
    errors.InvalidUpdateVersionError.code,
    errors.InvalidRequestError.code,
    errors.NewLeaderElectedError.code,
)


class InSyncReplicas:
    """The followers of one partition in one leadership of this broker, and the ISR.

    `on_lag` is called when followers may lack something from now on: until all in sync have everything
    (`are_level`), they are to be looked at for being late (`shrink`).
    """

    __slots__ = ("_brokers", "_max_lag_ms", "_me", "epoch_start_offset", "leader_epoch", "on_lag", "partition_epoch",
                 "replicas", "state", "submitted")  # fmt: skip

    def __init__(self, me: int, brokers: Brokers, max_lag_ms: int) -> None:
        self._me = me
        self._brokers = brokers
        self._max_lag_ms = max_lag_ms
        self.replicas: dict[int, Replica] = {}
        self.state: PartitionState = CommittedPartitionState(frozenset((me,)))
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.epoch_start_offset = 0
        self.on_lag: Callable[[], None] = lambda: None
        #: The last proposal that the way to the controller has got, and is not being answered.
        self.submitted: PendingPartitionChange | None = None

    @property
    def unsent(self) -> PendingPartitionChange | None:
        """The pending proposal, if nothing will come of it: a fault of this program has kept it from being sent."""
        state = self.state
        return None if isinstance(state, CommittedPartitionState) or state is self.submitted else state

    def update(self, registration: PartitionRegistration, log_end_offset: int, now_ms: int, *, is_new: bool) -> None:
        """Take in what the controller says of the partition; `is_new`: this broker was not its leader before.

        A proposal in flight is settled by that.
        """
        followers = [replica for replica in registration.replicas if replica != self._me]
        self.replicas = {replica: self.replicas.get(replica) or Replica(replica) for replica in followers}
        self.state = CommittedPartitionState(frozenset(registration.isr), registration.leader_recovery_state)
        self.partition_epoch = registration.partition_epoch
        self.on_lag()
        if registration.leader_epoch > self.leader_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = log_end_offset
            for replica in self.replicas.values():
                in_sync = replica.broker_id in registration.isr
                replica.reset(log_end_offset, now_ms, is_new_leader=is_new, in_sync=in_sync)

    # -- what is committed -------------------------------------------------------------------------------------------

    def effective_min_isr(self, min_insync_replicas: int) -> int:
        """Return how many must be in sync: never more than there are replicas."""
        return min(min_insync_replicas, len(self.replicas) + 1)

    def high_watermark(self, log_end_offset: int, min_insync_replicas: int, now_ms: int) -> int:
        """Return up to where all who count have the records; -1 where that is not known, or too few are in sync.

        Who counts is the maximal ISR, and who is caught up and may join: if the leader did not wait for those, a
        follower might never reach the high watermark, and never join.
        """
        if len(self.state.isr) < self.effective_min_isr(min_insync_replicas):
            return -1
        found = log_end_offset
        maximal_isr = self.state.maximal_isr
        for broker_id, replica in self.replicas.items():
            if replica.log_end_offset < found and (
                broker_id in maximal_isr
                or (replica.is_caught_up(log_end_offset, now_ms, self._max_lag_ms) and self._is_eligible(replica))
            ):
                found = replica.log_end_offset
        return found

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest offset at which the log of a replica starts, of those whose brokers are alive."""
        starts = [
            replica.log_start_offset
            for broker_id, replica in self.replicas.items()
            if self._brokers.alive_broker_epoch(broker_id) is not None
        ]
        return min([log_start_offset, *starts])

    # -- followers ---------------------------------------------------------------------------------------------------

    def record_fetch(self, replica_id: int, fetch: FollowerFetch, log_end_offset: int, now_ms: int) -> Replica:
        """Take note of a follower's Fetch.

        Raises `NotLeaderOrFollowerError` for one of an earlier life of its broker (KIP-903).
        """
        known = self._brokers.alive_broker_epoch(replica_id)
        if fetch.broker_epoch != NO_BROKER_EPOCH and known is not None and known > fetch.broker_epoch:
            raise errors.NotLeaderOrFollowerError(
                f"the Fetch is of broker epoch {fetch.broker_epoch}; broker {replica_id} is at {known}"
            )
        replica = self.replicas[replica_id]
        replica.update_fetch_state(fetch, log_end_offset, now_ms)
        return replica

    def _is_eligible(self, replica: Replica) -> bool:
        """Whether a replica may be in the ISR: neither fenced nor leaving, and known in this life of its broker."""
        known = self._brokers.alive_broker_epoch(replica.broker_id)
        return (
            known is not None
            and (replica.broker_epoch in (NO_BROKER_EPOCH, known) or known == NO_BROKER_EPOCH)
            and not self._brokers.is_shutting_down(replica.broker_id)
        )

    # -- proposals ---------------------------------------------------------------------------------------------------

    def expand(self, replica: Replica, high_watermark: int) -> PendingExpandIsr | None:
        """Return a proposal to take a follower in that has all that is committed; None where nothing is to be done.

        It must have come to the start of this leader epoch: before that the high watermark may be one of earlier
        times, and what was committed beyond it would be lost with its election.
        """
        state = self.state
        if (
            not isinstance(state, CommittedPartitionState)
            or replica.broker_id in state.isr
            or replica.log_end_offset < max(high_watermark, self.epoch_start_offset)
            or not self._is_eligible(replica)
        ):
            return None
        pending = PendingExpandIsr(replica.broker_id, self._proposed(state.isr | {replica.broker_id}), state)
        self.state = pending
        return pending

    def shrink(self, log_end_offset: int, now_ms: int) -> PendingShrinkIsr | None:
        """Return a proposal to take those out who have lagged for too long; None where nothing is to be done."""
        state = self.state
        if not isinstance(state, CommittedPartitionState):
            return None
        late = frozenset(broker_id for broker_id in state.isr if self._is_late(broker_id, log_end_offset, now_ms))
        if not late:
            return None
        pending = PendingShrinkIsr(late, self._proposed(state.isr - late), state)
        self.state = pending
        return pending

    def recover(self) -> PendingRecovery | None:
        """Return the news that a leader elected uncleanly has recovered (KIP-704); None where it need not.

        A log that was cut by epochs holds what its producers and transactions need, so the leader has recovered when it
        leads. Apache Kafka says so with the next change of the ISR only.
        """
        state = self.state
        if not isinstance(state, CommittedPartitionState) or state.leader_recovery_state != RECOVERING:
            return None
        pending = PendingRecovery(self._proposed(state.isr), state)
        self.state = pending
        return pending

    def are_level(self, log_end_offset: int) -> bool:
        """Whether all in sync have everything, and no proposal is in flight: none of them can be late."""
        return isinstance(self.state, CommittedPartitionState) and all(
            broker_id == self._me
            or (broker_id in self.replicas and self.replicas[broker_id].log_end_offset == log_end_offset)
            for broker_id in self.state.isr
        )

    def _is_late(self, broker_id: int, log_end_offset: int, now_ms: int) -> bool:
        if broker_id == self._me:
            return False
        replica = self.replicas.get(broker_id)
        return replica is None or not replica.is_caught_up(log_end_offset, now_ms, self._max_lag_ms)

    def _proposed(self, isr: frozenset[int]) -> LeaderAndIsr:
        members = tuple((broker_id, self._broker_epoch(broker_id)) for broker_id in sorted(isr))
        return LeaderAndIsr(self._me, self.leader_epoch, members, self.partition_epoch)

    def _broker_epoch(self, broker_id: int) -> int:
        if broker_id == self._me:
            return self._brokers.local_broker_epoch
        replica = self.replicas.get(broker_id)
        # One that has not fetched yet is a member from before: if it dies, the partition epoch refuses the proposal.
        return NO_BROKER_EPOCH if replica is None or replica.broker_epoch is None else replica.broker_epoch

    def accepted(self, proposal: PendingPartitionChange, registration: PartitionRegistration) -> bool:
        """Take in the controller's answer to a proposal; whether it still counted."""
        if (
            self.state is not proposal
            or registration.leader_epoch != self.leader_epoch
            or registration.partition_epoch < self.partition_epoch
        ):
            return False
        self.state = CommittedPartitionState(frozenset(registration.isr), registration.leader_recovery_state)
        self.partition_epoch = registration.partition_epoch
        return True

    def refused(self, proposal: PendingPartitionChange, error_code: int) -> bool:
        """Take in the controller's error; whether the same proposal is to be sent again."""
        if self.state is not proposal:
            return False
        if error_code in _NOT_APPLIED:
            self.state = proposal.last_committed
            return False
        return error_code not in _AWAIT_METADATA
