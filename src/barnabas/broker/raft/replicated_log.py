"""The log as the quorum's state machine sees it (ReplicatedLog), and how two logs are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch

if TYPE_CHECKING:
    from barnabas.broker.log.truncation import Steps
    from barnabas.protocol.message import Buffer

#: The snapshot that formatting has made: the first voters (KIP-853). It is not replicated.
BOOTSTRAP_SNAPSHOT_ID = OffsetAndEpoch(0, 0)


class RawSnapshotWriter(Protocol):
    """A snapshot's bytes on their way to the disk."""

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Where the log goes on behind it."""

    @property
    def size(self) -> int:
        """How many bytes there are so far."""

    def append(self, data: Buffer) -> None:
        """Add bytes. Raises `KafkaStorageError`."""

    def freeze(self) -> Steps[None]:
        """End it, so that it is on the disk under its name. Raises `KafkaStorageError`."""

    def close(self) -> None:
        """Throw it away unless it is frozen."""


class ReplicatedLog(Protocol):
    """A log with epochs and snapshots. Every method that changes or reads files raises `KafkaStorageError`.

    What gives `Steps` waits for the disk: what they yield is done beside the loop. Nothing else is asked of the log
    before they are through, but for the flush.
    """

    @property
    def start_offset(self) -> int:
        """The first offset that is kept."""

    @property
    def end_offset(self) -> int:
        """The offset behind the last record."""

    @property
    def flushed_offset(self) -> int:
        """The offset below which everything is on the disk."""

    @property
    def last_fetched_epoch(self) -> int:
        """The epoch of the last record; of the snapshot where nothing follows it, 0 for an empty log."""

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed, as far as this replica knows."""

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Return the largest epoch not above the one given, and where it ends."""

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        """Return whole batches from the one with `offset` on, one at least if there is any, up to `max_offset`."""

    def append(self, records: Buffer, epoch: int, now_ms: int) -> None:
        """Append batches of an epoch, this one or earlier, whose offsets are given."""

    def flush(self) -> Steps[None]:
        """Bring to the disk what was appended before this; more may be appended meanwhile, and nothing truncated."""

    def truncate_to(self, offset: int) -> Steps[None]:
        """End the log at an offset. Raises `ValueError` below the high watermark."""

    def truncate_to_latest_snapshot(self) -> Steps[bool]:
        """Let the log begin behind the newest snapshot if it is ahead of the log; whether it was."""

    def update_high_watermark(self, offset: int) -> None:
        """Take note of what is committed."""

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The newest snapshot."""

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """The oldest snapshot."""

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Return how many bytes a snapshot has; None if there is no such snapshot."""

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        """Return a part of a snapshot."""

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> RawSnapshotWriter | None:
        """Begin a snapshot without asking whether the log has its offset; None if there is one."""

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Let the log begin at a snapshot, and drop those before it; whether anything went."""

    def clean(self, now_ms: int) -> None:
        """Drop what the settings of retention do not keep, while a newer snapshot has it."""


class Divergence:
    """Where a replica's log stands against this one (ValidOffsetAndEpoch)."""

    __slots__ = ("is_valid", "needs_snapshot", "offset_and_epoch")

    def __init__(self, offset_and_epoch: OffsetAndEpoch, *, is_valid: bool = False, needs_snapshot: bool = False):
        self.offset_and_epoch = offset_and_epoch
        self.is_valid = is_valid
        self.needs_snapshot = needs_snapshot


def validate_offset_and_epoch(log: ReplicatedLog, offset: int, epoch: int) -> Divergence:
    """Say whether a log that ends at this offset, in this epoch, is a part of ours; else where they part.

    A replica that needs what is no longer kept gets the newest snapshot.
    """
    asked = OffsetAndEpoch(offset, epoch)
    if log.start_offset == 0 and asked == (0, 0):
        return Divergence(asked, is_valid=True)
    earliest, latest = log.earliest_snapshot_id, log.latest_snapshot_id
    if (
        earliest is not None
        and latest is not None
        and (
            offset < log.start_offset
            or (offset == log.start_offset and epoch != earliest.epoch)
            or epoch < earliest.epoch
        )
    ):
        return Divergence(latest, needs_snapshot=True)
    end = log.end_offset_for_epoch(epoch)
    if end.epoch != epoch or end.offset < offset:
        return Divergence(end)
    return Divergence(asked, is_valid=True)


def truncation_offset(log: ReplicatedLog, diverging: OffsetAndEpoch) -> int:
    """Return where this log ends once it has no more than the leader's, which says where the two part (KIP-595)."""
    if diverging.epoch == 0:
        return diverging.offset
    ours = log.end_offset_for_epoch(diverging.epoch)
    return min(ours.offset, diverging.offset) if ours.epoch == diverging.epoch else ours.offset
