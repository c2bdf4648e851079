"""How far a listener has come (KafkaRaftClient.ListenerContext)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.raft.epoch_states import ResignedState
from barnabas.broker.raft.leader_state import LeaderState
from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.broker.raft.snapshots import RecordsSnapshotReader, batches_of
from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.broker.raft.raft_client import Listener
    from barnabas.broker.raft.replica import Replica

_READ_BYTES = 8 << 20


class ListenerContext:
    """Gives one listener the snapshot, what was committed, and who leads, each in order."""

    __slots__ = ("_leader", "_next_offset", "listener")

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self._next_offset = -1
        self._leader = LeaderAndEpoch(None, -1)

    def advance(self, replica: Replica) -> None:
        """Bring the listener up to date."""
        state = replica.quorum.state
        if state.high_watermark is not None:
            self._load(replica, state.high_watermark)
            self._commit(replica, state.high_watermark)
        if isinstance(state, LeaderState):
            # It must have seen all that earlier leaders have committed, which ends with the record of this epoch.
            if self._next_offset > state.epoch_start_offset:
                self._tell(replica.quorum.leader_and_epoch)
        elif not isinstance(state, ResignedState):
            self._tell(replica.quorum.leader_and_epoch)

    def _load(self, replica: Replica, high_watermark: int) -> None:
        log = replica.log
        snapshot = log.latest_snapshot_id
        if snapshot == BOOTSTRAP_SNAPSHOT_ID:
            # What is in it is not committed: the first leader writes it into the log.
            snapshot = None
        is_behind = self._next_offset < 0 or self._next_offset < log.start_offset
        if is_behind and snapshot is not None and self._next_offset < high_watermark:
            self._next_offset = snapshot.offset
            self.listener.handle_load_snapshot(RecordsSnapshotReader(log, snapshot))
        elif self._next_offset < 0:
            self._next_offset = 0
        elif self._next_offset < log.start_offset:
            raise IllegalStateError(
                f"the metadata log begins at {log.start_offset}, and there is no snapshot for a listener that is at "
                f"{self._next_offset}"
            )

    def _commit(self, replica: Replica, high_watermark: int) -> None:
        while self._next_offset < high_watermark:
            data = replica.log.read(self._next_offset, _READ_BYTES, high_watermark)
            batches = [batch for batch in batches_of(data) if batch.last_offset >= self._next_offset]
            if not batches:
                return
            self._next_offset = batches[-1].last_offset + 1
            self.listener.handle_commit(batches)

    def _tell(self, leader: LeaderAndEpoch) -> None:
        known = self._leader
        if leader.epoch > known.epoch or (
            leader.epoch == known.epoch and leader.leader_id is not None and known.leader_id is None
        ):
            self._leader = leader
            self.listener.handle_leader_change(leader)
