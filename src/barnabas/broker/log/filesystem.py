"""The storage port: the only way of the log to the file system.

Everything in this room goes through a `FileSystem`: that of the operating system (`os_filesystem`), or the simulator's
in memory, which tears writes, runs full and loses power (`memory_filesystem`). All operations raise `OSError` and
nothing else; the log turns it into `KafkaStorageError`. Paths are strings; file offsets and sizes are bytes.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol

from barnabas.protocol.buffer import Buffer as Buffer
from barnabas.protocol.stored_records import StoredRecords


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: str
    is_directory: bool
    size: int


class DirectoryLockedError(OSError):
    """Another broker, in this process or another, uses the directory."""


class File(Protocol):
    """An open file, read and written at positions; it keeps no position of its own."""

    path: str

    def pread(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""

    def region(self, size: int, position: int) -> bytes | FileRegion:
        """As `pread`, for who sends the bytes to a socket at once: of a large file, they need not be read for that."""

    def is_cached(self, size: int, position: int) -> bool:
        """Whether a part can be read without waiting for the disk, as far as can be told."""

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` at `position` with one system call, or with more only where the first came back short."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""

    def size(self) -> int:
        """Return the file's size in bytes."""

    def sync(self) -> None:
        """Return when all that was written is on the disk."""

    def close(self) -> None:
        """Give the handle back; closing twice is harmless."""


class DirectoryLock(Protocol):
    """A lock that keeps every other broker out of a directory."""

    def release(self) -> None:
        """Let others in."""


class Sync(Protocol):
    """A flush: what `run`, in any thread, brings to the disk; `error` is what came of it when it is `done`."""

    done: bool
    error: OSError | None

    def run(self) -> None:
        """Return when all is on the disk that was written before the flush was prepared, or an error says otherwise."""


class FileSystem(Protocol):
    """The operations on names that the log needs."""

    def open(self, path: str) -> File:
        """Open for reading and writing, creating the file where there is none."""

    def bring_in(self, path: str, size: int, position: int) -> None:
        """Read a part of a file into the system's cache, in any thread; errors are left to who reads it next."""

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Return the entries of a directory, sorted by name."""

    def exists(self, path: str) -> bool:
        """Whether the name exists."""

    def read(self, path: str) -> bytes:
        """Return the whole content of a file."""

    def create(self, path: str) -> None:
        """Make an empty file where there is none."""

    def replace(self, path: str, data: bytes, *, sync: bool, private: bool = False) -> None:
        """Put `data` in place of the file's content, all of it or nothing; on the disk before return if `sync`.

        A `private` file can be read by its owner only.
        """

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory a new name, in place of what had it."""

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""

    def make_directory(self, path: str, *, private: bool = False) -> None:
        """Make a directory and its parents; one that is there is no error. A private one is its owner's only."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk."""

    def prepare_sync(self, files: list[File], directories: list[str]) -> Sync:
        """Return a flush of files and of the names in directories, which is not run yet."""

    def sync_in_background(self, files: list[File], directories: list[str]) -> Sync:
        """Begin to bring files, and names in directories, to the disk; the answer tells when they are there."""

    def is_directory(self, path: str) -> bool:
        """Whether the name exists and is a directory."""

    def modified_ms(self, path: str) -> int:
        """When the file was last written, epoch milliseconds."""

    def disk_space(self, path: str) -> tuple[int, int]:
        """Return the bytes of the disk that holds a directory, and those of them that this process may still use."""

    def lock(self, path: str) -> DirectoryLock:
        """Take the lock file `path`; `DirectoryLockedError` when another holds it."""


class SendableFile(Protocol):
    """What a region needs of a file of the operating system."""

    path: str

    def descriptor(self) -> int:
        """Return the file's descriptor."""

    def pread(self, size: int, position: int) -> bytes:
        """See `File`."""


class FileRegion(StoredRecords):
    """A part of an open file, from `position` on. It is to be sent at once: later the file may be gone."""

    __slots__ = ("_file", "_position", "_size")

    def __init__(self, file: SendableFile, position: int, size: int) -> None:
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"FileRegion({self._file.path}, {self._size} bytes from {self._position} on)"

    def send(self, socket: int) -> int:
        """Give the descriptor of a socket as much as it has room for, without reading it; how much that was."""
        sent = 0
        try:
            while sent < self._size:
                count = os.sendfile(socket, self._file.descriptor(), self._position + sent, self._size - sent)
                if count == 0:
                    break
                sent += count
        except BlockingIOError:
            pass
        return sent

    def read(self, start: int = 0) -> bytes:
        """Return the bytes from `start` on, all of them; `OSError` if the file has become shorter."""
        data = self._file.pread(self._size - start, self._position + start)
        if len(data) < self._size - start:
            raise OSError(f"{self._file.path} has become shorter than {self._position + self._size} bytes")
        return data
