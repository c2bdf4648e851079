"""Which leader epoch began at which offset (LeaderEpochFileCache, KIP-101), kept in `leader-epoch-checkpoint`."""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

from barnabas.broker.log.checkpoint_files import encode_checkpoint, read_checkpoint
from barnabas.broker.log.filesystem import FileSystem, Sync

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class LeaderEpochFileCache:
    """The epochs of one log, growing in epoch and offset.

    An epoch that begins reaches the file with the log's next flush, beside the loop (`prepare_write`): until then the
    recovery point lies before its records, and recovery finds it again in their batches. What there was before is not
    looked for there, so the file is replaced as a whole and synced. A truncation writes what is left (`truncation.py`).
    """

    __slots__ = ("_entries", "_filesystem", "_on_disk", "_version", "latest_epoch", "path")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._version = 0
        self._on_disk = VersionOnDisk()
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
        if epoch != UNDEFINED_EPOCH and self._assign(EpochEntry(epoch, start_offset)):
            self._version += 1

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

    def drop_beyond(self, end_offset: int) -> bool:
        """Drop the epochs that begin at or beyond the end of the log; the file has them until `prepare_write`."""
        return self._set([entry for entry in self._entries if entry.start_offset < end_offset])

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that ended before the new start of the log, and begin the first that is left there."""
        older = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if older:
            newer = self._entries[len(older) :]
            self._set([EpochEntry(older[-1].epoch, start_offset), *newer])

    def drop_all(self) -> bool:
        """Drop everything; the file has it until `prepare_write`."""
        return self._set([])

    def clear(self) -> None:
        """Drop everything, on the disk too."""
        if self.drop_all():
            self.flush()

    def _set(self, entries: list[EpochEntry]) -> bool:
        if entries == self._entries:
            return False
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH
        self._version += 1
        return True

    def flush(self) -> None:
        """Return when the epochs are on the disk. Raises `OSError`."""
        write = self.prepare_write()
        if write is not None:
            write.run()

    def prepare_write(self) -> EpochWrite | None:
        """Return what brings the epochs to the disk, in any thread; None where the disk has them."""
        if self._on_disk.version == self._version:
            return None
        lines = [f"{epoch} {start_offset}" for epoch, start_offset in self._entries]
        return EpochWrite(self._filesystem, self.path, self._on_disk, self._version, encode_checkpoint(lines))


class VersionOnDisk:
    """Which version of the epochs the disk has; who replaces the file holds the lock."""

    __slots__ = ("lock", "version")

    def __init__(self) -> None:
        self.lock = Lock()
        self.version = 0


class EpochWrite:
    """The epochs of one moment on their way to the disk."""

    __slots__ = ("_data", "_filesystem", "_on_disk", "_path", "_version")

    def __init__(self, filesystem: FileSystem, path: str, on_disk: VersionOnDisk, version: int, data: bytes) -> None:
        self._filesystem = filesystem
        self._path = path
        self._on_disk = on_disk
        self._version = version
        self._data = data

    def run(self) -> None:
        """Return when the disk has these epochs, or later ones. Raises `OSError`."""
        with self._on_disk.lock:
            if self._version > self._on_disk.version:
                self._filesystem.replace(self._path, self._data, sync=True)
                self._on_disk.version = self._version


class EpochsNotWrittenError(OSError):
    """The records of a flush are on the disk, the leader epochs are not; the file has the older ones."""


class SyncWithEpochs:
    """A flush of a log in which a leader epoch has begun since the last one.

    Its `error` is the one of the records if both have failed, else `EpochsNotWrittenError`.
    """

    __slots__ = ("_epochs", "_sync", "done", "error")

    def __init__(self, epochs: EpochWrite, sync: Sync) -> None:
        self._epochs = epochs
        self._sync = sync
        self.done = False
        self.error: OSError | None = None

    def run(self) -> None:
        """See `Sync`."""
        not_written: EpochsNotWrittenError | None = None
        try:
            self._epochs.run()
        except OSError as error:
            not_written = EpochsNotWrittenError(error.errno, f"the leader epochs were not written: {error}")
        self._sync.run()
        self.error = self._sync.error or not_written
        self.done = True
