"""A node of the quorum, as a state machine (KafkaRaftClient; KIP-595, 630, 853, 996).

Requests and responses come in by `handle_request` and `handle_response`, time by `poll`; what is to be sent goes out by
`take_outbound`, after each of the three. Listeners are called at the end of `poll` only.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, cast

from barnabas.broker.metadata.metadata_records import encode_record
from barnabas.broker.raft import raft_messages as messages
from barnabas.broker.raft.epoch_states import (
    CandidateState,
    FollowerState,
    ProspectiveState,
    ResignedState,
    UnattachedState,
)
from barnabas.broker.raft.errors import NotLeaderError
from barnabas.broker.raft.fetch_server import FetchServer
from barnabas.broker.raft.follower_fetcher import LogFetcher
from barnabas.broker.raft.kraft_version_upgrade import upgrade_kraft_version
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.listener_context import ListenerContext
from barnabas.broker.raft.replica import Replica
from barnabas.broker.raft.replicated_log import validate_offset_and_epoch
from barnabas.broker.raft.snapshots import RecordsSnapshotWriter
from barnabas.broker.raft.voter_changes import VoterChanges
from barnabas.broker.raft.voting import Voting
from barnabas.errors import UnsupportedVersionError
from barnabas.protocol.messages.add_raft_voter_request import AddRaftVoterRequest
from barnabas.protocol.messages.api_versions_response import ApiVersionsResponse
from barnabas.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from barnabas.protocol.messages.remove_raft_voter_request import RemoveRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter_request import UpdateRaftVoterRequest
from barnabas.protocol.messages.update_raft_voter_response import UpdateRaftVoterResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion
    from barnabas.broker.raft.election_state import QuorumStateStore
    from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch, OffsetAndEpoch
    from barnabas.broker.raft.raft_client import Listener, SnapshotWriter
    from barnabas.broker.raft.raft_config import RaftConfig
    from barnabas.broker.raft.replica import InboundRequest, OutboundRequest, OutboundResponse
    from barnabas.broker.raft.replicated_log import ReplicatedLog
    from barnabas.protocol.message import Message

_CLEANING_INTERVAL = 60.0


class KafkaRaftClient:
    """One voter or observer; a `RaftClient`.

    Every exception, but where a caller of the port errs, ends this node: its log can be trusted no more.
    """

    def __init__(self, config: RaftConfig, log: ReplicatedLog, store: QuorumStateStore, random: Random) -> None:
        self.replica = Replica(config, log, store, random)
        self._config = config
        self._voting = Voting(self.replica, random)
        self._server = FetchServer(self.replica)
        self._fetcher = LogFetcher(self.replica)
        self._changes = VoterChanges(self.replica)
        self.replica.on_high_watermark = self._changes.high_watermark_updated
        self._listeners: list[ListenerContext] = []
        self._now = 0.0
        self._cleaning_at = -inf
        self._shutdown_at: float | None = None
        #: What came while the disk was busy, in order.
        self._deferred: deque[Callable[[Instant], None]] = deque()
        #: True when `shutdown` is through: another leader is known, or the time is up.
        self.is_shut_down = False

    def initialize(self, now: Instant) -> None:
        """Read the log and what this node has promised. Raises `KafkaStorageError`, `CorruptRecordError`."""
        replica = self.replica
        self._now = now.now
        replica.partition_state.update()
        replica.quorum.initialize(replica.log_end, now.now)
        if replica.quorum.is_only_voter:
            if isinstance(replica.quorum.state, ResignedState):
                replica.to_unattached(replica.quorum.epoch + 1, now.now)
            replica.to_prospective(now.now)

    # -- the port ----------------------------------------------------------------------------------------------------

    @property
    def node_id(self) -> int:
        """See `RaftClient`."""
        return self._config.node_id

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """See `RaftClient`."""
        return self.replica.quorum.leader_and_epoch

    @property
    def high_watermark(self) -> int | None:
        """See `RaftClient`."""
        return self.replica.quorum.state.high_watermark

    @property
    def log_end_offset(self) -> int:
        """See `RaftClient`."""
        return self.replica.log.end_offset

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """See `RaftClient`."""
        return self.replica.log.latest_snapshot_id

    def register(self, listener: Listener) -> None:
        """See `RaftClient`."""
        self._listeners.append(ListenerContext(listener))

    def unregister(self, listener: Listener) -> None:
        """See `RaftClient`."""
        self._listeners = [context for context in self._listeners if context.listener is not listener]

    def prepare_append(self, epoch: int, records: Sequence[ApiMessageAndVersion]) -> int:
        """See `RaftClient`."""
        return self.prepare_values(epoch, [encode_record(message, version) for message, version in records])

    def prepare_values(self, epoch: int, values: Sequence[bytes]) -> int:
        """Do as `prepare_append` with records that are encoded already."""
        return self._leader().accumulator.append(epoch, values, self._now)

    def upgrade_kraft_version(self, epoch: int, level: int, *, validate_only: bool) -> None:
        """See `RaftClient`."""
        state, partition = self._leader(), self.replica.partition_state
        if state.epoch != epoch:
            raise NotLeaderError(f"node {self.node_id} leads in epoch {state.epoch}, not in {epoch}")
        upgrade_kraft_version(state, partition, level, self._now, validate_only=validate_only)

    def schedule_prepared_append(self) -> None:
        """See `RaftClient`."""
        self._leader().accumulator.schedule()

    def _leader(self) -> LeaderState:
        state = self.replica.quorum.state
        if not isinstance(state, LeaderState):
            raise NotLeaderError(
                f"node {self.node_id} does not lead the quorum; it is {state.name} in epoch {state.epoch}"
            )
        return state

    def resign(self, epoch: int) -> None:
        """See `RaftClient`."""
        state = self.replica.quorum.state
        if epoch < 0 or epoch > state.epoch or (epoch == state.epoch and state.leader_id != self.node_id):
            raise ValueError(
                f"node {self.node_id} cannot resign from epoch {epoch}: it is {state.name} in epoch {state.epoch}"
            )
        if epoch == state.epoch and isinstance(state, LeaderState):
            state.is_resign_requested = True

    def create_snapshot(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp: int) -> SnapshotWriter | None:
        """See `RaftClient`."""
        replica = self.replica
        log = replica.log
        if snapshot_id.offset > log.high_watermark:
            raise ValueError(f"there can be no snapshot at {snapshot_id}: the log is committed to {log.high_watermark}")
        if snapshot_id.offset < log.start_offset:
            return None
        if not validate_offset_and_epoch(log, *snapshot_id).is_valid:
            raise ValueError(f"there can be no snapshot at {snapshot_id}: the log has another epoch there")
        raw = log.create_snapshot(snapshot_id)
        if raw is None:
            return None
        at = snapshot_id.offset - 1
        return RecordsSnapshotWriter(
            raw,
            last_contained_log_timestamp,
            replica.partition_state.kraft_version_at(at),
            replica.partition_state.voter_set_at(at),
            lambda found: replica.partition_state.truncate_old(found.offset),
        )

    def shutdown(self, timeout: float) -> None:
        """Resign, so that another leader is found at once; `is_shut_down` tells when that is done."""
        self._shutdown_at = self._now + timeout
        self.replica.is_shutting_down = True

    # -- messages ----------------------------------------------------------------------------------------------------

    def take_outbound(self) -> list[OutboundRequest | OutboundResponse]:
        """Return what is to be sent, in order."""
        return self.replica.take_outbound()

    def handle_request(self, request: InboundRequest, now: Instant) -> None:
        """Treat a request; its response goes out now or later."""
        self._now = now.now
        if self.replica.disk.is_busy:
            self._deferred.append(lambda later: self.handle_request(request, later))
            return
        request_id, message, listener = request
        respond = self.replica.respond
        match message:
            case messages.VoteRequest():
                respond(request_id, self._voting.handle_vote(message, listener, now.now))
            case messages.BeginQuorumEpochRequest():
                respond(request_id, self._voting.handle_begin_quorum_epoch(message, listener, now.now))
            case messages.EndQuorumEpochRequest():
                respond(request_id, self._voting.handle_end_quorum_epoch(message, listener, now.now))
            case messages.FetchRequest():
                self._server.handle_fetch(request_id, message, listener, now)
            case messages.FetchSnapshotRequest():
                respond(request_id, self._server.handle_fetch_snapshot(message, listener, now.now))
            case DescribeQuorumRequest():
                respond(request_id, self._server.handle_describe_quorum(message, now))
            case AddRaftVoterRequest():
                self._changes.handle_add(request_id, message, now.now)
            case RemoveRaftVoterRequest():
                self._changes.handle_remove(request_id, message, now.now)
            case UpdateRaftVoterRequest():
                self._changes.handle_update(request_id, message, listener, now.now)
            case _:
                raise UnsupportedVersionError(f"{type(message).__name__} is not for the quorum")
        self._settle(now)

    def handle_response(self, source: int, correlation_id: int, message: Message | None, now: Instant) -> None:
        """Treat a response, or that there will be none (None); one that is not waited for any more is ignored."""
        self._now = now.now
        if self.replica.disk.is_busy:
            self._deferred.append(lambda later: self.handle_response(source, correlation_id, message, later))
            return
        if not self.replica.connections.is_expected(source, correlation_id):
            return
        if message is None:
            self._voting.connection_lost(source, now.now)
        else:
            self._voting.answered(source)
        if isinstance(message, messages.FetchResponse | messages.FetchSnapshotResponse):
            # To a node that is also a bootstrap server there may be two: one that timed out, and its successor.
            success = not self.replica.is_last_fetch(correlation_id) or self._handle_response(source, message, now)
        else:
            success = message is not None and self._handle_response(source, message, now)
        self.replica.connections.finished(source, correlation_id, success=success, now=now.now)
        self._settle(now)

    def _handle_response(self, source: int, message: Message, now: Instant) -> bool:
        match message:
            case messages.FetchResponse():
                return self._fetcher.handle_fetch_response(message, now)
            case messages.FetchSnapshotResponse():
                return self._fetcher.handle_fetch_snapshot_response(message, now)
            case messages.VoteResponse():
                return self._voting.handle_vote_response(message, source, now.now)
            case messages.BeginQuorumEpochResponse():
                return self._voting.handle_begin_quorum_epoch_response(message, source, now.now)
            case messages.EndQuorumEpochResponse():
                return self._voting.handle_end_quorum_epoch_response(message, source, now.now)
            case ApiVersionsResponse():
                return self._changes.handle_api_versions_response(message, source, now.now)
            case UpdateRaftVoterResponse():
                return self._changes.handle_update_response(message)
            case _:
                # Of AddRaftVoter, RemoveRaftVoter: asked again in a while if it was refused.
                return True

    def _settle(self, now: Instant) -> None:
        self._changes.settle()
        self._server.settle(now)

    # -- time --------------------------------------------------------------------------------------------------------

    def poll(self, now: Instant) -> float:
        """Do what is due, call the listeners, and return when there is more to do, by the monotonic clock."""
        self._now = now.now
        disk = self.replica.disk
        while self._deferred and not disk.is_busy:
            self._deferred.popleft()(now)
        is_shut_down = self._complete_shutdown(now.now)
        if disk.is_busy:
            return inf if is_shut_down or self._shutdown_at is None else self._shutdown_at
        if is_shut_down:
            self._settle(now)
            return inf
        self.replica.flush()
        wake = self._poll_state(now)
        if now.now >= self._cleaning_at:
            self._cleaning_at = now.now + _CLEANING_INTERVAL
            self.replica.log.clean(now.now_ms)
        self._settle(now)
        for context in list(self._listeners):
            context.advance(self.replica)
        state = self.replica.quorum.state
        self.replica.counts.commit(state.high_watermark if isinstance(state, LeaderState) else None, now.now)
        if isinstance(state, LeaderState):
            wake = min(wake, now.now if state.is_resign_requested else state.accumulator.deadline)
        return min(wake, self._cleaning_at, self._server.deadline, self._changes.deadline)

    def _complete_shutdown(self, now: float) -> bool:
        if self._shutdown_at is None:
            return False
        quorum = self.replica.quorum
        if not self.is_shut_down and (
            now >= self._shutdown_at or not quorum.is_voter or quorum.is_only_voter or quorum.has_remote_leader
        ):
            self.is_shut_down = True
            for context in self._listeners:
                context.listener.begin_shutdown()
        return self.is_shut_down

    def _poll_state(self, now: Instant) -> float:
        state = self.replica.quorum.state
        if isinstance(state, LeaderState):
            return self._poll_leader(state, now)
        if isinstance(state, FollowerState):
            return self._poll_follower(state, now.now)
        if isinstance(state, ResignedState):
            return self._poll_resigned(state, now.now)
        if isinstance(state, UnattachedState):
            return self._poll_unattached(state, now.now)
        return self._poll_nominee(state, now.now)

    def _poll_leader(self, state: LeaderState, now: Instant) -> float:
        replica = self.replica
        if self._shutdown_at is not None or state.is_resign_requested or now.now >= state.resigns_at():
            replica.to_resigned(now.now)
            return now.now
        self._changes.expire(now.now)
        if now.now >= state.accumulator.deadline:
            replica.append_as_leader(state, now.now, now.now_ms)
        wake = state.begin_quorum_deadline
        if now.now >= wake:
            others = [key for key in (found.key for found in state.voters.values()) if not key.matches(state.local)]
            replica.send_to_voters(
                others,
                lambda voter: messages.make_begin_quorum_epoch_request(self._config, state.epoch, voter),
                now.now,
            )
            state.begin_quorum_deadline = wake = now.now + self._config.fetch_timeout / 2
        return min(wake, state.resigns_at())

    def _poll_resigned(self, state: ResignedState, now: float) -> float:
        replica = self.replica
        voters = [node.key for node in replica.partition_state.last_voter_set if node.key.id in state.unacknowledged]
        wake = replica.send_to_voters(
            voters,
            lambda _voter: messages.make_end_quorum_epoch_request(self._config, state.epoch, state.preferred),
            now,
        )
        if self._shutdown_at is not None:
            return min(wake, self._shutdown_at)
        if now >= state.election_deadline:
            # In this epoch it was the leader and cannot follow another; the next one begins without a leader.
            replica.to_unattached(state.epoch + 1, now)
            return now
        return min(wake, state.election_deadline)

    def _poll_unattached(self, state: UnattachedState, now: float) -> float:
        if not self.replica.quorum.is_voter:
            return self._fetch_from_any(now)
        if self._shutdown_at is None and now >= state.election_deadline:
            self.replica.to_prospective(now)
            return now
        return state.election_deadline

    def _poll_nominee(self, state: ProspectiveState | CandidateState, now: float) -> float:
        if isinstance(state, CandidateState) and state.backoff_deadline is not None:
            if now >= state.backoff_deadline:
                self.replica.to_prospective(now)
                return now
            return state.backoff_deadline
        if now >= state.election_deadline:
            if isinstance(state, ProspectiveState):
                self._voting.give_up(state, now)
                return now
            state.backoff_deadline = now + self._voting.backoff(state.retries)
            return state.backoff_deadline
        replica = self.replica
        is_pre_vote = isinstance(state, ProspectiveState)
        wake = replica.send_to_voters(
            state.votes.unrecorded,
            lambda voter: messages.make_vote_request(
                self._config, state.epoch, voter, replica.log_end, pre_vote=is_pre_vote
            ),
            now,
        )
        return min(wake, state.election_deadline)

    def _poll_follower(self, state: FollowerState, now: float) -> float:
        if not self.replica.quorum.is_voter:
            return self._poll_observer(state, now)
        if not self.replica.is_log_on_disk:
            # What it has got it cannot acknowledge yet; that is not the leader's fault.
            state.fetch_deadline = max(state.fetch_deadline, now + self._config.fetch_timeout)
            return inf
        if self._shutdown_at is None and now >= state.fetch_deadline:
            self.replica.to_prospective(now)
            return now
        is_due = now >= state.update_voter_deadline
        wants_update = is_due and self._leader_needs_update(state)
        if is_due and (not wants_update or self._may_ask(state, now)):
            state.update_voter_deadline = now + self._config.update_voter_period
        request = self._fetcher.request
        if wants_update:
            request = cast("type[Message]", lambda: messages.make_update_voter_request(self._config, state.epoch))  # type: ignore[assignment]
        wake = min(self._ask_leader(state, request, now), state.fetch_deadline)
        # A fetch that waits at the leader has to end before it can be told.
        return wake if now >= state.update_voter_deadline else min(wake, state.update_voter_deadline)

    def _leader_needs_update(self, state: FollowerState) -> bool:
        """Whether the voters' record has something else of this node, or there is none and the leader was not told."""
        partition = self.replica.partition_state
        if partition.is_reconfig_supported:
            return partition.last_voter_set.needs_update(self._config.local_node)
        return not state.has_updated_leader

    def _may_ask(self, state: FollowerState, now: float) -> bool:
        leader = self.replica.leader_node(state)
        return leader is not None and self.replica.connections.is_ready(leader.id, now)

    def _ask_leader(self, state: FollowerState, request: object, now: float) -> float:
        leader = self.replica.leader_node(state)
        return state.fetch_deadline if leader is None else self.replica.send(leader, request, now)  # type: ignore[arg-type]

    def _poll_observer(self, state: FollowerState, now: float) -> float:
        connections = self.replica.connections
        leader = self.replica.leader_node(state)
        if not self.replica.is_log_on_disk:
            return inf
        if leader is None or now >= state.fetch_deadline:
            return self._fetch_from_any(now)
        if connections.has_timed_out(leader.id, now):
            connections.reset(leader.id)
            return self._fetch_from_any(now)
        if connections.is_backing_off(leader.id, now):
            return min(self._fetch_from_any(now), connections.ready_at(leader.id))
        if connections.has_in_flight(now):
            return min(connections.ready_at_any(connections.bootstrap, now), state.fetch_deadline)
        request = self._joining_request(state, now) or self._fetcher.request
        return min(self._ask_leader(state, request, now), state.fetch_deadline)

    def _joining_request(self, state: FollowerState, now: float) -> object:
        """Return the request by which a controller becomes a voter by itself (KIP-1186), when it is time for one."""
        config, partition = self._config, self.replica.partition_state
        if not (config.auto_join and config.can_become_voter and partition.is_reconfig_supported):
            return None
        if now < state.update_voter_deadline:
            return None
        state.update_voter_deadline = now + config.update_voter_period
        former = partition.last_voter_set.get(config.node_id)
        if former is not None:
            return lambda: messages.make_remove_voter_request(config, former.key)
        return lambda: messages.make_add_voter_request(config)

    def _fetch_from_any(self, now: float) -> float:
        """Ask any node that may know the leader: the bootstrap servers may be none of the quorum's any more."""
        connections = self.replica.connections
        if not self.replica.is_log_on_disk:
            return inf
        nodes = [*connections.bootstrap, *self.replica.other_voters()]
        node = connections.find_ready(nodes, now)
        if node is None:
            return connections.ready_at_any(nodes, now)
        return self.replica.send(node, self._fetcher.fetch_request, now)
