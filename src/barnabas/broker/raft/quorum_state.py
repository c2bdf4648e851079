"""Which state a node is in, and how it passes from one to another (QuorumState).

```text
Unattached, Follower ──timeout──► Prospective ──majority──► Candidate ──majority──► Leader ──► Resigned
```

Every way leads back to Unattached by a later epoch, and to Follower by a leader of this epoch or a later one. What was
promised in an epoch (whom this node voted for, who led) is on the disk before anything follows from it.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.raft.election_state import ElectionState, decode_election_state, encode_election_state
from barnabas.broker.raft.epoch_states import (
    CandidateState,
    EpochElection,
    FollowerState,
    ProspectiveState,
    ResignedState,
    UnattachedState,
)
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch
from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from random import Random

    from barnabas.broker.raft.batch_accumulator import BatchAccumulator
    from barnabas.broker.raft.control_record_state_machine import PartitionState
    from barnabas.broker.raft.disk_work import DiskWork
    from barnabas.broker.raft.election_state import QuorumStateStore
    from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
    from barnabas.broker.raft.raft_config import RaftConfig
    from barnabas.broker.raft.replica_key import ReplicaKey
    from barnabas.broker.raft.voter_set import Endpoints

    State = UnattachedState | ProspectiveState | CandidateState | FollowerState | LeaderState | ResignedState


class QuorumState:
    """The state of this node in the present epoch."""

    __slots__ = ("_disk", "_random", "_store", "config", "local", "partition_state", "state")

    def __init__(
        self,
        config: RaftConfig,
        partition_state: PartitionState,
        store: QuorumStateStore,
        disk: DiskWork,
        random: Random,
    ) -> None:
        self.config = config
        self.local = config.local
        self.partition_state = partition_state
        self._store = store
        self._disk = disk
        self._random = random
        self.state: State = UnattachedState(0)

    def initialize(self, log_end: OffsetAndEpoch, now: float) -> None:
        """Begin where the file and the log say. Raises `KafkaStorageError`."""
        content = self._store.read()
        election = ElectionState(0) if content is None else decode_election_state(content)
        if election.epoch < log_end.epoch:
            election = ElectionState(log_end.epoch)
        deadline = self._election_deadline(now)
        voters = self.partition_state.last_voter_set
        epoch, leader_id, voted_key = election
        if leader_id == self.local.id:
            state: State = ResignedState(
                epoch,
                (self.local.id, self.config.listeners),
                voters.ids,
                preferred=[],
                election_deadline=deadline,
            )
        elif leader_id is not None and voters.endpoints(leader_id):
            state = self._follower(epoch, leader_id, voters.endpoints(leader_id), voted_key, None, now)
        else:
            state = UnattachedState(epoch, leader_id=leader_id, voted_key=voted_key, election_deadline=deadline)
        self._durably(state)

    # -- what is ----------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self.state.epoch

    @property
    def leader_id(self) -> int | None:
        """Who leads, None while that is not known."""
        return self.state.leader_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """Who leads, and the epoch."""
        return LeaderAndEpoch(self.state.leader_id, self.state.epoch)

    @property
    def has_remote_leader(self) -> bool:
        """Whether another node leads."""
        return self.leader_id not in (None, self.local.id)

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        return isinstance(self.state, LeaderState)

    @property
    def is_voter(self) -> bool:
        """Whether this node votes."""
        return self.partition_state.last_voter_set.is_voter(self.local)

    @property
    def is_only_voter(self) -> bool:
        """Whether this node votes, and no other."""
        return self.partition_state.last_voter_set.is_only_voter(self.local)

    # -- transitions -------------------------------------------------------------------------------------------------

    def to_unattached(self, epoch: int, now: float, leader_id: int | None = None) -> None:
        """Give up what was, for a later epoch; or for this one, when no voter was elected."""
        before = self.state
        if epoch < before.epoch or (epoch == before.epoch and not isinstance(before, ProspectiveState)):
            raise IllegalStateError(f"{before.name} of epoch {before.epoch} cannot become Unattached in {epoch}")
        if isinstance(before, UnattachedState | ProspectiveState | CandidateState) and epoch > before.epoch:
            deadline = before.election_deadline
        else:
            deadline = self._election_deadline(now)
        self._durably(
            UnattachedState(
                epoch,
                leader_id=leader_id,
                voted_key=before.voted_key if epoch == before.epoch else None,
                high_watermark=before.high_watermark,
                election_deadline=deadline if self.is_voter else inf,
            )
        )

    def to_voted(self, candidate: ReplicaKey, now: float) -> None:
        """Give this epoch's vote to a candidate."""
        before = self.state
        if (
            not isinstance(before, UnattachedState | ProspectiveState)
            or before.voted_key is not None
            or before.leader_id is not None
            or candidate.id == self.local.id
        ):
            raise IllegalStateError(f"{before.name} of epoch {before.epoch} cannot vote for {candidate.id}")
        self._durably(
            UnattachedState(
                before.epoch,
                voted_key=candidate,
                high_watermark=before.high_watermark,
                election_deadline=self._election_deadline(now),
            )
        )

    def to_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now: float) -> None:
        """Follow a leader."""
        before = self.state
        is_late = epoch < before.epoch or (epoch == before.epoch and isinstance(before, LeaderState | ResignedState))
        if leader_id == self.local.id or is_late or not endpoints:
            raise IllegalStateError(
                f"{before.name} of epoch {before.epoch} cannot follow node {leader_id} of epoch {epoch}"
            )
        voted_key = before.voted_key if epoch == before.epoch else None
        self._durably(self._follower(epoch, leader_id, endpoints, voted_key, before.high_watermark, now))

    def _follower(
        self,
        epoch: int,
        leader_id: int,
        endpoints: Endpoints,
        voted_key: ReplicaKey | None,
        high_watermark: int | None,
        now: float,
    ) -> FollowerState:
        return FollowerState(
            epoch,
            leader_id,
            endpoints,
            voted_key=voted_key,
            high_watermark=high_watermark,
            deadlines=(now + self.config.fetch_timeout, now + self._first_update_after()),
        )

    def _first_update_after(self) -> float:
        """Return after how long a follower tells its leader what it is: soon where no record says that."""
        period = self.config.update_voter_period
        return period if self.partition_state.is_reconfig_supported or not self.is_voter else period / 4

    def to_prospective(self, now: float) -> None:
        """Ask for pre-votes; the epoch stays."""
        before = self.state
        self._check_voter("Prospective")
        state = ProspectiveState(
            before.epoch,
            EpochElection(self.partition_state.last_voter_set, self.local),
            leader=(before.leader_id, before.leader_endpoints),
            voted_key=before.voted_key,
            high_watermark=before.high_watermark,
            election_deadline=self._election_deadline(now),
        )
        if isinstance(before, CandidateState | ProspectiveState):
            state.retries = before.retries
        self._durably(state)

    def to_candidate(self, now: float) -> None:
        """Begin the next epoch with a vote for this node."""
        before = self.state
        self._check_voter("Candidate")
        if not isinstance(before, ProspectiveState) or not before.votes.is_granted:
            raise IllegalStateError(f"{before.name} of epoch {before.epoch} cannot become a Candidate")
        self._durably(
            CandidateState(
                before.epoch + 1,
                self.local,
                EpochElection(self.partition_state.last_voter_set, self.local),
                high_watermark=before.high_watermark,
                retries=before.retries + 1,
                election_deadline=self._election_deadline(now),
            )
        )

    def to_leader(self, accumulator: BatchAccumulator, now: float) -> LeaderState:
        """Lead the epoch for which this node was elected."""
        before = self.state
        self._check_voter("Leader")
        if not isinstance(before, CandidateState) or not before.votes.is_granted:
            raise IllegalStateError(f"{before.name} of epoch {before.epoch} cannot become its Leader")
        state = LeaderState(
            self.local,
            self.config.listeners,
            accumulator,
            voters=self.partition_state.last_voter_set,
            granting_voters=before.votes.granting,
            fetch_timeout=self.config.fetch_timeout,
            now=now,
        )
        if not self.partition_state.is_reconfig_supported:
            voters = self.partition_state.last_voter_set
            state.voters_in_memory = voters.update_regardless_of_directory(self.config.local_node)
        self._durably(state)
        return state

    def to_resigned(self, preferred: list[ReplicaKey], now: float) -> None:
        """Lead no more; the file says already that this node has led the epoch."""
        self.state = ResignedState(
            self.epoch,
            (self.local.id, self.config.listeners),
            self.partition_state.last_voter_set.ids,
            preferred=preferred,
            election_deadline=self._election_deadline(now),
        )

    def _check_voter(self, wanted: str) -> None:
        if not self.is_voter:
            raise IllegalStateError(
                f"node {self.local.id} cannot become {wanted}: it is none of {self.partition_state.last_voter_set}"
            )

    def _durably(self, state: State) -> None:
        voters = self.partition_state.last_voter_set.ids
        content = encode_election_state(state.election, voters, self.partition_state.kraft_version)
        self.state = state
        self._disk.do_first(self._store.write(content))

    def _election_deadline(self, now: float) -> float:
        return now + self.config.election_timeout * (1 + self._random.random())
