"""What a node is in an epoch, but for the leader: the states of KIP-595 and KIP-996, each with its own timers.

Every state says to whom it gives its vote (`can_grant_vote`). A pre-vote promises nothing: it says that this node would
vote so, and that it does not hear from a leader itself.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.raft.election_state import ElectionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.raft.replica_key import ReplicaKey
    from barnabas.broker.raft.replicated_log import RawSnapshotWriter
    from barnabas.broker.raft.voter_set import Endpoints, VoterSet


class EpochElection:
    """The votes of the voters in one election, pre-vote or vote."""

    __slots__ = ("_unreachable", "votes")

    def __init__(self, voters: VoterSet, local: ReplicaKey) -> None:
        self._unreachable: set[int] = set()
        self.votes: dict[ReplicaKey, bool | None] = {
            node.key: True if node.key.matches(local) else None for node in voters
        }

    def record(self, voter_id: int, *, granted: bool) -> None:
        """Take a vote; that of a node that is no voter does not count, and a vote that was granted stays."""
        self._unreachable.discard(voter_id)
        for key in self.votes:
            if key.id == voter_id and not self.votes[key]:
                self.votes[key] = granted

    def record_unreachable(self, voter_id: int) -> None:
        """Expect no vote of a voter to which the connection was lost or refused; it is asked on."""
        self._unreachable.add(voter_id)

    @property
    def _majority(self) -> int:
        return len(self.votes) // 2 + 1

    @property
    def is_granted(self) -> bool:
        """Whether a majority has granted."""
        return sum(vote is True for vote in self.votes.values()) >= self._majority

    @property
    def is_rejected(self) -> bool:
        """Whether no majority is possible any more, or none of those who can be reached."""
        hopes = (vote or (vote is None and key.id not in self._unreachable) for key, vote in self.votes.items())
        return sum(hopes) < self._majority

    @property
    def unrecorded(self) -> list[ReplicaKey]:
        """Those who have not answered."""
        return [key for key, vote in self.votes.items() if vote is None]

    @property
    def granting(self) -> list[ReplicaKey]:
        """Those who have granted."""
        return [key for key, vote in self.votes.items() if vote]


def _grants(
    leader_id: int | None, voted_key: ReplicaKey | None, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool
) -> bool:
    if pre_vote:
        return up_to_date
    if voted_key is not None:
        return voted_key.matches(candidate)
    return leader_id is None and up_to_date


class UnattachedState:
    """No leader is known whom this node can reach, and it asks for no votes."""

    __slots__ = ("election_deadline", "epoch", "high_watermark", "leader_id", "voted_key")

    name = "Unattached"
    leader_endpoints: Endpoints = ()

    def __init__(
        self,
        epoch: int,
        *,
        leader_id: int | None = None,
        voted_key: ReplicaKey | None = None,
        high_watermark: int | None = None,
        election_deadline: float = inf,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.voted_key = voted_key
        self.high_watermark = high_watermark
        self.election_deadline = election_deadline

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """Say whether this node votes for a candidate of its epoch."""
        return _grants(self.leader_id, self.voted_key, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


class ProspectiveState:
    """Asks whether it would be elected, before it begins an epoch (KIP-996)."""

    __slots__ = (
        "election_deadline",
        "epoch",
        "high_watermark",
        "leader_endpoints",
        "leader_id",
        "retries",
        "voted_key",
        "votes",
    )

    name = "Prospective"

    def __init__(
        self,
        epoch: int,
        votes: EpochElection,
        *,
        leader: tuple[int | None, Endpoints],
        voted_key: ReplicaKey | None,
        high_watermark: int | None,
        election_deadline: float,
    ) -> None:
        self.epoch = epoch
        self.votes = votes
        self.leader_id, self.leader_endpoints = leader
        self.voted_key = voted_key
        self.high_watermark = high_watermark
        self.election_deadline = election_deadline
        self.retries = 0

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """See `UnattachedState`."""
        return _grants(self.leader_id, self.voted_key, candidate, up_to_date=up_to_date, pre_vote=pre_vote)


class CandidateState:
    """Has begun an epoch, voted for itself, and asks for votes."""

    __slots__ = ("backoff_deadline", "election_deadline", "epoch", "high_watermark", "retries", "voted_key", "votes")

    name = "Candidate"
    leader_id: int | None = None
    leader_endpoints: Endpoints = ()

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        votes: EpochElection,
        *,
        high_watermark: int | None,
        retries: int,
        election_deadline: float,
    ) -> None:
        self.epoch = epoch
        self.voted_key = local
        self.votes = votes
        self.high_watermark = high_watermark
        self.retries = retries
        self.election_deadline = election_deadline
        #: When a candidate that cannot win any more tries again; None while it can.
        self.backoff_deadline: float | None = None

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, None, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """See `UnattachedState`: the vote is its own already."""
        return pre_vote and up_to_date and candidate != self.voted_key


class FollowerState:
    """Fetches from the leader."""

    __slots__ = (
        "epoch",
        "fetch_deadline",
        "fetching_snapshot",
        "has_fetched",
        "has_updated_leader",
        "high_watermark",
        "leader_endpoints",
        "leader_id",
        "lost_connections",
        "update_voter_deadline",
        "voted_key",
    )

    name = "Follower"

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        *,
        voted_key: ReplicaKey | None,
        high_watermark: int | None,
        deadlines: tuple[float, float],
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted_key = voted_key
        self.high_watermark = high_watermark
        self.fetch_deadline, self.update_voter_deadline = deadlines
        #: Whether this leader has answered a fetch: then it lives, and no other is wanted.
        self.has_fetched = False
        #: Whether this leader knows this voter's endpoints and directory, or has no use for them.
        self.has_updated_leader = False
        #: How many connections to this leader were lost or refused since it answered last.
        self.lost_connections = 0
        self.fetching_snapshot: RawSnapshotWriter | None = None

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """See `UnattachedState`."""
        if pre_vote:
            return up_to_date and not self.has_fetched
        return _grants(self.leader_id, self.voted_key, candidate, up_to_date=up_to_date, pre_vote=False)


class ResignedState:
    """Has led this epoch, and does so no more."""

    __slots__ = ("election_deadline", "epoch", "leader_endpoints", "leader_id", "preferred", "unacknowledged")

    name = "Resigned"
    high_watermark: int | None = None
    voted_key: ReplicaKey | None = None

    def __init__(
        self,
        epoch: int,
        local: tuple[int, Endpoints],
        voters: Sequence[int],
        *,
        preferred: Sequence[ReplicaKey],
        election_deadline: float,
    ) -> None:
        self.epoch = epoch
        self.leader_id, self.leader_endpoints = local
        self.preferred = list(preferred)
        self.election_deadline = election_deadline
        self.unacknowledged = {voter for voter in voters if voter != self.leader_id}

    @property
    def election(self) -> ElectionState:
        """What has to be remembered."""
        return ElectionState(self.epoch, self.leader_id, None)

    def can_grant_vote(self, candidate: ReplicaKey, *, up_to_date: bool, pre_vote: bool) -> bool:
        """See `UnattachedState`: in this epoch it was the leader itself."""
        return pre_vote and up_to_date and candidate.id != self.leader_id
