"""Record batches in a file (FileRecords): finding, scanning, appending, cutting."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from barnabas.broker.log.filesystem import Buffer, File, FileRegion, FileSystem
from barnabas.errors import CorruptRecordError
from barnabas.records.batch_header import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LAST_OFFSET_PREFIX,
    LEGACY_HEADER_SIZES,
    LOG_OVERHEAD,
    MAGIC_AT,
    BatchHeader,
    check_crc,
    read_header,
)

SCAN_CHUNK = 4 << 20
FIND_CHUNK = 64 << 10
HEADS_CHUNK = 4 << 10

SMALLEST_BATCH = LOG_OVERHEAD + LEGACY_HEADER_SIZES[0]

# Unsigned: what a damaged batch claims never leads backwards.
_BASE_OFFSET_LENGTH = Struct(">qI")
_LAST_OFFSET_DELTA = Struct(">I")
# Base offset below 2^48, length below 2^24, magic 2.
_LIKELY_BATCH = rb"(?s)(?=\0\0.{6}\0.{7}\x02)"


class CorruptSegmentError(CorruptRecordError):
    """A file holds, at `position`, something that is no whole and sound batch."""

    def __init__(self, records: FileRecords, position: int, reason: str) -> None:
        super().__init__(f"{records.path} at byte {position} of {records.size}: {reason}")
        self.position = position


class FileRecords:
    """A file of record batches, one behind the other; opened when needed. What lies beyond `size` does not count.

    Raises `OSError`, and `CorruptSegmentError` for bytes that are no batches.
    """

    __slots__ = ("_file", "_filesystem", "path", "size")

    def __init__(self, filesystem: FileSystem, path: str, size: int) -> None:
        self._filesystem = filesystem
        self._file: File | None = None
        self.path = path
        self.size = size

    @property
    def file(self) -> File:
        """The open file."""
        if self._file is None:
            self._file = self._filesystem.open(self.path)
        return self._file

    def append(self, data: Buffer) -> None:
        """Write at the end, with one write. If that fails nothing has changed but bytes beyond `size`."""
        self.file.pwrite(data, self.size)
        self.size += len(data)

    def read(self, size: int, position: int) -> bytes:
        """Up to `size` bytes from a position."""
        return self.file.pread(min(size, self.size - position), position) if position < self.size and size > 0 else b""

    def region(self, size: int, position: int) -> bytes | FileRegion:
        """Like `read`; for a large range a `FileRegion`, which the socket sends without reading it (sendfile)."""
        left = self.size - position
        return self.file.region(min(size, left), position) if left > 0 and size > 0 else b""

    def batch_size(self, data: Buffer, position: int) -> int:
        """Return the size of the batch at a position, from which `data` was read, perhaps not all of it, or nothing."""
        prefix = data if len(data) >= LOG_OVERHEAD else self.read(LOG_OVERHEAD, position)
        if len(prefix) < LOG_OVERHEAD:
            raise CorruptSegmentError(self, position, f"{len(prefix)} bytes are no batch")
        size = LOG_OVERHEAD + int(_BASE_OFFSET_LENGTH.unpack_from(prefix)[1])
        self._check_size(size, position)
        return size

    def _check_size(self, size: int, position: int) -> None:
        if not SMALLEST_BATCH <= size <= self.size - position:
            raise CorruptSegmentError(self, position, f"a batch claims {size} bytes")

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch that begins at a position."""
        return self._read_batch(position)[0]

    def _read_batch(self, position: int) -> tuple[BatchHeader, bytes]:
        size = self.batch_size(b"", position)
        data = self.file.pread(size, position)
        header = read_header(data)
        if header is None:
            raise CorruptSegmentError(self, position, f"a batch of {size} bytes is cut")
        return header, data

    def last_offset_at(self, position: int) -> int:
        """Return the last offset of the batch at a position, -1 if there is none."""
        head = _head_of(self.read(LAST_OFFSET_PREFIX, position), 0)
        return -1 if head is None else head[0]

    def find(self, offset: int, position: int) -> int:
        """Return the position, from `position` on, of the first batch that ends at or beyond an offset; -1 for none."""
        while position < self.size:
            chunk = self.read(FIND_CHUNK, position)
            start = 0
            while (head := _head_of(chunk, start)) is not None:
                self._check_size(head[1], position + start)
                if head[0] >= offset:
                    return position + start
                start += head[1]
            if start == 0:
                raise CorruptSegmentError(self, position, f"{len(chunk)} bytes are no batch")
            position += start
        return -1

    def end_of_batches(self, position: int, end: int) -> tuple[int, int]:
        """Where, of the batches from `position` on, the last ends that is whole before `end`; and the offset there.

        A batch whose size cannot be right is not whole.
        """
        next_offset = -1
        while True:
            chunk = self.read(HEADS_CHUNK, position)
            start = 0
            while (head := _head_of(chunk, start)) is not None and SMALLEST_BATCH <= head[1] <= end - position - start:
                next_offset = head[0] + 1
                start += head[1]
            if start == 0:
                return position, next_offset if next_offset >= 0 else int.from_bytes(chunk[:8], "big")
            position += start

    def batches(self, position: int, *, check: bool) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches from a position on: header, and the piece of the file to which its position refers.

        Raises `CorruptSegmentError` where what follows is no whole batch or, with `check`, fails its checksum.
        """
        scan = BatchScan(self, position, check=check)
        while not scan.is_over:
            yield from scan.next_batches()

    def next_sound_batch(self, position: int) -> int | None:
        """Where, behind a damaged batch at `position`, a whole batch with a right checksum begins; None for nowhere.

        Looks where the damaged batch says that it ends, then through the next megabytes.
        """
        import contextlib
        import re

        data = self.read(SCAN_CHUNK, position)
        candidates = [match.start() for match in re.finditer(_LIKELY_BATCH, data) if match.start()]
        with contextlib.suppress(CorruptSegmentError):
            candidates.insert(0, self.batch_size(data, position))
        return next((position + start for start in candidates if self._is_sound(position + start)), None)

    def _is_sound(self, position: int) -> bool:
        if self.size - position < HEADER_SIZE:
            return False
        try:
            header, data = self._read_batch(position)
            check_crc(data, header)
        except CorruptRecordError:
            return False
        return True

    def truncate(self, size: int) -> None:
        """Cut the file behind `size` bytes."""
        self.file.truncate(size)
        self.size = size

    def trim(self) -> None:
        """Cut what lies beyond the last batch: preallocated room, or the rest of a failed write.

        Where the file could not even be opened nothing was written.
        """
        if self._file is not None and self._file.size() != self.size:
            self._file.truncate(self.size)

    def close(self) -> None:
        """Give the handle back; the next use opens another."""
        if self._file is not None:
            self._file.close()
            self._file = None


class BatchScan:
    """A walk through the batches of a file from a position on, a piece at a time.

    `next_batches` reads `size` bytes from `position` on; who must not wait for the disk has them brought in before.
    """

    __slots__ = ("_check", "_wanted", "position", "records")

    def __init__(self, records: FileRecords, position: int, *, check: bool) -> None:
        self.records = records
        self._check = check
        self._wanted = SCAN_CHUNK
        self.position = position

    @property
    def is_over(self) -> bool:
        """Whether the end of the file is reached."""
        return self.position >= self.records.size

    @property
    def size(self) -> int:
        """How many bytes the next piece has."""
        return min(self._wanted, self.records.size - self.position)

    def next_batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches of the next piece, to be taken to the end; none where it is too small for one.

        Raises as `FileRecords.batches`.
        """
        records, check = self.records, self._check
        chunk = records.read(self._wanted, self.position)
        used = 0
        try:
            while (header := read_header(chunk, used)) is not None:
                if check:
                    check_crc(chunk, header)
                yield header, chunk
                used += header.size_in_bytes
        except CorruptSegmentError:
            raise
        except CorruptRecordError as error:
            raise CorruptSegmentError(records, self.position + used, str(error)) from error
        if used:
            self.position += used
            self._wanted = SCAN_CHUNK
        elif len(chunk) < self._wanted:
            raise CorruptSegmentError(records, self.position, f"a batch is cut after {len(chunk)} bytes")
        else:
            self._wanted = min(max(records.batch_size(chunk, self.position), self._wanted * 2), records.size)


def _head_of(chunk: bytes, start: int) -> tuple[int, int] | None:
    """Last offset and size of a batch of which perhaps only the head lies in the chunk."""
    available = len(chunk) - start
    if available <= MAGIC_AT:
        return None
    base_offset, length = _BASE_OFFSET_LENGTH.unpack_from(chunk, start)
    if chunk[start + MAGIC_AT] < CURRENT_MAGIC:
        return base_offset, LOG_OVERHEAD + length
    if available < LAST_OFFSET_PREFIX:
        return None
    delta = _LAST_OFFSET_DELTA.unpack_from(chunk, start + LAST_OFFSET_DELTA_AT)[0]
    return base_offset + delta, LOG_OVERHEAD + length
