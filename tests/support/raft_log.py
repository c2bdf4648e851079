"""A log and a `quorum-state` in memory for the quorum's state machine, which lose what was not flushed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.raft.kafka_metadata_log import FileQuorumStateStore, KafkaMetadataLog
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.records import scan_batches

if TYPE_CHECKING:
    from random import Random

    from barnabas.protocol.message import Buffer


_DATA = "/data"


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

    def write(self, content: bytes) -> None:
        """See `QuorumStateStore`."""
        self.content = content


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

    def freeze(self) -> None:
        """See `RawSnapshotWriter`."""
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
        self.flushed = 0

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

    def flush(self) -> None:
        """See `ReplicatedLog`."""
        self.flushed = self.end_offset

    def truncate_to(self, offset: int) -> None:
        """See `ReplicatedLog`."""
        if offset < self.high_watermark:
            raise ValueError(f"{offset} is below the high watermark {self.high_watermark}")
        while self.batches and self.batches[-1].last_offset >= offset:
            self.end_offset = self.batches.pop().base_offset
        self.flushed = min(self.flushed, self.end_offset)

    def truncate_to_latest_snapshot(self) -> bool:
        """See `ReplicatedLog`."""
        latest = self.latest_snapshot_id
        if latest is None or (latest.epoch, latest.offset) <= (self.last_fetched_epoch, self.end_offset):
            return False
        self.batches.clear()
        self.start_offset = self.end_offset = self.flushed = latest.offset
        self.high_watermark = latest.offset
        self.snapshots = {latest: self.snapshots[latest]}
        return True

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
        self.high_watermark = self.start_offset


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


class FileDisk:
    """A disk with Kafka's files, which tears what was not synced when the power is lost."""

    def __init__(self, random: Random) -> None:
        self._filesystem = MemoryFileSystem(random)
        self._filesystem.make_directory(_DATA)

    def open(self) -> tuple[KafkaMetadataLog, FileQuorumStateStore]:
        """Return what is on it."""
        config = {"metadata.log.segment.bytes": 600}
        return KafkaMetadataLog(self._filesystem, _DATA, config, 0), FileQuorumStateStore(self._filesystem, _DATA)

    def crash(self, random: Random | None) -> tuple[KafkaMetadataLog, FileQuorumStateStore]:
        """See `MemoryDisk`."""
        if random is None:
            self._filesystem.crash()
        else:
            self._filesystem.power_loss()
        return self.open()


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
