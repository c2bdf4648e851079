"""The disk of a simulated machine."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from barnabas.broker.log.memory_filesystem import PAGE, MemoryFileSystem, MemorySync
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import File
    from barnabas.broker.log.memory_filesystem import Inode
    from barnabas.testing.simulator.world import World


#: What can fail apart from the rest: appends to logs, flushes, reads, writes of indexes and snapshots, of checkpoints
#: (small files that are replaced), and renames.
OPERATIONS = ("append", "sync", "read", "index", "checkpoint", "rename")
INDEXES = (".index", ".timeindex", ".txnindex", ".snapshot")


def kind_of(operation: str, path: str) -> str:
    """Which of `OPERATIONS` this is; the operation itself if it is none of them."""
    if operation == "write":
        if path.endswith(".log"):
            return "append"
        return "index" if path.endswith(INDEXES) else "checkpoint"
    return operation


class SimulatedFlush(MemorySync):
    """A flush that takes its time: what was written before it began is on the disk when it is done, and not before."""

    __slots__ = ()


class SimulatedDisk(MemoryFileSystem):
    """A disk that can be slow, full, and dead."""

    def __init__(self, world: World) -> None:
        super().__init__(world.stream("disk"))
        self._world = world
        self.slowness = 0.0
        self.errors = 0.0
        #: The operations that fail, at the rate of `errors`.
        self.failing = frozenset(OPERATIONS)
        #: The directory of a log to which nothing can be written.
        self.bad_directory = ""
        #: After how many changes the process dies from the next one on that begins a segment: what the segment before
        #: holds may not have been flushed by then.
        self.die_after_roll: int | None = None
        self.stall = 0.0
        self.fail = self._before

    def take_stall(self) -> float:
        """How long the disk has kept the broker waiting since this was last asked."""
        stall, self.stall = self.stall, 0.0
        return stall

    def _before(self, operation: str, path: str) -> OSError | None:
        if self.slowness and operation in ("write", "sync", "read"):
            self.stall += self.random.random() * self.slowness
            self._world.counts["slow operations of the disk"] += 1
        if operation == "create" and path.endswith(".log") and self.die_after_roll is not None:
            self.die_after, self.die_after_roll = self.die_after_roll, None
        kind = kind_of(operation, path)
        if self._is_bad(kind, path):
            self._world.counts[f"failed operations of the disk: {kind}"] += 1
            return OSError(errno.EIO, "Input/output error", path)
        return None

    def _is_bad(self, kind: str, path: str) -> bool:
        if self.bad_directory and kind == "append" and path.startswith(f"{self.bad_directory}/"):
            return True
        return self.errors > 0 and kind in self.failing and self.random.random() < self.errors

    def sync_in_background(self, files: list[File]) -> SimulatedFlush:
        """See `FileSystem`. It takes a while, in which the process or the machine may end."""
        flush = SimulatedFlush(self, files, [])
        begun = [
            (file.path, inode := self.inode(file.path, create=True), bytes(inode.data), inode.durable) for file in files
        ]
        self._world.counts["flushes in the background"] += 1
        self._world.after(self.random.random() * 0.2 + self.slowness, self._flushed, flush, begun, self.life)
        return flush

    def _flushed(self, flush: SimulatedFlush, begun: list[tuple[str, Inode, bytes, bytes]], life: int) -> None:
        if life != self.life:
            self._world.counts["flushes that a crash fell into"] += 1
            return
        for path, inode, written, before in begun:
            flush.error = self._before("sync", path) or flush.error
            # Who has flushed the file meanwhile has flushed more than this.
            if flush.error is None and inode.durable is before:
                inode.durable = written
        flush.done = True

    def count_unflushed(self) -> int:
        """How many files have content that a loss of power may take."""
        return sum(1 for inode in self._names.values() if inode is not None and bytes(inode.data) != inode.durable)

    def leave_room(self, size: int) -> None:
        """Let the disk be full after so many bytes more."""
        self.capacity = self._used() + size

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a page of the metadata."""
        return self.capacity is not None and self.capacity - self._used() < PAGE


class SimulatedStore(MemoryStore):
    """The metadata on the same disk: a change can fail, and then nothing was changed, and can take long."""

    def __init__(self, disk: SimulatedDisk, world: World) -> None:
        super().__init__()
        self._disk = disk
        self._world = world
        self._random = world.stream("metadata")
        self.errors = 0.0
        self.slowness = 0.0
        self.fail = self._before

    def _before(self, makes_room: bool) -> KafkaStorageError | None:
        self._disk.stall += self._random.random() * max(self.slowness, self._disk.slowness)
        is_full = self._disk.is_full and not makes_room
        if not is_full and self._random.random() >= self.errors:
            return None
        self._world.counts["failed changes of the metadata"] += 1
        return KafkaStorageError("the metadata cannot be written: disk I/O error")
