"""Elections: Vote, BeginQuorumEpoch and EndQuorumEpoch, asked and answered (KIP-595, 853, 996)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.raft.epoch_states import CandidateState, FollowerState, ProspectiveState, ResignedState
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.raft_messages import (
    METADATA_TOPIC,
    PARTITION,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from barnabas.broker.raft.replica import (
    INCONSISTENT_CLUSTER_ID,
    INVALID_REQUEST,
    INVALID_VOTER_KEY,
    NONE,
)
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.voter_set import Endpoint
from barnabas.network.node import Node

if TYPE_CHECKING:
    from random import Random

    from barnabas.broker.raft.replica import Replica
    from barnabas.broker.raft.voter_set import Endpoints

UNSUPPORTED_VERSION = errors.UnsupportedVersionError.code
_BACKOFF_BASE = 0.1
#: A process that has ended resets its connections and refuses new ones; one that lives may lose a connection by chance.
_LOST_CONNECTIONS = 2
_HASTE = 0.2


class Voting:
    """Gives and counts votes."""

    __slots__ = ("_hastened", "_random", "_replica")

    def __init__(self, replica: Replica, random: Random) -> None:
        self._replica = replica
        self._random = random
        #: The last epoch whose fetch timeout was brought forward, and how often.
        self._hastened = (-1, 0)

    # -- a leader whose process has ended ----------------------------------------------------------------------------

    def answered(self, source: int) -> None:
        """Take note that a node lives."""
        state = self._replica.quorum.state
        if isinstance(state, FollowerState) and source == state.leader_id:
            state.lost_connections = 0

    def connection_lost(self, source: int, now: float) -> None:
        """Look for another leader soon when two connections in a row to this one were lost or refused.

        Nothing is concluded from it but that pre-votes may be asked for and granted: a voter that hears from the
        leader refuses its own. Each time that comes to nothing in an epoch the next one waits twice as long.
        """
        state = self._replica.quorum.state
        if isinstance(state, CandidateState):
            # Votes are split, and the leader that has ended gives none: the next election decides.
            state.votes.record_unreachable(source)
            if state.votes.is_rejected:
                self._lost(state, now)
        if not isinstance(state, FollowerState) or source != state.leader_id:
            return
        state.lost_connections += 1
        if state.lost_connections != _LOST_CONNECTIONS:
            return
        epoch, times = self._hastened
        times = times + 1 if epoch == state.epoch else 0
        self._hastened = state.epoch, times
        state.has_fetched = False
        wait = self._random.random() * _HASTE * (1 << min(times, 10))
        state.fetch_deadline = min(state.fetch_deadline, now + wait)

    # -- what all of them begin with ---------------------------------------------------------------------------------

    def _refusal(self, request: VoteRequest | BeginQuorumEpochRequest | EndQuorumEpochRequest) -> int:
        """Return the error of a request for another cluster or another log; 0 for none."""
        if not self._replica.has_cluster_id(request.cluster_id):
            return INCONSISTENT_CLUSTER_ID
        return NONE if is_metadata_topic(request) else INVALID_REQUEST

    def _hear_leader(self, request: BeginQuorumEpochRequest | EndQuorumEpochRequest, now: float) -> int:
        """Take note of who leads, unless that is an error, which is returned."""
        told = request.topics[0].partitions[0]
        error = self._replica.check_voter_only(told.leader_id, told.leader_epoch)
        if not error:
            self._replica.maybe_transition(told.leader_id, told.leader_epoch, _endpoints(request), now)
        return error

    def _handle_common(
        self, response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse, now: float
    ) -> bool | None:
        """Take note of who leads; whether the request was of use, None where that depends on what it was."""
        if response.error_code or not is_metadata_topic(response):
            return False
        found = response.topics[0].partitions[0]
        endpoints = self._replica.leader_endpoints(nodes_of(response), found.leader_id)
        return self._replica.handle_common(found.error_code, found.leader_id, found.leader_epoch, endpoints, now)

    # -- Vote --------------------------------------------------------------------------------------------------------

    def handle_vote(self, request: VoteRequest, listener: str, now: float) -> VoteResponse:
        """Answer a candidate."""
        replica = self._replica
        refusal = self._refusal(request)
        if refusal:
            return VoteResponse(error_code=refusal)
        asked = request.topics[0].partitions[0]
        error = replica.check_voter_only(asked.replica_id, asked.replica_epoch)
        least = asked.last_offset_epoch + (0 if asked.pre_vote else 1)
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.replica_epoch < least:
            error = INVALID_REQUEST
        if error:
            return replica.leadership(listener).vote_response(error, granted=False)
        if asked.replica_epoch > replica.quorum.epoch:
            replica.to_unattached(asked.replica_epoch, now)
        if not replica.is_meant(request.voter_id, asked.voter_directory_id):
            return replica.leadership(listener).vote_response(INVALID_VOTER_KEY, granted=False)
        candidate = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        up_to_date = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch).is_at_least(replica.log_end)
        state = replica.quorum.state
        granted = state.can_grant_vote(candidate, up_to_date=up_to_date, pre_vote=asked.pre_vote)
        if granted and not asked.pre_vote and state.voted_key is None:
            replica.quorum.to_voted(candidate, now)
        return replica.leadership(listener).vote_response(NONE, granted=granted)

    def handle_vote_response(self, response: VoteResponse, source: int, now: float) -> bool:
        """Count a vote; whether the request was of use."""
        replica = self._replica
        if response.error_code == UNSUPPORTED_VERSION and isinstance(replica.quorum.state, ProspectiveState):
            # A voter that knows no pre-vote: it will be asked for its vote.
            return self._count(source, granted=True, now=now)
        handled = self._handle_common(response, now)
        if handled is not None:
            return handled
        found = response.topics[0].partitions[0]
        if found.error_code:
            return False
        return self._count(source, granted=found.vote_granted, now=now)

    def _count(self, source: int, *, granted: bool, now: float) -> bool:
        state = self._replica.quorum.state
        if isinstance(state, ProspectiveState | CandidateState):
            state.votes.record(source, granted=granted)
            if granted:
                self._replica.maybe_elected(now)
            elif state.votes.is_rejected:
                self._lost(state, now)
        return True

    def _lost(self, state: ProspectiveState | CandidateState, now: float) -> None:
        if isinstance(state, ProspectiveState):
            self.give_up(state, now)
        elif state.backoff_deadline is None:
            state.backoff_deadline = now + self.backoff(state.retries)

    def give_up(self, state: ProspectiveState, now: float) -> None:
        """Go back from the pre-vote to what was before: the leader that is known, or none."""
        replica = self._replica
        if state.leader_id is not None and state.leader_endpoints:
            replica.to_follower(state.epoch, state.leader_id, state.leader_endpoints, now)
        else:
            replica.to_unattached(state.epoch, now, state.leader_id)

    def backoff(self, retries: int) -> float:
        """Return how long a candidate waits that has lost, so that others come first."""
        steps = self._random.randrange(2 << min(20, max(retries, 1) - 1))
        return min(_BACKOFF_BASE * steps, self._replica.config.election_backoff_max)

    # -- BeginQuorumEpoch --------------------------------------------------------------------------------------------

    def handle_begin_quorum_epoch(
        self, request: BeginQuorumEpochRequest, listener: str, now: float
    ) -> BeginQuorumEpochResponse:
        """Follow a leader that makes itself known."""
        replica = self._replica
        refusal = self._refusal(request)
        if refusal:
            return BeginQuorumEpochResponse(error_code=refusal)
        told = request.topics[0].partitions[0]
        error = self._hear_leader(request, now)
        if not error and not replica.is_meant(request.voter_id, told.voter_directory_id):
            error = INVALID_VOTER_KEY
        return replica.leadership(listener).begin_quorum_epoch_response(error)

    def handle_begin_quorum_epoch_response(self, response: BeginQuorumEpochResponse, source: int, now: float) -> bool:
        """Take note that a voter knows that this node leads."""
        handled = self._handle_common(response, now)
        if handled is not None:
            return handled
        state, found = self._replica.quorum.state, response.topics[0].partitions[0]
        if isinstance(state, LeaderState) and source in state.voters and not found.error_code:
            state.voters[source].has_acknowledged = True
        return not found.error_code

    # -- EndQuorumEpoch ----------------------------------------------------------------------------------------------

    def handle_end_quorum_epoch(
        self, request: EndQuorumEpochRequest, listener: str, now: float
    ) -> EndQuorumEpochResponse:
        """Look for another leader, the sooner the better this node's log is."""
        replica = self._replica
        refusal = self._refusal(request)
        if refusal:
            return EndQuorumEpochResponse(error_code=refusal)
        told = request.topics[0].partitions[0]
        error = self._hear_leader(request, now)
        state = replica.quorum.state
        if not error and isinstance(state, FollowerState) and state.leader_id == told.leader_id:
            preferred = [ReplicaKey(one.candidate_id, one.candidate_directory_id) for one in told.preferred_candidates]
            preferred = preferred or [ReplicaKey(one) for one in told.preferred_successors]
            state.fetch_deadline = now + self._successor_backoff(preferred)
            # The leader says itself that it is none any more: others may be voted for at once.
            state.has_fetched = False
        return replica.leadership(listener).end_quorum_epoch_response(error)

    def _successor_backoff(self, preferred: list[ReplicaKey]) -> float:
        local, most = self._replica.config.local, self._replica.config.election_backoff_max
        position = next((place for place, key in enumerate(preferred) if key.matches(local)), len(preferred))
        if position == 0 and preferred:
            return 0.0
        if position >= len(preferred):
            return most
        return min(most, most / (1 << (len(preferred) - 1)) * (1 << (position - 1)))

    def handle_end_quorum_epoch_response(self, response: EndQuorumEpochResponse, source: int, now: float) -> bool:
        """Take note that a voter knows that this node leads no more."""
        handled = self._handle_common(response, now)
        if handled is not None:
            return handled
        state, found = self._replica.quorum.state, response.topics[0].partitions[0]
        if isinstance(state, ResignedState) and not found.error_code:
            state.unacknowledged.discard(source)
        return not found.error_code


Elections = (
    VoteRequest
    | VoteResponse
    | BeginQuorumEpochRequest
    | BeginQuorumEpochResponse
    | EndQuorumEpochRequest
    | EndQuorumEpochResponse
)


def is_metadata_topic(message: Elections) -> bool:
    """Say whether a message is of the metadata log, and of nothing else."""
    return (
        len(message.topics) == 1
        and message.topics[0].topic_name == METADATA_TOPIC
        and len(message.topics[0].partitions) == 1
        and message.topics[0].partitions[0].partition_index == PARTITION
    )


def nodes_of(response: VoteResponse | BeginQuorumEpochResponse | EndQuorumEpochResponse) -> list[Node]:
    """Return the nodes whose endpoints a response tells."""
    return [Node(found.node_id, found.host, found.port) for found in response.node_endpoints]


def _endpoints(request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> Endpoints:
    return tuple(sorted(Endpoint(found.name, found.host, found.port) for found in request.leader_endpoints))
