"""What the leader of an epoch knows: how far every replica is, what is committed, who listens (LeaderState)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.raft.election_state import ElectionState
from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.raft.batch_accumulator import BatchAccumulator
    from barnabas.broker.raft.replica_key import ReplicaKey
    from barnabas.broker.raft.voter_set import Endpoints, VoterSet

OBSERVER_SESSION_TIMEOUT = 300.0
CHECK_QUORUM_TIMEOUT_FACTOR = 1.5
_CAUGHT_UP_WITHIN = 3600.0


class ReplicaState:
    """How far a replica has fetched."""

    __slots__ = (
        "end_offset",
        "has_acknowledged",
        "key",
        "last_caught_up_ms",
        "last_fetch",
        "last_fetch_leader_end",
        "last_fetch_ms",
    )

    def __init__(self, key: ReplicaKey, *, has_acknowledged: bool = False) -> None:
        self.key = key
        self.end_offset: int | None = None
        self.last_fetch = -inf
        self.last_fetch_ms = -1
        self.last_fetch_leader_end = -1
        self.last_caught_up_ms = -1
        self.has_acknowledged = has_acknowledged

    def fetched(self, offset: int, leader_end: int | None, now: Instant) -> None:
        """Take note that it has everything below an offset, on its disk."""
        if leader_end is not None:
            if offset >= leader_end:
                self.last_caught_up_ms = max(self.last_caught_up_ms, now.now_ms)
            elif 0 < self.last_fetch_leader_end <= offset:
                self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
            self.last_fetch_leader_end = leader_end
        self.last_fetch, self.last_fetch_ms = now.now, now.now_ms
        self.end_offset = offset
        self.has_acknowledged = True


class LeaderState:
    """The leader of an epoch.

    What is committed is what a majority of the voters has on its disk, once it reaches into this epoch: records of
    earlier epochs count with the first of this one, never by themselves (Raft, section 5.4.2).
    """

    __slots__ = (
        "_check_quorum_timeout",
        "_fetched_voters",
        "accumulator",
        "begin_quorum_deadline",
        "check_quorum_deadline",
        "epoch",
        "epoch_start_offset",
        "granting_voters",
        "high_watermark",
        "is_resign_requested",
        "leader_endpoints",
        "local",
        "log_end_offset",
        "observers",
        "voted_key",
        "voters",
        "voters_in_memory",
    )

    name = "Leader"

    def __init__(
        self,
        local: ReplicaKey,
        endpoints: Endpoints,
        accumulator: BatchAccumulator,
        *,
        voters: VoterSet,
        granting_voters: list[ReplicaKey],
        fetch_timeout: float,
        now: float,
    ) -> None:
        self.local = local
        self.leader_endpoints = endpoints
        self.accumulator = accumulator
        self.epoch = accumulator.epoch
        self.epoch_start_offset = accumulator.next_offset
        self.voted_key: ReplicaKey | None = None
        self.voters: dict[int, ReplicaState] = {
            node.key.id: ReplicaState(node.key, has_acknowledged=node.key.matches(local)) for node in voters
        }
        self.observers: dict[ReplicaKey, ReplicaState] = {}
        self.granting_voters = granting_voters
        #: At `kraft.version` 0, what the voters have said of themselves: no record of that level can hold it.
        self.voters_in_memory: VoterSet | None = None
        self.high_watermark: int | None = None
        #: Where this node's log ends; what of it is on the disk is the `end_offset` of its own `ReplicaState`.
        self.log_end_offset: int | None = None
        self.is_resign_requested = False
        self._fetched_voters: set[int] = set()
        self._check_quorum_timeout = fetch_timeout * CHECK_QUORUM_TIMEOUT_FACTOR
        self.check_quorum_deadline = now + self._check_quorum_timeout
        self.begin_quorum_deadline = now

    @property
    def leader_id(self) -> int:
        """This node."""
        return self.local.id

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, self.local.id, None)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """See `UnattachedState`: there is a leader."""
        return False

    # -- who still listens -------------------------------------------------------------------------------------------

    def resigns_at(self) -> float:
        """Return when the leader gives up, for no majority has fetched since."""
        return inf if set(self.voters) == {self.local.id} else self.check_quorum_deadline

    def heard_from(self, key: ReplicaKey, now: float) -> None:
        """Take note that a replica follows; with a majority of them the leader goes on."""
        state = self.voters.get(key.id)
        if state is not None and state.key.matches(key):
            self._fetched_voters.add(key.id)
        needed = len(self.voters) // 2 + 1 - (self.local.id in self.voters)
        if len(self._fetched_voters) >= needed:
            self._fetched_voters.clear()
            self.check_quorum_deadline = now + self._check_quorum_timeout

    # -- how far they are --------------------------------------------------------------------------------------------

    def state_of(self, key: ReplicaKey) -> ReplicaState:
        """Return what is known of a replica, voter or observer."""
        state = self.voters.get(key.id)
        if state is not None and state.key.matches(key):
            return state
        return self.observers.setdefault(key, ReplicaState(key))

    def update_local(self, end_offset: int, flushed_offset: int, voters: VoterSet) -> bool:
        """Take note of what is in this node's log and on its disk, and of who votes now; whether more is committed."""
        if self.log_end_offset is not None and end_offset < self.log_end_offset:
            raise IllegalStateError(f"the leader's log ends at {end_offset}, and ended at {self.log_end_offset} before")
        self.log_end_offset = end_offset
        self.state_of(self.local).end_offset = flushed_offset
        self._update_voters(voters)
        return self._advance()

    def _update_voters(self, voters: VoterSet) -> None:
        before = self.voters
        self.voters = {}
        for node in voters:
            known = before.get(node.key.id)
            if known is None or not known.key.matches(node.key):
                known = self.observers.pop(node.key, None) or ReplicaState(node.key)
            known.key = node.key
            self.voters[node.key.id] = known
        for state in before.values():
            if self.voters.get(state.key.id) is not state:
                self.observers.setdefault(state.key, state)
        self._fetched_voters &= set(self.voters)

    def update_replica(self, key: ReplicaKey, offset: int, now: Instant) -> bool:
        """Take note that a replica has everything below an offset; whether more is committed."""
        state = self.state_of(key)
        state.fetched(offset, self.log_end_offset, now)
        self.heard_from(key, now.now)
        return key.id in self.voters and self.voters[key.id] is state and self._advance()

    def _advance(self) -> bool:
        ends = sorted(-1 if state.end_offset is None else state.end_offset for state in self.voters.values())
        committed = ends[(len(ends) - 1) // 2]
        if committed <= self.epoch_start_offset or committed <= (self.high_watermark or 0):
            return False
        self.high_watermark = committed
        return True

    def voters_by_offset(self) -> list[ReplicaKey]:
        """Return the other voters, those with the longest logs first."""
        others = [state for state in self.voters.values() if not state.key.matches(self.local)]
        others.sort(key=lambda state: (-(-1 if state.end_offset is None else state.end_offset), state.key))
        return [state.key for state in others]

    def is_caught_up(self, key: ReplicaKey, now: float) -> bool:
        """Say whether an observer has all, and has had it within the last hour."""
        state = self.observers.get(key)
        return state is not None and state.last_caught_up_ms > 0 and state.last_fetch > now - _CAUGHT_UP_WITHIN

    def current_observers(self, now: float) -> list[ReplicaState]:
        """Return the observers, without those who have not fetched for long."""
        gone = [
            key
            for key, state in self.observers.items()
            if now - state.last_fetch >= OBSERVER_SESSION_TIMEOUT and key != self.local
        ]
        for key in gone:
            del self.observers[key]
        return list(self.observers.values())
