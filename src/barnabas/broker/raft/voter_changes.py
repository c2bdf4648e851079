"""Voters that come, go, and change their endpoints, one at a time (KIP-853, 1186)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.raft.epoch_states import FollowerState
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.replica import INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, NONE
from barnabas.broker.raft.replica_key import ReplicaKey
from barnabas.broker.raft.voter_set import Endpoint, Endpoints, VoterNode, VoterSet, endpoint_of
from barnabas.network.client_request import SOFTWARE_NAME
from barnabas.network.node import Node
from barnabas.protocol.message import ZERO_UUID
from barnabas.protocol.messages.add_raft_voter_response import AddRaftVoterResponse
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.remove_raft_voter_response import RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter_response import CurrentLeader, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from barnabas.broker.raft.replica import Replica
    from barnabas.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
    from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
    from barnabas.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
    from barnabas.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest

REQUEST_TIMED_OUT = errors.KafkaTimeoutError.code
UNSUPPORTED_VERSION = errors.UnsupportedVersionError.code
DUPLICATE_VOTER = errors.DuplicateVoterError.code
VOTER_NOT_FOUND = errors.VoterNotFoundError.code
NOT_LEADER_OR_FOLLOWER = errors.NotLeaderOrFollowerError.code
KRAFT_VERSION_FEATURE = "kraft.version"


@dataclass(slots=True)
class _Change:
    """A change that has not ended: first the new voter is asked what it supports, then the record is committed."""

    request_id: int
    response: type[AddRaftVoterResponse | RemoveRaftVoterResponse]
    epoch: int
    deadline: float
    added: VoterNode | None = None
    ack_when_committed: bool = True
    offset: int | None = None


class VoterChanges:
    """Writes the records of the voters; none before the one before it is committed."""

    __slots__ = ("_pending", "_replica")

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._pending: _Change | None = None

    @property
    def deadline(self) -> float:
        """When the change that is going on expires."""
        return inf if self._pending is None else self._pending.deadline

    # -- requests ----------------------------------------------------------------------------------------------------

    def handle_add(self, request_id: int, request: AddRaftVoterRequest, now: float) -> None:
        """Begin to add a voter."""
        replica = self._replica
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = tuple(sorted(Endpoint(found.name, found.host, found.port) for found in request.listeners))
        error, text = self._check(request.cluster_id, key, replica.quorum.epoch, now)
        endpoint = endpoint_of(endpoints, replica.config.listener_name)
        if not error and endpoint is None:
            error = INVALID_REQUEST
            text = f"the request names no endpoint of the listener {replica.config.listener_name}"
        if not error and replica.partition_state.last_voter_set.get(key.id) is not None:
            error, text = DUPLICATE_VOTER, f"node {key.id} is a voter already"
        if not error and (endpoint is None or not replica.connections.is_ready(key.id, now)):
            error, text = REQUEST_TIMED_OUT, f"node {key.id} cannot be asked at present which versions it supports"
        if error or endpoint is None:
            replica.respond(request_id, AddRaftVoterResponse(error_code=error, error_message=text))
            return
        self._pending = _Change(
            request_id,
            AddRaftVoterResponse,
            replica.quorum.epoch,
            now + replica.config.request_timeout,
            added=VoterNode(key, endpoints),
            ack_when_committed=request.ack_when_committed,
        )
        replica.send(Node(key.id, endpoint.host, endpoint.port), _ask_versions, now)

    def handle_remove(self, request_id: int, request: RemoveRaftVoterRequest, now: float) -> None:
        """Begin to remove a voter."""
        replica = self._replica
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        error, text = self._check(request.cluster_id, key, replica.quorum.epoch, now)
        voters = None
        if not error:
            voters = replica.partition_state.last_voter_set.remove(key)
            if voters is None:
                error, text = VOTER_NOT_FOUND, f"node {key.id} with this directory is no voter, or the only one"
        if error or voters is None:
            replica.respond(request_id, RemoveRaftVoterResponse(error_code=error, error_message=text))
            return
        deadline = now + replica.config.request_timeout
        self._pending = _Change(request_id, RemoveRaftVoterResponse, replica.quorum.epoch, deadline)
        self._pending.offset = self._write(voters, now)

    def handle_update(self, request_id: int, request: UpdateRaftVoterRequest, listener: str, now: float) -> None:
        """Take over what a voter says of itself."""
        replica = self._replica
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints: Endpoints = tuple(sorted(Endpoint(one.name, one.host, one.port) for one in request.listeners))
        feature = request.k_raft_version_feature
        node = VoterNode(key, endpoints, feature.min_supported_version, feature.max_supported_version)
        error, _ = self._check(request.cluster_id, key, request.current_leader_epoch, now, is_update=True)
        supports = node.min_version <= replica.partition_state.kraft_version <= node.max_version
        if not error and (not supports or endpoint_of(endpoints, replica.config.listener_name) is None):
            error = INVALID_REQUEST
        if not error:
            error = self._update(node, now)
        leader = replica.leadership(listener)
        current = CurrentLeader(leader.leader_id, leader.epoch)
        if leader.endpoint is not None:
            current.host, current.port = leader.endpoint.host, leader.endpoint.port
        replica.respond(request_id, UpdateRaftVoterResponse(error_code=error, current_leader=current))

    def _update(self, node: VoterNode, now: float) -> int:
        """Write what a voter says of itself, or keep it in memory where no record can hold it; the error."""
        replica = self._replica
        state = replica.quorum.state
        assert isinstance(state, LeaderState)
        if replica.partition_state.is_reconfig_supported:
            voters = replica.partition_state.last_voter_set.update(node)
            if voters is not None:
                self._write(voters, now)
            return VOTER_NOT_FOUND if voters is None else NONE
        if state.voters_in_memory is None:
            return REQUEST_TIMED_OUT  # the records of level 1 are on their way
        voters = state.voters_in_memory.update_regardless_of_directory(node)
        if voters is None:
            return VOTER_NOT_FOUND
        state.voters_in_memory = voters
        return NONE

    def handle_update_response(self, response: UpdateRaftVoterResponse) -> bool:
        """Take note that the leader knows this voter; whether the request was of use. Others are asked again."""
        state = self._replica.quorum.state
        if isinstance(state, FollowerState) and response.error_code in (NONE, UNSUPPORTED_VERSION):
            # Releases before 4.1 keep nothing at level 0.
            state.has_updated_leader = True
        return True

    def _check(
        self, cluster_id: str | None, key: ReplicaKey, epoch: int, now: float, *, is_update: bool = False
    ) -> tuple[int, str]:
        """Return why a change cannot begin: error and text."""
        replica = self._replica
        if not replica.has_cluster_id(cluster_id):
            return INCONSISTENT_CLUSTER_ID, f"this is the cluster {replica.config.cluster_id}, not {cluster_id}"
        error = replica.check_leader_only(epoch)
        if error:
            return error, ""
        if key.id < 0 or key.directory_id == ZERO_UUID:
            return INVALID_REQUEST, "the request names no voter with its directory"
        self.expire(now)
        state, entry = replica.quorum.state, replica.partition_state.last_voter_set_entry
        assert isinstance(state, LeaderState)
        if self._pending is not None:
            return REQUEST_TIMED_OUT, "another change of the voters is going on"
        if state.high_watermark is None:
            return REQUEST_TIMED_OUT, "this leader does not know yet what is committed"
        if not replica.partition_state.is_reconfig_supported:
            if is_update:
                return NONE, ""
            return UNSUPPORTED_VERSION, "voters can change from kraft.version 1 on; the cluster has 0"
        if entry is None or entry.offset >= state.high_watermark:
            return REQUEST_TIMED_OUT, "the change of the voters before this is not committed yet"
        return NONE, ""

    def _write(self, voters: VoterSet, now: float) -> int:
        state = self._replica.quorum.state
        assert isinstance(state, LeaderState)
        return state.accumulator.append_control([voters.to_record()], now)

    # -- what becomes of them ----------------------------------------------------------------------------------------

    def handle_api_versions_response(self, response: ApiVersionsResponse, source: int, now: float) -> bool:
        """Add the voter if it knows the cluster's `kraft.version` and has the log; whether the request was of use."""
        change, state = self._pending, self._replica.quorum.state
        if not isinstance(state, LeaderState) or change is None or change.offset is not None:
            return True
        node = change.added
        if node is None or node.key.id != source:
            return True
        if response.error_code:
            self._end(REQUEST_TIMED_OUT, f"node {source} answers ApiVersions with error {response.error_code}")
            return False
        version = self._replica.partition_state.kraft_version
        found = next((one for one in response.supported_features if one.name == KRAFT_VERSION_FEATURE), None)
        if found is None or not found.min_version <= version <= found.max_version:
            self._end(INVALID_REQUEST, f"node {source} does not support kraft.version {version}")
        elif not state.is_caught_up(node.key, now):
            self._end(REQUEST_TIMED_OUT, f"node {source} has not fetched all of the metadata log yet: try again")
        else:
            node = node._replace(min_version=found.min_version, max_version=found.max_version)
            voters = self._replica.partition_state.last_voter_set.add(node)
            if voters is None:
                self._end(DUPLICATE_VOTER, f"node {source} is a voter already")
                return True
            change.offset = self._write(voters, now)
            if not change.ack_when_committed:
                self._answer(change, NONE, None)
        return True

    def high_watermark_updated(self, state: LeaderState) -> None:
        """End the change that is committed now; a leader that votes no more resigns."""
        change = self._pending
        high_watermark = state.high_watermark or 0
        if change is not None and change.offset is not None and high_watermark > change.offset:
            self._end(NONE, None)
        entry = self._replica.partition_state.last_voter_set_entry
        if entry is not None and high_watermark > entry.offset and not entry.value.is_voter(state.local):
            state.is_resign_requested = True

    def expire(self, now: float) -> None:
        """End the change that has taken too long; its record stays, and may still be committed."""
        if self._pending is not None and now >= self._pending.deadline:
            self._end(REQUEST_TIMED_OUT, "the change was not committed in time; it may still be")

    def settle(self) -> None:
        """End the change when this node leads no more."""
        change = self._pending
        if change is not None and (not self._replica.quorum.is_leader or change.epoch != self._replica.quorum.epoch):
            self._end(NOT_LEADER_OR_FOLLOWER, "this node leads the quorum no more; the change may still be committed")

    def _end(self, error: int, text: str | None) -> None:
        change, self._pending = self._pending, None
        if change is not None:
            self._answer(change, error, text)

    def _answer(self, change: _Change, error: int, text: str | None) -> None:
        if change.request_id >= 0:
            self._replica.respond(change.request_id, change.response(error_code=error, error_message=text))
            change.request_id = -1


def _ask_versions() -> ApiVersionsRequest:
    """Return the question which versions a node supports; one that names no software is refused (KIP-511)."""
    from barnabas import __version__

    return ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
