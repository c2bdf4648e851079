"""A follower's side of replication: what it makes of responses to Fetch and FetchSnapshot (KIP-595, 630)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.raft.epoch_states import FollowerState
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.raft_messages import (
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    make_fetch_request,
    make_fetch_snapshot_request,
)
from barnabas.broker.raft.replicated_log import truncation_offset
from barnabas.errors import IllegalStateError
from barnabas.network.node import Node

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.raft.replica import Replica
    from barnabas.broker.raft.replicated_log import RawSnapshotWriter
    from barnabas.protocol.messages import fetch_response, fetch_snapshot_response

SNAPSHOT_NOT_FOUND = errors.SnapshotNotFoundError.code
POSITION_OUT_OF_RANGE = errors.PositionOutOfRangeError.code


class LogFetcher:
    """Keeps this replica's log like the leader's."""

    __slots__ = ("_replica",)

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def request(self) -> FetchRequest | FetchSnapshotRequest:
        """Ask for what comes next."""
        replica = self._replica
        state = replica.quorum.state
        if isinstance(state, FollowerState) and state.fetching_snapshot is not None:
            writer = state.fetching_snapshot
            return make_fetch_snapshot_request(replica.config, state.epoch, writer.snapshot_id, writer.size)
        return self.fetch_request()

    def fetch_request(self) -> FetchRequest:
        """Ask for records, also while a snapshot is on its way: who is asked may not be the leader."""
        replica = self._replica
        state = replica.quorum.state
        high_watermark = -1 if state.high_watermark is None else state.high_watermark
        return make_fetch_request(replica.config, state.epoch, replica.log_end, high_watermark)

    # -- Fetch -------------------------------------------------------------------------------------------------------

    def handle_fetch_response(self, response: FetchResponse, now: Instant) -> bool:
        """Append, truncate or begin a snapshot; whether the request was of use."""
        replica = self._replica
        if response.error_code or not response.responses or not response.responses[0].partitions:
            return False
        found = response.responses[0].partitions[0]
        nodes = [Node(node.node_id, node.host, node.port) for node in response.node_endpoints]
        leader = found.current_leader
        endpoints = replica.leader_endpoints(nodes, leader.leader_id)
        handled = replica.handle_common(found.error_code, leader.leader_id, leader.leader_epoch, endpoints, now.now)
        if handled is not None:
            self._leader_confirmed(leader.leader_id, leader.leader_epoch, now.now)
            return handled
        state = replica.quorum.state
        if found.error_code or not isinstance(state, FollowerState):
            return not found.error_code
        if found.diverging_epoch.epoch >= 0:
            self._truncate(OffsetAndEpoch(found.diverging_epoch.end_offset, found.diverging_epoch.epoch))
        elif found.snapshot_id.epoch >= 0 or found.snapshot_id.end_offset >= 0:
            if found.snapshot_id.epoch < 0 or found.snapshot_id.end_offset < 0:
                return False
            self._begin_snapshot(state, OffsetAndEpoch(found.snapshot_id.end_offset, found.snapshot_id.epoch))
        else:
            self._append(state, found, now)
        state.fetch_deadline = now.now + replica.config.fetch_timeout
        state.has_fetched = True
        return True

    def _leader_confirmed(self, leader_id: int, epoch: int, now: float) -> None:
        """Let an observer ask the leader again that a bootstrap server names, though it did not answer for long."""
        replica = self._replica
        state = replica.quorum.state
        if (
            isinstance(state, FollowerState)
            and (state.leader_id, state.epoch) == (leader_id, epoch)
            and now >= state.fetch_deadline
            and not replica.quorum.is_voter
        ):
            state.fetch_deadline = now + replica.config.fetch_timeout
            replica.connections.reset(leader_id)

    def _truncate(self, diverging: OffsetAndEpoch) -> None:
        log = self._replica.log
        if diverging.offset < log.high_watermark:
            raise IllegalStateError(
                f"the leader says that its log parts from ours at {diverging}, below the high watermark "
                f"{log.high_watermark}: committed metadata was lost, by it or by us"
            )
        offset = truncation_offset(log, diverging)
        self._replica.disk.do_first(log.truncate_to(offset))
        self._replica.partition_state.truncate_new(offset)

    def _begin_snapshot(self, state: FollowerState, snapshot_id: OffsetAndEpoch) -> None:
        if state.fetching_snapshot is not None:
            state.fetching_snapshot.close()
        # Not compared with the log: what the leader offers is ahead of it.
        state.fetching_snapshot = self._replica.log.create_snapshot(snapshot_id)
        if state.fetching_snapshot is None:
            self._replica.disk.do_first(self._load_latest(state))

    def _load_latest(self, state: FollowerState) -> Steps[bool]:
        """Begin the log behind the newest snapshot if that is ahead of it; whether it was."""
        is_ahead = yield from self._replica.log.truncate_to_latest_snapshot()
        self._replica.partition_state.reload()
        self._advance(state, self._replica.log.high_watermark)
        return is_ahead

    def _append(self, state: FollowerState, found: fetch_response.PartitionData, now: Instant) -> None:
        replica = self._replica
        if found.records:
            # The next fetch tells the leader that this is on our disk, and waits for it (`Replica.is_log_on_disk`).
            before = replica.log.end_offset
            replica.log.append(found.records, state.epoch, now.now_ms)
            replica.counts.fetched.record(replica.log.end_offset - before, now.now)
            replica.partition_state.update()
        if found.high_watermark >= 0:
            self._advance(state, found.high_watermark)

    def _advance(self, state: FollowerState, high_watermark: int) -> None:
        log = self._replica.log
        high_watermark = min(log.end_offset, high_watermark)
        if state.high_watermark is None or high_watermark > state.high_watermark:
            state.high_watermark = high_watermark
            log.update_high_watermark(max(high_watermark, log.high_watermark))

    # -- FetchSnapshot -----------------------------------------------------------------------------------------------

    def handle_fetch_snapshot_response(self, response: FetchSnapshotResponse, now: Instant) -> bool:
        """Add a part to a snapshot, and begin the log behind it when it is whole; whether the request was of use."""
        replica = self._replica
        if response.error_code or not response.topics or not response.topics[0].partitions:
            return False
        found = response.topics[0].partitions[0]
        nodes = [Node(node.node_id, node.host, node.port) for node in response.node_endpoints]
        leader = found.current_leader
        endpoints = replica.leader_endpoints(nodes, leader.leader_id)
        handled = replica.handle_common(found.error_code, leader.leader_id, leader.leader_epoch, endpoints, now.now)
        if handled is not None:
            return handled
        state, is_there = replica.quorum.state, True
        if not isinstance(state, FollowerState) or state.fetching_snapshot is None:
            return True
        if found.error_code in (SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE) or found.snapshot_id.end_offset < 0:
            # The leader has dropped it, perhaps for a newer one: the next fetch tells. Apache Kafka sends that at once,
            # as often as the same is offered and is gone, and ends at a position that is out of range.
            state.fetching_snapshot.close()
            state.fetching_snapshot = None
            is_there = False
        elif found.error_code:
            return False
        else:
            self._take_part(state, found)
        state.fetch_deadline = now.now + replica.config.fetch_timeout
        state.has_fetched = True
        return is_there

    def _take_part(self, state: FollowerState, found: fetch_snapshot_response.PartitionSnapshot) -> None:
        writer = state.fetching_snapshot
        assert writer is not None
        told = OffsetAndEpoch(found.snapshot_id.end_offset, found.snapshot_id.epoch)
        if told != writer.snapshot_id or found.position != writer.size:
            raise IllegalStateError(
                f"the leader answers with bytes from {found.position} of the snapshot {told}; asked was from "
                f"{writer.size} of {writer.snapshot_id}"
            )
        writer.append(found.unaligned_records or b"")
        if writer.size >= found.size:
            state.fetching_snapshot = None
            self._replica.disk.do_first(self._load_fetched(state, writer))

    def _load_fetched(self, state: FollowerState, writer: RawSnapshotWriter) -> Steps[None]:
        yield from writer.freeze()
        if not (yield from self._load_latest(state)):
            raise IllegalStateError(
                f"the snapshot {writer.snapshot_id} of the leader is not ahead of our log, which ends at "
                f"{self._replica.log_end}"
            )
