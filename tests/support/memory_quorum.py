"""A quorum of controllers in memory: a test says who leads, what is committed, and what a new leader has kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.broker.metadata.metadata_records import ApiMessageAndVersion, encode_record
from barnabas.broker.raft.errors import NotLeaderError
from barnabas.broker.raft.offset_and_epoch import LeaderAndEpoch, OffsetAndEpoch
from barnabas.broker.raft.raft_client import Batch, Listener, SnapshotWriter
from barnabas.errors import InvalidUpdateVersionError
from barnabas.protocol.message import Message


class MemoryQuorum:
    """The log that all nodes share, in batches; what follows `committed` batches may still be lost."""

    def __init__(self, *node_ids: int) -> None:
        self.log: list[Batch] = []
        self.committed = 0
        self.leader: int | None = None
        self.epoch = 0
        self.kraft_version = 1
        #: A level that the quorum does not take.
        self.refused_level: int | None = None
        self.nodes = {node_id: MemoryRaftClient(self, node_id) for node_id in node_ids}

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    def elect(self, node_id: int | None, *, keep: int | None = None, announce: bool = True) -> None:
        """Begin an epoch; of what is not committed the first `keep` batches stay, and are committed, all by default.

        `announce`: the leader writes a control record, as leaders do.
        """
        waiting = len(self.log) - self.committed
        if node_id == self.leader:
            keep = None  # who leads on loses nothing
        del self.log[self.committed + (waiting if keep is None else keep) :]
        self.epoch += 1
        self.leader = node_id
        if node_id is None:
            self._tell_leader()
            return
        for other in self.nodes.values():
            if other.node_id != node_id:
                other.hear_of_leader()
        if announce:
            self.log.append(Batch(self.end, self.end, self.epoch, 0, ()))
        self.commit()
        self.nodes[node_id].hear_of_leader()

    def _tell_leader(self) -> None:
        for node in self.nodes.values():
            node.hear_of_leader()

    def commit(self, count: int | None = None) -> None:
        """Commit the next batches, all by default, and tell everybody."""
        self.committed = len(self.log) if count is None else min(len(self.log), self.committed + count)
        for node in self.nodes.values():
            node.hear_of_commits()

    def records(self) -> list[Message]:
        """All records of the log."""
        return [record for batch in self.log for record in batch.records()]


class MemoryRaftClient:
    """One node's view (`RaftClient`)."""

    latest_snapshot_id: OffsetAndEpoch | None = None

    def __init__(self, quorum: MemoryQuorum, node_id: int) -> None:
        self._quorum = quorum
        self.node_id = node_id
        self.listener: Listener | None = None
        self._applied = 0
        self._told: LeaderAndEpoch | None = None
        self._prepared: list[Batch] = []
        self.resigned: list[int] = []

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return LeaderAndEpoch(self._quorum.leader, self._quorum.epoch)

    @property
    def high_watermark(self) -> int | None:
        committed = self._quorum.log[: self._quorum.committed]
        return committed[-1].last_offset + 1 if committed else 0

    @property
    def log_end_offset(self) -> int:
        return self._quorum.end

    def register(self, listener: Listener) -> None:
        self.listener, self._applied, self._told = listener, 0, None

    def unregister(self, listener: Listener) -> None:
        self.listener = None

    def restart(self, at: int = 0) -> None:
        """Forget the listener: its process has died; the next one begins behind so many batches."""
        self.listener, self._applied, self._prepared = None, at, []

    def prepare_append(self, epoch: int, records: Sequence[ApiMessageAndVersion]) -> int:
        if self._quorum.leader != self.node_id or self._quorum.epoch != epoch:
            raise NotLeaderError(f"node {self.node_id} does not lead in epoch {epoch}")
        base = self._prepared[-1].last_offset + 1 if self._prepared else self._quorum.end
        values = [encode_record(record, version) for record, version in records]
        self._prepared.append(Batch(base, base + len(values) - 1, epoch, 0, values))
        return base + len(values) - 1

    def schedule_prepared_append(self) -> None:
        self._quorum.log += self._prepared
        self._prepared = []

    def upgrade_kraft_version(self, epoch: int, level: int, *, validate_only: bool) -> None:
        if self._quorum.leader != self.node_id or self._quorum.epoch != epoch:
            raise NotLeaderError(f"node {self.node_id} does not lead in epoch {epoch}")
        if self._quorum.refused_level == level:
            raise InvalidUpdateVersionError(f"kraft.version cannot be {level}")
        if not validate_only:
            self._quorum.kraft_version = level
            self._quorum.log.append(Batch(self._quorum.end, self._quorum.end + 1, epoch, 0, ()))

    def schedule_append(self, epoch: int, records: Sequence[ApiMessageAndVersion]) -> int:
        last = self.prepare_append(epoch, records)
        self.schedule_prepared_append()
        return last

    def resign(self, epoch: int) -> None:
        self.resigned.append(epoch)
        self._prepared = []
        if self._quorum.leader == self.node_id:
            self._quorum.leader = None

    def create_snapshot(self, snapshot_id: OffsetAndEpoch, last_contained_log_timestamp: int) -> SnapshotWriter | None:
        raise NotImplementedError

    def hear_of_commits(self) -> None:
        """Give the listener what it has not seen."""
        news = self._quorum.log[self._applied : self._quorum.committed]
        self._applied = max(self._applied, self._quorum.committed)
        if news and self.listener is not None:
            self.listener.handle_commit(news)

    def hear_of_leader(self) -> None:
        """Tell the listener who leads, once."""
        if self.listener is not None and self._told != self.leader_and_epoch:
            self._told = self.leader_and_epoch
            self.listener.handle_leader_change(self._told)


class MemorySnapshot(NamedTuple):
    """A snapshot of records (`SnapshotReader`)."""

    snapshot_id: OffsetAndEpoch
    records: Sequence[ApiMessageAndVersion]
    last_contained_log_timestamp: int = 0

    def batches(self) -> Iterator[Batch]:
        values = [encode_record(record, version) for record, version in self.records]
        yield Batch(0, len(values) - 1, 1, 0, values)
