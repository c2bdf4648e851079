"""What the offset index and the time index have in common (AbstractIndex).

The entries of an index are kept in memory once it is used, and written to the file when the segment is flushed,
rolled or closed. That loses nothing: all that lies beyond the recovery point is rebuilt after a crash anyway, and
what lies before it was flushed, index and all. So the file is never preallocated as Apache Kafka's mapped files are;
a closed index is the same to the byte.
"""

from __future__ import annotations

from barnabas.broker.log.filesystem import File, FileSystem
from barnabas.errors import KafkaError

UNKNOWN_SIZE = -1


class CorruptIndexError(KafkaError):
    """An index file does not fit its segment; it must be rebuilt."""


class AbstractIndex:
    """An index file of one segment, loaded when it is first used."""

    __slots__ = (
        "_file",
        "_file_size",
        "_filesystem",
        "_synced",
        "_written",
        "base_offset",
        "loaded",
        "max_entries",
        "path",
    )

    ENTRY_SIZE: int

    def __init__(self, filesystem: FileSystem, path: str, base_offset: int, max_index_size: int) -> None:
        self._filesystem = filesystem
        self._file: File | None = None
        self._file_size = UNKNOWN_SIZE
        self._synced = True
        self._written = 0
        self.path = path
        self.base_offset = base_offset
        self.max_entries = max_index_size // self.ENTRY_SIZE
        self.loaded = False

    @property
    def entries(self) -> int:
        """How many entries the index holds."""
        raise NotImplementedError

    def _encode(self, first: int, end: int) -> bytes:
        """Return the bytes of the entries from `first` to before `end`."""
        raise NotImplementedError

    def _decode(self, data: bytes) -> None:
        """Take the entries from a file's content; `CorruptIndexError` when they are out of order."""
        raise NotImplementedError

    def _cut(self, entries: int) -> None:
        """Keep the first `entries` in memory."""
        raise NotImplementedError

    @property
    def file(self) -> File:
        """The index file, opened (and made) when first needed."""
        if self._file is None:
            self._file = self._filesystem.open(self.path)
        return self._file

    def corrupt(self, reason: str) -> CorruptIndexError:
        """Return the error for this index."""
        return CorruptIndexError(f"index {self.path} is corrupt: {reason}")

    def cold_size(self) -> int:
        """Return how many bytes the next use would have to wait for; 0 if none. Raises `OSError`."""
        if self.loaded or not self._filesystem.exists(self.path):
            return 0
        size = self.file.size()
        return 0 if not size or self.file.is_cached(size, 0) else size

    def load(self) -> None:
        """Read the file; `CorruptIndexError` when it cannot be this segment's index, or is not there."""
        if not self._filesystem.exists(self.path):
            raise self.corrupt("it is missing")
        data = self._filesystem.read(self.path)
        if len(data) % self.ENTRY_SIZE:
            raise self.corrupt(f"{len(data)} bytes are no multiple of {self.ENTRY_SIZE}")
        self._decode(data)
        self._written = self.entries
        self._file_size = len(data)
        self.loaded = True

    def start_empty(self, file_size: int = UNKNOWN_SIZE) -> None:
        """Begin with no entries, without reading the file; the file is cut at the next `write`."""
        self._cut(0)
        self._written = 0
        self._file_size = file_size
        self.loaded = True

    def truncate_entries(self, entries: int) -> None:
        """Keep the first `entries`, in memory and in the file."""
        self._cut(entries)
        if self._written > entries:
            self._written = entries
            self._resize(entries * self.ENTRY_SIZE)

    def write(self) -> None:
        """Bring the file up to date and to its exact size."""
        if not self.loaded:
            return
        entries = self.entries
        size = entries * self.ENTRY_SIZE
        if entries > self._written:
            self.file.pwrite(self._encode(self._written, entries), self._written * self.ENTRY_SIZE)
            self._written = entries
            self._synced = False
            self._file_size = max(self._file_size, size) if self._file_size != UNKNOWN_SIZE else UNKNOWN_SIZE
        if self._file_size != size:
            self._resize(size)

    def _resize(self, size: int) -> None:
        self.file.truncate(size)
        self._file_size = size
        self._synced = False

    def write_for_sync(self) -> list[File]:
        """Write, and give the file if the disk lacks something of it; the caller syncs it."""
        self.write()
        if self._synced:
            return []
        self._synced = True
        return [self.file]

    def release(self) -> None:
        """Write what is new and forget the entries and the open file until they are needed again."""
        if self.loaded:
            self.write()
            self._cut(0)
            self.loaded = False
        self.close_file()

    def close_file(self) -> None:
        """Give the file handle back."""
        if self._file is not None:
            self._file.close()
            self._file = None
