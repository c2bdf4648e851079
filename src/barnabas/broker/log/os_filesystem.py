"""The file system of the operating system, behind the port `FileSystem`."""

from __future__ import annotations

import os
import time
from collections import deque
from errno import EIO
from typing import IO, TYPE_CHECKING, ClassVar

from barnabas.broker.log.filesystem import Buffer, DirectoryEntry, DirectoryLockedError, FileRegion

if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import SimpleQueue

    from barnabas.broker.log.filesystem import File

DIRECTORY_MODE = 0o755
PRIVATE_DIRECTORY_MODE = 0o700
FILE_MODE = 0o644
PRIVATE_FILE_MODE = 0o600
#: From this size on a file's bytes go to a socket without being read; below, a call more would cost more than it saves.
WORTH_SENDING = 64 * 1024

#: One byte in so many is looked at to tell whether a part of a file is in the cache.
_PROBE_EVERY = 1 << 20
#: So much is brought in with one read.
_READ_AT_ONCE = 1 << 18


def _probe() -> Callable[[int, int], bool]:
    """Return what tells whether a byte of a file is in the system's cache; everything is where that cannot be told."""
    flag = getattr(os, "RWF_NOWAIT", 0)
    if not flag:
        return lambda descriptor, position: True
    byte = [bytearray(1)]

    def is_cached(descriptor: int, position: int) -> bool:
        try:
            os.preadv(descriptor, byte, position, flag)
        except BlockingIOError:
            return False
        except OSError:
            # A file system that does not know the flag, or a failure that the read itself meets.
            return True
        return True

    return is_cached


is_byte_cached = _probe()


class OsFile:
    """A file of the operating system that may be closed under it and opens again when it is used."""

    __slots__ = ("_fd", "_owner", "path", "used")

    def __init__(self, path: str, owner: OsFileSystem) -> None:
        self.path = path
        self.used = True
        self._owner = owner
        self._fd = -1

    def descriptor(self) -> int:
        """Return the file's descriptor, opened if it has none."""
        self.used = True
        if self._fd < 0:
            self._owner.make_room()
            self._fd = os.open(self.path, self._owner.open_flags, FILE_MODE)
            self._owner.opened.append(self)
        return self._fd

    def release(self) -> None:
        """Close the descriptor, for want of room; the next use opens another."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def pread(self, size: int, position: int) -> bytes:
        """See `File`."""
        return os.pread(self.descriptor(), size, position)

    def region(self, size: int, position: int) -> bytes | FileRegion:
        """See `File`."""
        return FileRegion(self, position, size) if size >= WORTH_SENDING else self.pread(size, position)

    def is_cached(self, size: int, position: int) -> bool:
        """See `File`: one byte in so many is looked at, from the last one on, for the cache loses the oldest first."""
        descriptor = self.descriptor()
        return all(is_byte_cached(descriptor, at) for at in range(position + size - 1, position - 1, -_PROBE_EVERY))

    def pwrite(self, data: Buffer, position: int) -> None:
        """See `File`."""
        descriptor = self.descriptor()
        written = os.pwrite(descriptor, data, position)
        size = len(data)
        while written < size:
            written += os.pwrite(descriptor, memoryview(data)[written:], position + written)

    def truncate(self, size: int) -> None:
        """See `File`."""
        os.ftruncate(self.descriptor(), size)

    def size(self) -> int:
        """See `File`."""
        # It may be asked because no descriptor could be opened.
        return os.stat(self.path if self._fd < 0 else self._fd).st_size

    def sync(self) -> None:
        """See `File`."""
        started = time.perf_counter()
        os.fsync(self.descriptor())
        self._owner.note_flush(started)

    def close(self) -> None:
        """See `File`."""
        if self._fd >= 0:
            self.release()
            self._owner.opened.remove(self)


class OsSync:
    """Descriptors on their way to the disk, and directories after them."""

    __slots__ = ("_note_flush", "descriptors", "directories", "done", "error")

    def __init__(self, descriptors: list[int], directories: list[str], note_flush: Callable[[float], None]) -> None:
        self.descriptors = descriptors
        self.directories = directories
        self._note_flush = note_flush
        self.done = False
        self.error: OSError | None = None

    def run(self) -> None:
        """See `Sync`. All descriptors are closed, even if one fails."""
        for directory in self.directories:
            try:
                self.descriptors.append(os.open(directory, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                self.error = error
        for descriptor in self.descriptors:
            try:
                self._flush(descriptor)
            except OSError as error:
                self.error = error
            except Exception as problem:  # noqa: BLE001 - what is not known to be on the disk counts as lost
                self.error = OSError(EIO, f"the flush has failed: {problem!r}")
        self.done = True

    def _flush(self, descriptor: int) -> None:
        try:
            started = time.perf_counter()
            os.fsync(descriptor)
            self._note_flush(started)
        finally:
            os.close(descriptor)


class OsDirectoryLock:
    """A POSIX lock on a file, the kind that Apache Kafka takes too, so that neither starts on the other's data."""

    _held: ClassVar[set[tuple[int, int]]] = set()

    def __init__(self, path: str) -> None:
        # POSIX locks do not stop the same process, and closing any handle of the file gives the lock up:
        # so the process keeps its own list and looks there first.
        import fcntl

        self._key: tuple[int, int] | None = None
        if os.path.exists(path) and self._identity(os.stat(path)) in self._held:
            raise DirectoryLockedError(f"{path} is held by another broker in this process")
        self._file: IO[bytes] = open(path, "a+b")  # noqa: SIM115 - held open as long as the lock is held
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise DirectoryLockedError(f"{path} is held by another process") from error
        self._key = self._identity(os.fstat(self._file.fileno()))
        self._held.add(self._key)

    @staticmethod
    def _identity(status: os.stat_result) -> tuple[int, int]:
        return status.st_dev, status.st_ino

    def release(self) -> None:
        """See `DirectoryLock`."""
        if self._key is not None:
            self._held.discard(self._key)
            self._key = None
            self._file.close()


class OsFileSystem:
    """The operating system's files. Keeps at most `max_open_files` descriptors open and reopens files as needed.

    By default that is half of what the process may have, so that as many are left for connections. With `read_only`
    files are neither made nor written, for tools that only look.
    """

    def __init__(self, max_open_files: int | None = None, *, read_only: bool = False) -> None:
        if max_open_files is None:
            import resource

            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            max_open_files = 1 << 16 if limit == resource.RLIM_INFINITY else max(limit // 2, 16)
        self.max_open_files = max_open_files
        self.open_flags = (os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT) | os.O_CLOEXEC
        self.opened: deque[OsFile] = deque()
        self._syncs: SimpleQueue[OsSync] | None = None
        #: How long each flush took, in seconds; None where flushes are not measured.
        self.flush_seconds: deque[float] | None = None

    def make_room(self) -> None:
        """Close a file that was not used lately, if as many as allowed are open (the clock algorithm)."""
        while len(self.opened) >= self.max_open_files:
            file = self.opened.popleft()
            if file.used:
                file.used = False
                self.opened.append(file)
            else:
                file.release()

    def open(self, path: str) -> OsFile:
        """See `FileSystem`."""
        return OsFile(path, self)

    def bring_in(self, path: str, size: int, position: int) -> None:
        """See `FileSystem`."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return
        try:
            end = position + size
            while position < end and (read := len(os.pread(descriptor, min(_READ_AT_ONCE, end - position), position))):
                position += read
        except OSError:
            return
        finally:
            os.close(descriptor)

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """See `FileSystem`."""
        with os.scandir(path) as entries:
            return sorted(
                DirectoryEntry(entry.name, True, 0)
                if entry.is_dir()
                else DirectoryEntry(entry.name, False, entry.stat().st_size)
                for entry in entries
            )

    def exists(self, path: str) -> bool:
        """See `FileSystem`."""
        return os.path.exists(path)

    def read(self, path: str) -> bytes:
        """See `FileSystem`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, os.fstat(descriptor).st_size)
        finally:
            os.close(descriptor)

    def create(self, path: str) -> None:
        """See `FileSystem`."""
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))

    def replace(self, path: str, data: bytes, *, sync: bool, private: bool = False) -> None:
        """See `FileSystem`."""
        temporary = path + ".tmp"
        mode = PRIVATE_FILE_MODE if private else FILE_MODE
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def rename(self, old: str, new: str) -> None:
        """See `FileSystem`."""
        os.replace(old, new)

    def remove(self, path: str) -> None:
        """See `FileSystem`."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_directory(self, path: str) -> None:
        """See `FileSystem`."""
        os.rmdir(path)

    def make_directory(self, path: str, *, private: bool = False) -> None:
        """See `FileSystem`."""
        os.makedirs(path, PRIVATE_DIRECTORY_MODE if private else DIRECTORY_MODE, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        """See `FileSystem`."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            started = time.perf_counter()
            os.fsync(descriptor)
            self.note_flush(started)
        finally:
            os.close(descriptor)

    def note_flush(self, started: float) -> None:
        """Keep how long a flush took that began then, if flushes are measured; from any thread."""
        if self.flush_seconds is not None:
            self.flush_seconds.append(time.perf_counter() - started)

    def prepare_sync(self, files: list[File], directories: list[str]) -> OsSync:
        """See `FileSystem`. The flush gets descriptors of its own, for those here may be closed meanwhile."""
        descriptors = [os.dup(file.descriptor()) for file in files if isinstance(file, OsFile)]
        return OsSync(descriptors, directories, self.note_flush)

    def sync_in_background(self, files: list[File], directories: list[str]) -> OsSync:
        """See `FileSystem`."""
        sync = self.prepare_sync(files, directories)
        if self._syncs is None:
            self._syncs = _start_sync_thread()
        self._syncs.put(sync)
        return sync

    def is_directory(self, path: str) -> bool:
        """See `FileSystem`."""
        return os.path.isdir(path)

    def modified_ms(self, path: str) -> int:
        """See `FileSystem`."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def disk_space(self, path: str) -> tuple[int, int]:
        """See `FileSystem`."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: str) -> OsDirectoryLock:
        """See `FileSystem`."""
        return OsDirectoryLock(path)


def _start_sync_thread() -> SimpleQueue[OsSync]:
    from queue import SimpleQueue
    from threading import Thread

    syncs: SimpleQueue[OsSync] = SimpleQueue()

    def run() -> None:
        while True:
            syncs.get().run()

    Thread(target=run, name="log-flusher", daemon=True).start()
    return syncs
