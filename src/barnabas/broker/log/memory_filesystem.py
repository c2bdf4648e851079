"""Files in memory that can fail as disks do: full, broken, killed in the middle of a write, without power.

The simulator and the tests put a log on this. As with an operating system, what is written is seen at once and
survives the end of the process (`crash`), but reaches the disk only with `sync`: `power_loss` takes any part of the
rest, page by page, and undoes changes of names from some point on.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from barnabas.broker.log.filesystem import Buffer, DirectoryEntry, DirectoryLockedError, File

PAGE = 4096


class ProcessDiedError(BaseException):
    """The process was killed at this operation; a `BaseException`, so that no handler of errors carries on."""


class Inode:
    """The content of a file: as the system sees it, and as the disk has it."""

    __slots__ = ("data", "durable", "modified_ms")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable = bytes(data)
        self.modified_ms = 0

    def lose_power(self, random: Random) -> None:
        """Keep what was synced, and of the pages changed since any."""
        size = len(self.durable)
        if len(self.data) != size:
            size = random.randint(min(size, len(self.data)), max(size, len(self.data)))
        result = bytearray(self.durable[:size].ljust(size, b"\0"))
        for start in range(0, size, PAGE):
            if random.random() < 0.5:
                page = self.data[start : min(start + PAGE, size)]
                result[start : start + len(page)] = page
        self.data = result
        self.durable = bytes(result)


class NameChange(NamedTuple):
    """A name that came or went; changes made by one operation reach the disk together."""

    path: str
    added: bool
    inode: Inode | None


class MemoryFile:
    """An open file of a `MemoryFileSystem`."""

    __slots__ = ("_filesystem", "_life", "path")

    def __init__(self, filesystem: MemoryFileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._life = filesystem.life
        self.path = path

    def _inode(self) -> Inode:
        if self._life != self._filesystem.life:
            raise OSError(errno.EBADF, "the process that opened the file has ended", self.path)
        return self._filesystem.inode(self.path, create=True)

    def pread(self, size: int, position: int) -> bytes:
        """See `File`."""
        self._filesystem.check("read", self.path)
        return bytes(self._inode().data[position : position + size])

    def region(self, size: int, position: int) -> bytes:
        """See `File`."""
        return self.pread(size, position)

    def is_cached(self, size: int, position: int) -> bool:
        """See `File`."""
        return self.path not in self._filesystem.cold

    def pwrite(self, data: Buffer, position: int) -> None:
        """See `File`."""
        inode = self._inode()
        self._filesystem.write(inode, self.path, data, position)

    def truncate(self, size: int) -> None:
        """See `File`."""
        inode = self._inode()
        self._filesystem.change("truncate", self.path)
        del inode.data[size:]
        inode.data.extend(bytes(size - len(inode.data)))

    def size(self) -> int:
        """See `File`."""
        return len(self._inode().data)

    def sync(self) -> None:
        """See `File`."""
        inode = self._inode()
        self._filesystem.check("sync", self.path)
        inode.durable = bytes(inode.data)

    def close(self) -> None:
        """See `File`."""


class MemorySync:
    """A flush of a `MemoryFileSystem`; it brings to the disk what is written when it runs."""

    __slots__ = ("_directories", "_files", "_filesystem", "done", "error")

    def __init__(self, filesystem: MemoryFileSystem, files: list[File], directories: list[str]) -> None:
        self._filesystem = filesystem
        self._files = files
        self._directories = directories
        self.done = False
        self.error: OSError | None = None

    def run(self) -> None:
        """See `Sync`."""
        for file in self._files:
            try:
                file.sync()
            except OSError as error:
                self.error = error
        for directory in self._directories:
            try:
                self._filesystem.sync_directory(directory)
            except OSError as error:
                self.error = error
        self.done = True


class MemoryLock:
    """A lock of a `MemoryFileSystem`."""

    __slots__ = ("_filesystem", "_path")

    def __init__(self, filesystem: MemoryFileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def release(self) -> None:
        """See `DirectoryLock`."""
        self._filesystem.locks.discard(self._path)


class MemoryFileSystem:
    """A disk in memory.

    `capacity` bounds the bytes of all files; `cold` ones have to be brought in before they are read without waiting.
    `fail(operation, path)` is asked before each operation and may return an error for it. `die_after` counts the
    changes (writes, renames, ...) that are still carried out; the next one is carried out in part, if it is a write,
    and raises `ProcessDiedError`, as does everything after it until `crash`. `random` decides how much of that write is
    done.
    """

    def __init__(self, random: Random, capacity: int | None = None) -> None:
        self.random = random
        self.capacity = capacity
        self.fail: Callable[[str, str], OSError | None] | None = None
        self.die_after: int | None = None
        self.changes = 0
        self.life = 0
        self.now_ms = 0
        #: Whether syncing one directory brings all earlier changes of names to the disk, as the journals of ext4 and
        #: XFS do; POSIX promises that directory's own only.
        self.has_journal = True
        self.locks: set[str] = set()
        #: Files of which nothing is in the cache.
        self.cold: set[str] = set()
        self._names: dict[str, Inode | None] = {"": None}
        self._durable_names: dict[str, Inode | None] = {"": None}
        self._unsynced_names: list[list[NameChange]] = []

    # -- ends --------------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """Let the process end: locks go, open files go, everything written stays."""
        self.life += 1
        self.die_after = None
        self.locks.clear()

    def power_loss(self) -> None:
        """Let the machine lose power: of what was not synced, any part is gone."""
        self.crash()
        kept = self.random.randint(0, len(self._unsynced_names))
        for changes in self._unsynced_names[:kept]:
            self._apply(self._durable_names, changes)
        self._unsynced_names.clear()
        self._durable_names = {name: inode for name, inode in self._durable_names.items() if self._is_reachable(name)}
        self._names = dict(self._durable_names)
        for inode in {id(found): found for found in self._names.values() if found is not None}.values():
            inode.lose_power(self.random)
        self.cold = set(self._names)

    def wipe(self, path: str) -> None:
        """Take away a directory with all in it: another disk, an empty one, is there in its place."""
        for names in (self._names, self._durable_names):
            for name in [name for name in names if f"{name}/".startswith(f"{path}/")]:
                del names[name]
        self._unsynced_names = [
            [change for change in changes if not f"{change.path}/".startswith(f"{path}/")]
            for changes in self._unsynced_names
        ]

    def _is_reachable(self, path: str) -> bool:
        """Whether the disk has every directory that leads to a file."""
        while path:
            path = path.rpartition("/")[0]
            if path not in self._durable_names:
                return False
        return True

    @staticmethod
    def _apply(names: dict[str, Inode | None], changes: list[NameChange]) -> None:
        for change in changes:
            if change.added:
                names[change.path] = change.inode
            else:
                names.pop(change.path, None)

    def check(self, operation: str, path: str) -> None:
        """Raise what the operation is to fail with."""
        if self.die_after is not None and self.die_after < 0:
            raise ProcessDiedError(f"{operation} {path}")
        error = self.fail(operation, path) if self.fail is not None else None
        if error is not None:
            raise error

    def change(self, operation: str, path: str) -> None:
        """Count a change before it is made."""
        self.check(operation, path)
        self.changes += 1
        if self.die_after is not None:
            self.die_after -= 1
            if self.die_after < 0:
                raise ProcessDiedError(f"{operation} {path}")

    def write(self, inode: Inode, path: str, data: Buffer, position: int) -> None:
        """Write, whole or as far as the disk and the life of the process reach."""
        try:
            self.change("write", path)
        except ProcessDiedError:
            self._put(inode, data[: self.random.randint(0, len(data))], position)
            raise
        if self.capacity is not None:
            room = self.capacity - self._used() + len(inode.data) - position
            if room < len(data):
                self._put(inode, data[: max(room, 0)], position)
                raise OSError(errno.ENOSPC, "no space left", path)
        self._put(inode, data, position)

    def _used(self) -> int:
        return sum(len(found.data) for found in self._names.values() if found is not None)

    def _put(self, inode: Inode, data: Buffer, position: int) -> None:
        inode.data.extend(bytes(max(position - len(inode.data), 0)))
        inode.data[position : position + len(data)] = data
        inode.modified_ms = self.now_ms

    # -- names -------------------------------------------------------------------------------------------------------

    def inode(self, path: str, *, create: bool = False) -> Inode:
        """Return the content of a file."""
        found = self._names.get(path)
        if found is not None:
            return found
        if not create or path in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        self.change("create", path)
        self._check_parent(path)
        found = Inode()
        found.modified_ms = self.now_ms
        self._note([NameChange(path, True, found)])
        return found

    def _check_parent(self, path: str) -> None:
        if path.rpartition("/")[0] not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)

    def _note(self, changes: list[NameChange]) -> None:
        self._apply(self._names, changes)
        self._unsynced_names.append(changes)

    def open(self, path: str) -> MemoryFile:
        """See `FileSystem`."""
        self.check("open", path)
        return MemoryFile(self, path)

    def bring_in(self, path: str, size: int, position: int) -> None:
        """See `FileSystem`."""
        self.cold.discard(path)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """See `FileSystem`."""
        self.check("list", path)
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        found = []
        for name, inode in self._names.items():
            parent, _, last = name.rpartition("/")
            if parent == path and last:
                found.append(DirectoryEntry(last, inode is None, 0 if inode is None else len(inode.data)))
        return sorted(found)

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return path in self._names

    def is_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        return path in self._names and self._names[path] is None

    def read(self, path: str) -> bytes:
        """See `FileSystem`."""
        self.check("read", path)
        return bytes(self.inode(path).data)

    def create(self, path: str) -> None:
        """See `FileSystem`."""
        self.inode(path, create=True)

    def replace(self, path: str, data: bytes, *, sync: bool, private: bool = False) -> None:
        """See `FileSystem`."""
        temporary = path + ".tmp"
        inode = self.inode(temporary, create=True)
        inode.data.clear()
        self.write(inode, temporary, data, 0)
        if sync:
            self.check("sync", temporary)
            inode.durable = bytes(inode.data)
        self.rename(temporary, path)
        if sync:
            self.sync_directory(path.rpartition("/")[0])

    def rename(self, old: str, new: str) -> None:
        """See `FileSystem`."""
        if old not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", old)
        self.change("rename", old)
        moved = [(old, self._names[old])]
        if self._names[old] is None:
            moved += [(name, inode) for name, inode in self._names.items() if name.startswith(old + "/")]
        removed = [NameChange(name, False, None) for name, _ in moved]
        self._note(removed + [NameChange(new + name[len(old) :], True, inode) for name, inode in moved])

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        if path in self._names:
            self.change("remove", path)
            self._note([NameChange(path, False, None)])

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        if self.list_directory(path):
            raise OSError(errno.ENOTEMPTY, "directory not empty", path)
        self.change("remove", path)
        self._note([NameChange(path, False, None)])

    def make_directory(self, path: str, *, private: bool = False) -> None:
        """See `FileSystem`."""
        parts = path.split("/")
        for at in range(1, len(parts) + 1):
            name = "/".join(parts[:at])
            if name not in self._names:
                self.change("mkdir", name)
                self._note([NameChange(name, True, None)])

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        self.check("sync", path)
        path = path.rstrip("/")
        left = []
        for changes in self._unsynced_names:
            if self.has_journal or any(change.path.rpartition("/")[0] == path for change in changes):
                self._apply(self._durable_names, changes)
            else:
                left.append(changes)
        self._unsynced_names = left

    def prepare_sync(self, files: list[File], directories: list[str]) -> MemorySync:
        """See `FileSystem`."""
        return MemorySync(self, files, directories)

    def sync_in_background(self, files: list[File], directories: list[str]) -> MemorySync:
        """See `FileSystem`. It is over when it has begun."""
        sync = self.prepare_sync(files, directories)
        sync.run()
        return sync

    def modified_ms(self, path: str) -> int:
        """See `FileSystem`."""
        return self.inode(path).modified_ms

    def disk_space(self, path: str) -> tuple[int, int]:
        """See `FileSystem`. A disk without bounds is one of a terabyte."""
        capacity = self.capacity if self.capacity is not None else 1 << 40
        return capacity, max(capacity - self._used(), 0)

    def lock(self, path: str) -> MemoryLock:
        """See `FileSystem`."""
        if path in self.locks:
            raise DirectoryLockedError(f"{path} is held")
        self.create(path)
        self.locks.add(path)
        return MemoryLock(self, path)
