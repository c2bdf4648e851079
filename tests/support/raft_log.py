"""A log and a `quorum-state` in memory for the quorum's state machine, which lose what was not flushed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.raft.kafka_metadata_log import FileQuorumStateStore, KafkaMetadataLog
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.broker.raft.snapshots import RecordsSnapshotReader
from barnabas.records import scan_batches

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from barnabas.broker.log.truncation import Steps
    from barnabas.protocol.message import Buffer
    from tests.support.raft_cluster import Member


_DATA = "/data"


def _nothing() -> None:
    return


class LogBatch(NamedTuple):
    """One batch of a log."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes


class MemoryStore:
    """The file `quorum-state`: what was written is on the disk."""

    def __init__(self) -> None:
        self.content: bytes | None = None

    def read(self) -> bytes | None:
        """See `QuorumStateStore`."""
        return self.content

    def write(self, content: bytes) -> Steps[None]:
        """See `QuorumStateStore`."""
        yield lambda: setattr(self, "content", content)


class MemorySnapshot:
    """A snapshot on its way; see `RawSnapshotWriter`."""

    def __init__(self, log: MemoryLog, snapshot_id: OffsetAndEpoch) -> None:
        self._log = log
        self.snapshot_id = snapshot_id
        self._data = bytearray()

    @property
    def size(self) -> int:
        """See `RawSnapshotWriter`."""
        return len(self._data)

    def append(self, data: Buffer) -> None:
        """See `RawSnapshotWriter`."""
        self._data += data

    def freeze(self) -> Steps[None]:
        """See `RawSnapshotWriter`."""
        yield _nothing
        if self.snapshot_id.offset >= self._log.start_offset:
            self._log.snapshots[self.snapshot_id] = bytes(self._data)

    def close(self) -> None:
        """See `RawSnapshotWriter`."""


class MemoryLog:
    """A `ReplicatedLog`; truncations and snapshots are on the disk at once, appends with `flush`."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.batches: list[LogBatch] = []
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        #: What the disk has, and what of that the process knows.
        self.flushed = self.flushed_offset = 0
        self.is_flushing = False
        self.life = 0

    @property
    def last_fetched_epoch(self) -> int:
        """See `ReplicatedLog`."""
        if self.batches:
            return self.batches[-1].epoch
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """See `ReplicatedLog`."""
        if epoch >= self.last_fetched_epoch:
            return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch) if epoch else OffsetAndEpoch(0, 0)
        found = None
        for batch in self.batches:
            if batch.epoch > epoch:
                break
            found = batch
        if found is not None:
            return OffsetAndEpoch(found.last_offset + 1, found.epoch)
        earliest = self.earliest_snapshot_id
        if earliest is not None and earliest.offset == self.start_offset:
            return earliest
        return OffsetAndEpoch(self.start_offset, epoch)

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        """See `ReplicatedLog`."""
        assert offset >= self.start_offset, f"{offset} is before the start {self.start_offset}"
        found = bytearray()
        for batch in self.batches:
            if batch.last_offset < offset or (max_offset is not None and batch.last_offset >= max_offset):
                continue
            if found and len(found) + len(batch.data) > max_bytes:
                break
            found += batch.data
        return bytes(found)

    def append(self, records: Buffer, epoch: int, now_ms: int) -> None:
        """See `ReplicatedLog`."""
        for header in scan_batches(records):
            if header.partition_leader_epoch > epoch:
                break
            assert header.base_offset == self.end_offset, f"{header.base_offset} behind {self.end_offset}"
            data = bytes(records[header.position : header.position + header.size_in_bytes])
            self.batches.append(LogBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, data))
            self.end_offset = header.last_offset + 1

    def flush(self) -> Steps[None]:
        """See `ReplicatedLog`."""
        end, life = self.end_offset, self.life
        self.is_flushing = True
        yield partial(self._reach, end, life)
        self.is_flushing = False
        self.flushed_offset = max(self.flushed_offset, end)

    def _reach(self, end: int, life: int) -> None:
        if life == self.life:
            self.flushed = max(self.flushed, end)

    def truncate_to(self, offset: int) -> Steps[None]:
        """See `ReplicatedLog`."""
        if offset < self.high_watermark:
            raise ValueError(f"{offset} is below the high watermark {self.high_watermark}")
        assert not self.is_flushing, "a flush is in flight"
        yield _nothing
        while self.batches and self.batches[-1].last_offset >= offset:
            self.end_offset = self.batches.pop().base_offset
        self.flushed = min(self.flushed, self.end_offset)
        self.flushed_offset = min(self.flushed_offset, self.end_offset)
        yield _nothing

    def truncate_to_latest_snapshot(self) -> Steps[bool]:
        """See `ReplicatedLog`."""
        latest = self.latest_snapshot_id
        if latest is None or (latest.epoch, latest.offset) <= (self.last_fetched_epoch, self.end_offset):
            return False
        assert not self.is_flushing, "a flush is in flight"
        yield _nothing
        self._begin_at(latest)
        yield _nothing
        return True

    def _begin_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self.batches.clear()
        self.start_offset = self.end_offset = self.flushed = self.flushed_offset = snapshot_id.offset
        self.high_watermark = snapshot_id.offset
        self.snapshots = {snapshot_id: self.snapshots[snapshot_id]}

    def update_high_watermark(self, offset: int) -> None:
        """See `ReplicatedLog`."""
        self.high_watermark = offset

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """See `ReplicatedLog`."""
        return max(self.snapshots, default=None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """See `ReplicatedLog`."""
        return min(self.snapshots, default=None)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """See `ReplicatedLog`."""
        found = self.snapshots.get(snapshot_id)
        return None if found is None else len(found)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        """See `ReplicatedLog`."""
        return self.snapshots[snapshot_id][position : position + size]

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> MemorySnapshot | None:
        """See `ReplicatedLog`."""
        return None if snapshot_id in self.snapshots else MemorySnapshot(self, snapshot_id)

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        """See `ReplicatedLog`."""
        if snapshot_id not in self.snapshots or snapshot_id.offset <= self.start_offset:
            return False
        self.start_offset = snapshot_id.offset
        self.flushed = max(self.flushed, snapshot_id.offset)
        self.flushed_offset = max(self.flushed_offset, snapshot_id.offset)
        self.batches = [batch for batch in self.batches if batch.last_offset >= snapshot_id.offset]
        self.snapshots = {key: data for key, data in self.snapshots.items() if key.offset >= snapshot_id.offset}
        return True

    def clean(self, now_ms: int) -> None:
        """See `ReplicatedLog`: the test decides when."""

    # -- faults ------------------------------------------------------------------------------------------------------

    def reopen(self, random: Random | None = None) -> None:
        """Begin anew after a crash; with `random` the power was lost, and with it any end of what was not flushed."""
        if random is not None:
            lost = [batch for batch in self.batches if batch.last_offset >= self.flushed]
            for _ in range(random.randint(0, len(lost))):
                self.end_offset = self.batches.pop().base_offset
            self.flushed = self.end_offset
        self.life += 1
        self.is_flushing = False
        self.flushed_offset = self.high_watermark = self.start_offset
        latest = self.latest_snapshot_id
        if latest is not None and latest > BOOTSTRAP_SNAPSHOT_ID and self.end_offset < latest.offset:
            self._begin_at(latest)


class MemoryDisk:
    """A disk with a `MemoryLog`."""

    def __init__(self) -> None:
        self._log = MemoryLog()
        self._store = MemoryStore()

    def open(self) -> tuple[MemoryLog, MemoryStore]:
        """Return what is on it."""
        return self._log, self._store

    def crash(self, random: Random | None) -> tuple[MemoryLog, MemoryStore]:
        """Return what is left after a crash; with `random` the power was lost."""
        self._log.reopen(random)
        return self._log, self._store

    def run(self, work: Callable[[], None]) -> None:
        """Do what waits for the disk."""
        work()


class FileDisk:
    """A disk with Kafka's files, which tears what was not synced when the power is lost."""

    def __init__(self, random: Random) -> None:
        self._filesystem = MemoryFileSystem(random)
        self._filesystem.make_directory(_DATA)
        self._may_wait = True
        #: What waited for the disk on the loop, while nothing was being opened.
        self.waits: list[str] = []
        self.syncs = 0
        self._filesystem.fail = self._note

    def open(self) -> tuple[KafkaMetadataLog, FileQuorumStateStore]:
        """Return what is on it."""
        config = {"metadata.log.segment.bytes": 600}
        self._may_wait = True
        found = KafkaMetadataLog(self._filesystem, _DATA, config, 0), FileQuorumStateStore(self._filesystem, _DATA)
        self._may_wait = False
        return found

    def run(self, work: Callable[[], None]) -> None:
        """See `MemoryDisk`."""
        self._may_wait = True
        work()
        self._may_wait = False

    def _note(self, operation: str, path: str) -> None:
        if operation == "sync":
            self.syncs += 1
            if not self._may_wait:
                self.waits.append(path)

    def crash(self, random: Random | None) -> tuple[KafkaMetadataLog, FileQuorumStateStore]:
        """See `MemoryDisk`."""
        if random is None:
            self._filesystem.crash()
        else:
            self._filesystem.power_loss()
        return self.open()


class DelayedStorage:
    """The storage of one process: every piece of work is done some time later, and known to be done later still."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._life = member.life
        #: How many pieces of work are not known yet to be done.
        self.in_flight = 0

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See `Storage`."""
        cluster, member = self._member.cluster, self._member
        if not cluster.disk_delay:
            member.disk.run(work)
            done()
            return

        def run() -> None:
            if self._life == member.life:
                member.disk.run(work)
                cluster.at(cluster.now + cluster.random.uniform(0.0, cluster.disk_delay / 4), tell)

        def tell() -> None:
            if self._life == member.life:
                if member.paused_until > cluster.now:
                    cluster.at(member.paused_until, tell)
                    return
                self.in_flight -= 1
                done()
                member.turn()

        self.in_flight += 1
        delay = cluster.random.uniform(0.0, cluster.disk_delay)
        cluster.at(max(cluster.now + delay, member.disk_stalls_until), run)

    def drain(self) -> None:
        """See `Storage`."""


def values_in_snapshot(log: MemoryLog | KafkaMetadataLog, snapshot_id: OffsetAndEpoch) -> list[bytes]:
    """Return what a snapshot says. Raises `CorruptRecordError` for one that is not whole."""
    return [value for batch in RecordsSnapshotReader(log, snapshot_id).batches() for value in batch.values]


def batches_in(log: MemoryLog | KafkaMetadataLog) -> list[LogBatch]:
    """Return all batches of a log."""
    if isinstance(log, MemoryLog):
        return log.batches
    found: list[LogBatch] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1 << 20)
        for header in scan_batches(data):
            whole = data[header.position : header.position + header.size_in_bytes]
            found.append(LogBatch(header.base_offset, header.last_offset, header.partition_leader_epoch, whole))
        offset = found[-1].last_offset + 1
    return found
