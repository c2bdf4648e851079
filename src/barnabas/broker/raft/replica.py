"""What all parts of the quorum's state machine share: the log, the state, connections, what is to be sent.

The parts above it (`voting`, `fetch_server`, `follower_fetcher`, `voter_changes`) each treat some requests and
responses; `KafkaRaftClient` puts them together. Requests and responses go out as values, by `take_outbound`.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.raft.batch_accumulator import BatchAccumulator
from barnabas.broker.raft.control_record_state_machine import PartitionState
from barnabas.broker.raft.disk_work import DiskWork
from barnabas.broker.raft.election_times import ElectionTimes
from barnabas.broker.raft.epoch_states import FollowerState, ProspectiveState
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.quorum_state import QuorumState
from barnabas.broker.raft.raft_counts import RaftCounts
from barnabas.broker.raft.raft_messages import FetchRequest, FetchSnapshotRequest, Leadership
from barnabas.broker.raft.request_manager import RequestManager
from barnabas.broker.raft.voter_set import Endpoint, endpoint_of
from barnabas.errors import IllegalStateError
from barnabas.network.node import Node
from barnabas.protocol.messages.k_raft_version_record import KRaftVersionRecord
from barnabas.protocol.messages.leader_change_message import LeaderChangeMessage
from barnabas.protocol.messages.leader_change_message import Voter as ChangedVoter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from barnabas.broker.raft.election_state import QuorumStateStore
    from barnabas.broker.raft.raft_config import RaftConfig
    from barnabas.broker.raft.replica_key import ReplicaKey
    from barnabas.broker.raft.replicated_log import ReplicatedLog
    from barnabas.broker.raft.voter_set import Endpoints
    from barnabas.protocol.message import Message

NONE = 0
INVALID_REQUEST = errors.InvalidRequestError.code
FENCED_LEADER_EPOCH = errors.FencedLeaderEpochError.code
UNKNOWN_LEADER_EPOCH = errors.UnknownLeaderEpochError.code
NOT_LEADER_OR_FOLLOWER = errors.NotLeaderOrFollowerError.code
BROKER_NOT_AVAILABLE = errors.BrokerNotAvailableError.code
INCONSISTENT_CLUSTER_ID = errors.InconsistentClusterIdError.code
INVALID_VOTER_KEY = errors.InvalidVoterKeyError.code


class OutboundRequest(NamedTuple):
    """A request to another node."""

    correlation_id: int
    destination: Node
    message: Message


class OutboundResponse(NamedTuple):
    """The answer to a request that came in."""

    request_id: int
    message: Message


class InboundRequest(NamedTuple):
    """A request of another node or of a client, and the listener it came by."""

    request_id: int
    message: Message
    listener_name: str


class Replica:
    """This node's share of the quorum."""

    __slots__ = (
        "_correlation_id",
        "_last_fetch",
        "_outbound",
        "config",
        "connections",
        "counts",
        "disk",
        "elections",
        "is_shutting_down",
        "log",
        "on_high_watermark",
        "partition_state",
        "quorum",
    )

    def __init__(self, config: RaftConfig, log: ReplicatedLog, store: QuorumStateStore, random: Random) -> None:
        self.config = config
        self.log = log
        self.partition_state = PartitionState(log, config.static_voters)
        self.disk = DiskWork()
        self.quorum = QuorumState(config, self.partition_state, store, self.disk, random)
        bootstrap = config.bootstrap or tuple(
            Node(-2 - position, found.host, found.port)
            for position, found in enumerate(
                endpoint for node in config.static_voters for endpoint in node.endpoints[:1]
            )
        )
        self.connections = RequestManager(bootstrap, config.retry_backoff, config.request_timeout, random)
        self.elections = ElectionTimes()
        self.counts = RaftCounts()
        self.is_shutting_down = False
        self.on_high_watermark: Callable[[LeaderState], None] = lambda _state: None
        self._outbound: list[OutboundRequest | OutboundResponse] = []
        self._correlation_id = self._last_fetch = 0

    # -- what goes out and comes in ----------------------------------------------------------------------------------

    def respond(self, request_id: int, message: Message) -> None:
        """Answer a request."""
        self._outbound.append(OutboundResponse(request_id, message))

    def take_outbound(self) -> list[OutboundRequest | OutboundResponse]:
        """Return what is to be sent, in order; nothing while the disk lacks what this rests on."""
        if self.disk.is_busy:
            return []
        outbound, self._outbound = self._outbound, []
        return outbound

    def send(self, destination: Node, message: Callable[[], Message], now: float) -> float:
        """Send a request if none is in flight to the node; when to look again."""
        if self.connections.is_ready(destination.id, now):
            self._correlation_id += 1
            self.connections.sent(destination.id, self._correlation_id, now)
            request = message()
            if isinstance(request, FetchRequest | FetchSnapshotRequest):
                self._last_fetch = self._correlation_id
            self._outbound.append(OutboundRequest(self._correlation_id, destination, request))
        return self.connections.ready_at(destination.id)

    def is_last_fetch(self, correlation_id: int) -> bool:
        """Say whether a fetch is the last one: the log is as it was then only if no other has been sent since."""
        return self._last_fetch == correlation_id

    def send_to_voters(
        self, voters: Sequence[ReplicaKey], message: Callable[[ReplicaKey], Message], now: float
    ) -> float:
        """Send a request to each of some voters; when to look again."""
        wake = inf
        for voter in voters:
            address = self.partition_state.last_voter_set.address(voter.id, self.config.listener_name)
            if address is not None:
                wake = min(wake, self.send(address, lambda voter=voter: message(voter), now))  # type: ignore[misc]
        return wake

    def other_voters(self) -> list[Node]:
        """Return where the other voters are reached, as far as this replica's log says."""
        voters, name = self.partition_state.last_voter_set, self.config.listener_name
        found = (voters.address(id, name) for id in voters.ids if id != self.config.node_id)
        return [node for node in found if node is not None]

    # -- what is -----------------------------------------------------------------------------------------------------

    @property
    def log_end(self) -> OffsetAndEpoch:
        """Where this replica's log ends."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_fetched_epoch)

    def leadership(self, listener: str) -> Leadership:
        """Return who leads, for a response on a listener."""
        state = self.quorum.state
        return Leadership(state.leader_id, state.epoch, state.leader_endpoints, listener)

    def has_cluster_id(self, cluster_id: str | None) -> bool:
        """Say whether a request is meant for this cluster; one that does not say is."""
        return cluster_id is None or cluster_id == self.config.cluster_id

    def leader_node(self, state: FollowerState) -> Node | None:
        """Return where the leader is reached."""
        found = endpoint_of(state.leader_endpoints, self.config.listener_name)
        return None if found is None else Node(state.leader_id, found.host, found.port)

    def check_leader_only(self, epoch: int) -> int:
        """Return the error of a request for the leader of an epoch, 0 if this is it."""
        quorum = self.quorum
        if epoch < quorum.epoch:
            return FENCED_LEADER_EPOCH
        if epoch > quorum.epoch:
            return UNKNOWN_LEADER_EPOCH
        if not quorum.is_leader:
            return NOT_LEADER_OR_FOLLOWER
        return BROKER_NOT_AVAILABLE if self.is_shutting_down else NONE

    def check_voter_only(self, node_id: int, epoch: int) -> int:
        """Return the error of a request that another voter makes in an epoch."""
        if epoch < self.quorum.epoch:
            return FENCED_LEADER_EPOCH
        return INVALID_REQUEST if node_id < 0 else NONE

    def is_meant(self, voter_id: int, directory_id: bytes) -> bool:
        """Say whether a request is meant for this replica, if it says for whom."""
        from barnabas.protocol.message import ZERO_UUID

        if voter_id < 0:
            return True
        return voter_id == self.config.node_id and directory_id in (ZERO_UUID, self.config.directory_id)

    # -- transitions -------------------------------------------------------------------------------------------------

    def to_unattached(self, epoch: int, now: float, leader_id: int | None = None) -> None:
        """See `QuorumState.to_unattached`."""
        self.quorum.to_unattached(epoch, now, leader_id)
        self.connections.reset_all()

    def to_follower(self, epoch: int, leader_id: int, endpoints: Endpoints, now: float) -> None:
        """See `QuorumState.to_follower`."""
        self._drop_fetching_snapshot()
        self.quorum.to_follower(epoch, leader_id, endpoints, now)
        self.elections.end(now)
        self.connections.reset_all()

    def to_prospective(self, now: float) -> None:
        """See `QuorumState.to_prospective`; who is alone needs not ask."""
        self._drop_fetching_snapshot()
        self.quorum.to_prospective(now)
        self.elections.begin(now)
        self.connections.reset_all()
        self.maybe_elected(now)

    def maybe_elected(self, now: float) -> None:
        """Go on to the vote after the pre-vote, and to lead after the vote."""
        state = self.quorum.state
        if isinstance(state, ProspectiveState) and state.votes.is_granted:
            self.quorum.to_candidate(now)
            self.connections.reset_all()
            state = self.quorum.state
        if state.name == "Candidate" and state.votes.is_granted:  # type: ignore[union-attr]
            self._to_leader(now)

    def _to_leader(self, now: float) -> None:
        accumulator = BatchAccumulator(self.quorum.epoch, self.log.end_offset, self.config.append_linger)
        state = self.quorum.to_leader(accumulator, now)
        self.elections.end(now)
        accumulator.append_control(self._start_of_epoch(state), now)
        self.connections.reset_all()

    def _start_of_epoch(self, state: LeaderState) -> list[Message]:
        """Return the records that begin an epoch; nothing earlier is committed without one of them."""
        kraft_version = self.partition_state.kraft_version
        # Without directories at every level: Apache Kafka 4.3 reads no other version, and nothing asks for them.
        messages: list[Message] = [
            LeaderChangeMessage(
                leader_id=state.leader_id,
                voters=[ChangedVoter(voter) for voter in state.voters],
                granting_voters=[ChangedVoter(key.id) for key in state.granting_voters],
            )
        ]
        entry = self.partition_state.last_voter_set_entry
        if kraft_version:
            if entry is None:
                raise IllegalStateError(f"kraft.version is {kraft_version}, and nothing in the log names the voters")
            local = self.config.local_node
            if entry.offset < 0 or entry.value.needs_update(local):
                voters = entry.value.update(local)
                assert voters is not None
                messages += [KRaftVersionRecord(0, kraft_version), voters.to_record()]
        return messages

    def to_resigned(self, now: float) -> None:
        """See `QuorumState.to_resigned`."""
        state = self.quorum.state
        assert isinstance(state, LeaderState)
        self.quorum.to_resigned(state.voters_by_offset(), now)
        self.connections.reset_all()

    def _drop_fetching_snapshot(self) -> None:
        state = self.quorum.state
        if isinstance(state, FollowerState) and state.fetching_snapshot is not None:
            state.fetching_snapshot.close()

    def maybe_transition(self, leader_id: int | None, epoch: int, endpoints: Endpoints, now: float) -> None:
        """Follow what a message says of who leads; `endpoints` of the leader, those of the voters if empty.

        Raises `IllegalStateError` for two leaders in one epoch: then the log can be trusted no more.
        """
        quorum = self.quorum
        self._check_one_leader(leader_id, epoch)
        if leader_id is not None and not endpoints:
            endpoints = self.partition_state.last_voter_set.endpoints(leader_id)
        if epoch > quorum.epoch:
            if leader_id is not None and endpoints:
                self.to_follower(epoch, leader_id, endpoints, now)
            else:
                self.to_unattached(epoch, now, leader_id)
        elif epoch == quorum.epoch and leader_id is not None and leader_id != self.config.node_id and endpoints:
            state = quorum.state
            if not isinstance(state, FollowerState) or len(endpoints) > len(state.leader_endpoints):
                self.to_follower(epoch, leader_id, endpoints, now)

    def _check_one_leader(self, leader_id: int | None, epoch: int) -> None:
        quorum, known = self.quorum, self.quorum.leader_id
        if leader_id is None or epoch != quorum.epoch:
            if leader_id == self.config.node_id and epoch > quorum.epoch:
                raise IllegalStateError(
                    f"node {leader_id} is said to lead epoch {epoch}, of which it knows nothing (its own is "
                    f"{quorum.epoch}): its quorum-state was lost, or another process uses its id"
                )
            return
        if (known is not None and known != leader_id) or (known is None and leader_id == self.config.node_id):
            raise IllegalStateError(
                f"node {leader_id} is said to lead epoch {epoch}, in which node {known} leads as far as this node knows"
            )

    def handle_common(self, error: int, leader_id: int, epoch: int, endpoints: Endpoints, now: float) -> bool | None:
        """Treat what all responses tell: an earlier epoch, a later one, the leader.

        True if nothing is left to treat, False for a failure, None if the response itself has to be treated.
        """
        leader = None if leader_id < 0 else leader_id
        if epoch < self.quorum.epoch or error == UNKNOWN_LEADER_EPOCH:
            return True
        if epoch > self.quorum.epoch or error in (FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER):
            self.maybe_transition(leader, epoch, endpoints, now)
            return True
        if leader is not None and self.quorum.leader_id is None:
            self.maybe_transition(leader, epoch, endpoints, now)
            return None if error == NONE else True
        if error == BROKER_NOT_AVAILABLE:
            return False
        return True if error == INVALID_VOTER_KEY else None

    def leader_endpoints(self, nodes: Sequence[Node], leader_id: int) -> Endpoints:
        """Return the leader's endpoint as a response tells it."""
        return tuple(
            Endpoint(self.config.listener_name, node.host, node.port) for node in nodes if node.id == leader_id
        )

    # -- the log -----------------------------------------------------------------------------------------------------

    def append_as_leader(self, state: LeaderState, now: float, now_ms: int) -> None:
        """Append what has been gathered; others may fetch it, and this node's copy counts once it is on the disk."""
        records = state.accumulator.drain(now_ms)
        if records:
            before = self.log.end_offset
            self.log.append(records, state.epoch, now_ms)
            self.counts.append(self.log.end_offset, self.log.end_offset - before, now)
            self.partition_state.update()
            self._update_leader_end(state)
            self.flush()

    @property
    def is_log_on_disk(self) -> bool:
        """Whether a fetch may say that all of this log is on the disk, for who votes or may be counted a voter."""
        if not self.config.can_become_voter and not self.quorum.is_voter:
            return True
        return not self.disk.is_flushing and self.log.flushed_offset >= self.log.end_offset

    def flush(self) -> None:
        """Begin to bring to the disk what it lacks, unless a flush is in flight: another follows it."""
        if not self.disk.is_flushing and not self.is_log_on_disk:
            self.disk.flush(self.log.flush(), self._flushed)

    def _flushed(self) -> None:
        if isinstance(self.quorum.state, LeaderState):
            self._update_leader_end(self.quorum.state)

    def _update_leader_end(self, state: LeaderState) -> None:
        """Count what of this node's copy is on the disk, and commit what a majority has."""
        if state.update_local(self.log.end_offset, self.log.flushed_offset, self.partition_state.last_voter_set):
            self.committed(state)

    def committed(self, state: LeaderState) -> None:
        """Take note that the leader has committed more."""
        if state.high_watermark is not None:
            self.log.update_high_watermark(state.high_watermark)
            self.on_high_watermark(state)
