"""Which leader epoch began at which offset (LeaderEpochFileCache, KIP-101), kept in `leader-epoch-checkpoint`."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.log.checkpoints import encode_checkpoint, read_checkpoint
from barnabas.broker.log.filesystem import FileSystem

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class LeaderEpochFileCache:
    """The epochs of one log, growing in epoch and offset.

    A new epoch is in the file before its first record is in the log. As long as there is one epoch, the disk has it
    only after `flush`: after a power loss the epoch of records that survived is found again in their batches. What
    there was before another epoch came is not looked for there, so a file with several is synced.
    """

    __slots__ = ("_dirty", "_entries", "_filesystem", "latest_epoch", "path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._dirty = False
        self._entries: list[EpochEntry] = []
        self.path = path
        self.latest_epoch = UNDEFINED_EPOCH

    def load(self) -> None:
        """Read the file; `CorruptCheckpointError` when it cannot be understood."""
        for epoch, start_offset in read_checkpoint(self._filesystem, self.path, 2):
            self._assign(EpochEntry(int(epoch), int(start_offset)))

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """All epochs, oldest first."""
        return tuple(self._entries)

    def _assign(self, entry: EpochEntry) -> bool:
        entries = self._entries
        if entries and entry.epoch == entries[-1].epoch and entry.start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= entry.epoch or entries[-1].start_offset >= entry.start_offset):
            entries.pop()
        entries.append(entry)
        self.latest_epoch = entry.epoch
        return True

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that the epoch's records begin at the offset; entries that contradict that are dropped."""
        before = len(self._entries)
        if epoch != UNDEFINED_EPOCH and self._assign(EpochEntry(epoch, start_offset)):
            self._write(sync=max(before, len(self._entries)) > 1)

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch in which the offset was (or will be) written, -1 when it is not known."""
        found = UNDEFINED_EPOCH
        for epoch, start_offset in self._entries:
            if start_offset > offset:
                break
            found = epoch
        return found

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEntry:
        """Return the largest epoch not above the one asked for, and the offset at which it ends (OffsetForLeaderEpoch).

        Both are -1 when the epoch is unknown or lies beyond the latest.
        """
        if epoch == UNDEFINED_EPOCH or epoch > self.latest_epoch:
            return EpochEntry(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == self.latest_epoch:
            return EpochEntry(epoch, log_end_offset)
        floor = max((entry.epoch for entry in self._entries if entry.epoch <= epoch), default=epoch)
        higher = next(entry for entry in self._entries if entry.epoch > epoch)
        return EpochEntry(floor, higher.start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that begin at or beyond the new end of the log."""
        kept = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before the new start of the log, and begin the first that is left there."""
        older = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if older:
            newer = self._entries[len(older) :]
            self._replace([EpochEntry(older[-1].epoch, start_offset), *newer])

    def clear(self) -> None:
        """Drop everything."""
        self._replace([])

    def _replace(self, entries: list[EpochEntry]) -> None:
        if entries != self._entries:
            before = len(self._entries)
            self._entries = entries
            self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
            self._write(sync=max(before, len(entries)) > 1)

    def _write(self, *, sync: bool) -> None:
        lines = [f"{epoch} {start_offset}" for epoch, start_offset in self._entries]
        self._dirty = not sync
        self._filesystem.replace(self.path, encode_checkpoint(lines), sync=sync)

    def flush(self) -> None:
        """Return when the epochs are on the disk."""
        if self._dirty:
            self._write(sync=True)
