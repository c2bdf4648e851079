"""The disk of a simulated machine."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.log.memory_filesystem import PAGE, MemoryFileSystem, MemorySync, ProcessDiedError
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
    """A flush that may take its time: what was written before it was prepared is on the disk when it has run."""

    __slots__ = ("_begun", "_disk")

    def __init__(self, disk: SimulatedDisk, files: list[File], directories: list[str]) -> None:
        super().__init__(disk, [], directories)
        self._disk = disk
        self._begun: list[tuple[str, Inode, bytes, bytes]] = []
        for file in files:
            inode = disk.inode(file.path, create=True)
            self._begun.append((file.path, inode, bytes(inode.data), inode.durable))

    def __len__(self) -> int:
        return len(self._begun)

    def run(self) -> None:
        """See `Sync`."""
        self.run_files(len(self._begun))
        super().run()

    def run_files(self, count: int) -> None:
        """Bring only the first so many files to the disk: the process or the machine ends in the middle of a flush."""
        for path, inode, written, before in self._begun[:count]:
            self.error = self._disk.fails("sync", path) or self.error
            # Who has flushed the file meanwhile has flushed more than this.
            if self.error is None and inode.durable is before:
                inode.durable = written


class SimulatedDisk(MemoryFileSystem):
    """A disk that can be slow, full, and dead."""

    def __init__(self, world: World, died: Callable[[ProcessDiedError], None], name: str = "disk") -> None:
        super().__init__(world.stream(name))
        self._world = world
        #: What is told when the process dies in the work of a storage thread.
        self._died = died
        self.has_journal = world.stream(f"kind of {name}").random() < 0.5
        self.slowness = 0.0
        self.errors = 0.0
        #: The operations that fail, at the rate of `errors`.
        self.failing = frozenset(OPERATIONS)
        #: The directory of a log to which nothing can be written.
        self.bad_directory = ""
        #: A directory below which nothing works.
        self.lost_directory = ""
        #: After how many changes the process dies from the next one on that begins a segment: what the segment before
        #: holds may not have been flushed by then.
        self.die_after_roll: int | None = None
        self.stall = 0.0
        self.fail = self.fails
        self._prepared: list[SimulatedFlush] = []

    def crash(self) -> None:
        """See `MemoryFileSystem`. Flushes that were prepared and have not run are done in part, or not at all."""
        for flush in self._prepared:
            if not flush.done and self.random.random() < 0.5:
                self._world.counts["flushes that a crash fell into"] += 1
                flush.run_files(self.random.randint(0, len(flush)))
        self._prepared = []
        super().crash()

    def take_stall(self) -> float:
        """How long the disk has kept the broker waiting since this was last asked."""
        stall, self.stall = self.stall, 0.0
        return stall

    def fails(self, operation: str, path: str) -> OSError | None:
        """Return what an operation is to fail with."""
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
        if self.lost_directory and f"{path}/".startswith(f"{self.lost_directory}/"):
            return True
        if self.bad_directory and kind == "append" and path.startswith(f"{self.bad_directory}/"):
            return True
        return self.errors > 0 and kind in self.failing and self.random.random() < self.errors

    def prepare_sync(self, files: list[File], directories: list[str]) -> SimulatedFlush:
        """See `FileSystem`."""
        flush = SimulatedFlush(self, files, directories)
        self._prepared = [*self._prepared[-7:], flush]
        return flush

    def sync_in_background(self, files: list[File], directories: list[str]) -> SimulatedFlush:
        """See `FileSystem`. It takes a while, in which the process or the machine may end."""
        flush = self.prepare_sync(files, directories)
        self.later(flush.run)
        return flush

    def later(self, work: Callable[[], None]) -> None:
        """Do what a thread does that waits for the disk, unless the process has ended by then."""
        self._world.counts["flushes in the background"] += 1
        self._world.after(self.random.random() * 0.2 + self.slowness, self._done, work, self.life)

    def _done(self, work: Callable[[], None], life: int) -> None:
        if life != self.life:
            self._world.counts["work of storage threads that a crash fell into"] += 1
            return
        try:
            work()
        except ProcessDiedError as death:
            self._died(death)

    def count_unflushed(self) -> int:
        """How many files have content that a loss of power may take."""
        return sum(1 for inode in self._names.values() if inode is not None and bytes(inode.data) != inode.durable)

    def leave_room(self, size: int) -> None:
        """Let the disk be full after so many bytes more."""
        self.capacity = self._used() + size

    @property
    def refuses(self) -> bool:
        """Whether operations may fail at the moment in a directory that is there."""
        return self.errors > 0 or bool(self.bad_directory) or self.capacity is not None

    @property
    def is_faulty(self) -> bool:
        """Whether operations may fail at the moment."""
        return self.refuses or bool(self.lost_directory)

    @property
    def is_full(self) -> bool:
        """Whether there is no room for a page of the metadata."""
        return self.capacity is not None and self.capacity - self._used() < PAGE


class SimulatedStorage:
    """The threads that wait for the disk: what they have done is taken up in a later turn of the broker's loop."""

    def __init__(self, disk: SimulatedDisk, wake: Callable[[], None]) -> None:
        self._disk = disk
        self._wake = wake
        self._in_flight: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self._done: deque[Callable[[], None]] = deque()

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See `Storage`."""
        entry = work, done
        self._in_flight.append(entry)

        def finish() -> None:
            # Unless a caller could not wait (`drain`).
            if entry in self._in_flight:
                self._finish(entry)
                self._wake()

        self._disk.later(finish)

    def _finish(self, entry: tuple[Callable[[], None], Callable[[], None]]) -> None:
        work, done = entry
        self._in_flight.remove(entry)
        work()
        self._done.append(done)

    def deliver(self) -> None:
        """Take up what is done."""
        while self._done:
            self._done.popleft()()

    def drain(self) -> None:
        """See `Storage`."""
        while self._in_flight or self._done:
            if self._in_flight:
                self._finish(self._in_flight[0])
            self.deliver()


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
