"""One segment of a log: a `.log` file of record batches and the indexes into it (LogSegment)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.abstract_index import CorruptIndexError
from barnabas.broker.log.filesystem import Buffer, File, FileSystem
from barnabas.broker.log.log_file_utils import (
    INDEX_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_FILE_SUFFIX,
    TXN_INDEX_FILE_SUFFIX,
    file_name,
)
from barnabas.broker.log.offset_index import OffsetIndex, OffsetPosition
from barnabas.broker.log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from barnabas.broker.log.transaction_index import TransactionIndex
from barnabas.errors import CorruptRecordError
from barnabas.records.batch_header import BatchHeader, check_crc, read_header

if TYPE_CHECKING:
    from barnabas.broker.log.log_config import LogConfig

SCAN_CHUNK = 4 << 20
LOCATE_CHUNK = 64 << 10
MAX_REMEMBERED_POSITIONS = 64
_SIZE_PREFIX = 12
_LEGACY_HEAD_SIZE = 17
_HEAD_SIZE = 27
_BASE_OFFSET_LENGTH = Struct(">qI")
_LAST_OFFSET_DELTA = Struct(">I")


class AppendedBatch(NamedTuple):
    """What the indexes must know of a batch that is written."""

    size: int
    last_offset: int
    max_timestamp: int


class SegmentRead(NamedTuple):
    """What a read found: the position of the first batch, and the bytes from there on."""

    position: int
    data: bytes
    first_entry_incomplete: bool


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in epoch milliseconds, its offset, and the leader epoch of its batch (-1: none)."""

    timestamp: int
    offset: int
    leader_epoch: int


class LogSegment:
    """A run of batches in one file, from `base_offset` on, with its offset, time and transaction index.

    Files are opened, and indexes read, when they are needed. An index that is missing or does not fit is rebuilt from
    the batches. Raises `OSError` from the file system and `CorruptRecordError` for bytes that are no batches.
    """

    __slots__ = (
        "_bytes_since_last_index_entry",
        "_file",
        "_filesystem",
        "_first_batch_timestamp",
        "_max_timestamp",
        "_offset_index",
        "_positions",
        "_time_index",
        "base_offset",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "roll_jitter_ms",
        "size",
        "suffix",
        "txn_index",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size: int = 0,
        has_txn_index: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self._file: File | None = None
        self._positions: dict[int, int] = {}
        self._first_batch_timestamp: int | None = None
        self._max_timestamp: TimestampOffset | None = None
        self._bytes_since_last_index_entry = 0
        self.directory = directory
        self.base_offset = base_offset
        self.size = size
        self.suffix = ""
        self.created_ms: int | None = None
        self.roll_jitter_ms = 0
        self.index_interval_bytes = config.index_interval_bytes
        index_size = config.segment_index_bytes
        self._offset_index = OffsetIndex(filesystem, self.path(INDEX_FILE_SUFFIX), base_offset, index_size)
        self._time_index = TimeIndex(filesystem, self.path(TIME_INDEX_FILE_SUFFIX), base_offset, index_size)
        self.txn_index = TransactionIndex(
            filesystem, self.path(TXN_INDEX_FILE_SUFFIX), base_offset, exists=has_txn_index
        )

    @classmethod
    def create(cls, filesystem: FileSystem, directory: str, base_offset: int, config: LogConfig) -> LogSegment:
        """A new, empty segment and its files."""
        segment = cls(filesystem, directory, base_offset, config)
        for suffix in SEGMENT_SUFFIXES[:3]:
            filesystem.create(segment.path(suffix))
        segment.start_empty_indexes()
        if config.preallocate:
            segment.file.truncate(config.segment_bytes)
        return segment

    def path(self, suffix: str) -> str:
        """The path of one of the segment's files."""
        return f"{self.directory}/{file_name(self.base_offset, suffix)}{self.suffix}"

    def __repr__(self) -> str:
        return f"LogSegment({self.path(LOG_FILE_SUFFIX)}, {self.size} bytes)"

    @property
    def file(self) -> File:
        """The `.log` file, opened when first needed."""
        if self._file is None:
            self._file = self._filesystem.open(self.path(LOG_FILE_SUFFIX))
        return self._file

    @property
    def offset_index(self) -> OffsetIndex:
        """The offset index, read (or rebuilt) when first needed."""
        if not self._offset_index.loaded:
            self._load_indexes()
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, read (or rebuilt) when first needed."""
        if not self._time_index.loaded:
            self._load_indexes()
        return self._time_index

    def _load_indexes(self) -> None:
        try:
            self._offset_index.load()
            self._time_index.load()
            last = self._offset_index.last_entry
            if last.position >= self.size and last.position > 0:
                raise self._offset_index.corrupt(f"it points to byte {last.position} of a segment of {self.size}")
        except CorruptIndexError as error:
            if self.size:
                from logging import getLogger

                getLogger(__name__).warning("%s; rebuilding the indexes of %r", error, self)
            self.rebuild_indexes()

    # -- writing -----------------------------------------------------------------------------------------------------

    def should_roll(self, config: LogConfig, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether a new segment must begin before `size` bytes up to `last_offset` are appended."""
        if self.created_ms is None:
            self.created_ms = now_ms
        return (
            self.size > config.segment_bytes - size
            or (self.size > 0 and self._time_waited(now_ms, max_timestamp) > config.segment_ms - self.roll_jitter_ms)
            or self.offset_index.is_full
            or self.time_index.is_full
            or not self.offset_index.can_append(last_offset)
        )

    def _time_waited(self, now_ms: int, max_timestamp: int) -> int:
        first = self.first_batch_timestamp
        if first >= 0:
            return max_timestamp - first
        return now_ms - (self.created_ms if self.created_ms is not None else now_ms)

    @property
    def first_batch_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 when there is none; rolling by time counts from it."""
        if self._first_batch_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            header = next((header for header, _ in self.batches(0, check=False)), None)
            self._first_batch_timestamp = header.max_timestamp if header else NO_TIMESTAMP
        return self._first_batch_timestamp

    def append(self, data: Buffer, base_offset: int, batches: list[AppendedBatch]) -> None:
        """Write whole batches at the end, with one write, and bring the indexes up to date.

        When the write fails the segment is as it was before, apart from bytes behind its end: the caller cuts those.
        """
        position = self.size
        self.file.pwrite(data, position)
        if position == 0:
            self._first_batch_timestamp = batches[0].max_timestamp
        self._remember_position(base_offset, position)
        self.size = position + len(data)
        for batch in batches:
            self._index(batch.last_offset, batch.max_timestamp, position, batch.size)
            position += batch.size

    def _index(self, last_offset: int, max_timestamp: int, position: int, size: int) -> None:
        if max_timestamp > self.max_timestamp.timestamp:
            self._max_timestamp = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_last_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*self.max_timestamp)
            self._bytes_since_last_index_entry = 0
        self._bytes_since_last_index_entry += size

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp in the segment and the last offset of its batch; (-1, base offset) when empty."""
        found = self._max_timestamp
        if found is None:
            found = self._max_timestamp = self.time_index.last_entry
        return found

    def largest_timestamp(self) -> int:
        """The largest timestamp, or when the file was last written if no record has one (for retention)."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._filesystem.modified_ms(self.path(LOG_FILE_SUFFIX))

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_size: int, max_position: int, *, min_one_message: bool) -> SegmentRead | None:
        """Bytes from the batch with `offset` on, up to `max_size` and not beyond `max_position`.

        The last batch may come cut; the first comes whole if `min_one_message`. None when all batches end before
        `offset`.
        """
        position = self._positions.get(offset, -1)
        if position < 0:
            position = self.locate(offset)
        if position < 0 or position >= self.size:
            return None
        limit = max_position - position
        data = self.file.pread(min(max_size, limit), position) if max_size > 0 and limit > 0 else b""
        first = self._batch_size(data, position)
        if len(data) < first:
            if min_one_message and limit >= first:
                data = self.file.pread(first, position)
            else:
                return SegmentRead(position, data, True)
        self._remember_end(data, position)
        return SegmentRead(position, data, False)

    def _batch_size(self, data: bytes, position: int) -> int:
        prefix = data if len(data) >= _SIZE_PREFIX else self.file.pread(_SIZE_PREFIX, position)
        return _SIZE_PREFIX + int.from_bytes(prefix[8:_SIZE_PREFIX], "big")

    def _remember_position(self, offset: int, position: int) -> None:
        # A consumer asks next for what follows its last batch, or for what was appended since: those positions are
        # kept, so that fetches in sequence need neither index nor search.
        positions = self._positions
        if len(positions) >= MAX_REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        positions[offset] = position

    def _remember_end(self, data: bytes, position: int) -> None:
        entry = self.offset_index.last_before(position + len(data))
        start = max(entry.position - position, 0)
        next_offset = -1
        while (header := read_header(data, start)) is not None:
            start += header.size_in_bytes
            next_offset = header.next_offset
        if next_offset >= 0:
            self._remember_position(next_offset, position + start)

    def locate(self, offset: int) -> int:
        """The position of the first batch that ends at or beyond the offset, -1 when there is none."""
        slot = self.offset_index.slot_for(offset)
        entry = self.offset_index.entry(slot)
        if slot >= 0 and not self._confirms(entry):
            from logging import getLogger

            getLogger(__name__).warning("%s has no batch that %s leads to; rebuilding its indexes", self, entry)
            self.rebuild_indexes()
            return self.locate(offset)
        position = entry.position
        while position < self.size:
            chunk = self.file.pread(min(LOCATE_CHUNK, self.size - position), position)
            start = 0
            while (head := _head_of(chunk, start)) is not None:
                if position + start + head[1] > self.size:
                    raise CorruptSegmentError(self, position + start, f"a batch claims {head[1]} bytes")
                if head[0] >= offset:
                    return position + start
                start += head[1]
            if start == 0:
                raise CorruptSegmentError(self, position, f"{len(chunk)} bytes are no batch")
            position += start
        return -1

    def _confirms(self, entry: OffsetPosition) -> bool:
        head = _head_of(self.file.pread(_HEAD_SIZE, entry.position), 0)
        return head is not None and head[0] == entry.offset

    def batches(self, position: int, *, check: bool) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches from a position to the end: header and the chunk of the file to which its position refers.

        Raises `CorruptRecordError`, whose `position` says where, when what follows is no whole batch or (with
        `check`) fails its checksum.
        """
        end = self.size
        wanted = SCAN_CHUNK
        while position < end:
            chunk = self.file.pread(min(wanted, end - position), position)
            used = 0
            try:
                while (header := read_header(chunk, used)) is not None:
                    if check:
                        check_crc(chunk, header)
                    yield header, chunk
                    used += header.size_in_bytes
            except CorruptRecordError as error:
                raise CorruptSegmentError(self, position + used, str(error)) from error
            if used == 0:
                if len(chunk) < wanted:
                    raise CorruptSegmentError(self, position, f"the batch is cut after {len(chunk)} bytes")
                wanted = max(self._batch_size(chunk, position), wanted * 2)
                continue
            position += used
            wanted = SCAN_CHUNK

    def read_next_offset(self) -> int:
        """The offset after the last batch; the base offset when there is none."""
        next_offset = self.base_offset
        for header, _ in self.batches(self.offset_index.last_entry.position, check=False):
            next_offset = header.next_offset
        return next_offset

    def scan_next_offset(self) -> int:
        """The offset after the last batch, by reading all of them."""
        next_offset = self.base_offset
        for header, _ in self.batches(0, check=False):
            next_offset = header.next_offset
        return next_offset

    def next_sound_batch(self, position: int) -> int | None:
        """Where, after a damaged batch at `position`, a whole batch with a right checksum begins; None for nowhere.

        Looks where the damaged batch says that it ends, then through the next megabytes byte by byte.
        """
        claimed: int = _BASE_OFFSET_LENGTH.unpack(self.file.pread(_SIZE_PREFIX, position).ljust(_SIZE_PREFIX, b"\0"))[1]
        follows = position + _SIZE_PREFIX + claimed
        if follows < self.size and self._is_sound(follows):
            return follows
        data = self.file.pread(min(SCAN_CHUNK, self.size - position), position)
        start = 1
        # The two high bytes of offset and length are zero in almost every batch, the magic is 2 in all.
        while (start := data.find(b"\0\0", start)) >= 0:
            magic = start + _LEGACY_HEAD_SIZE - 1
            if magic < len(data) and data[magic] == 2 and self._is_sound(position + start):
                return position + start
            start += 1
        return None

    def _is_sound(self, position: int) -> bool:
        try:
            found = next(self.batches(position, check=True), None)
        except CorruptRecordError:
            return False
        return found is not None

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
        """The first record at or beyond `starting_offset` with a timestamp not below the one given."""
        floor = self.time_index.lookup(timestamp)
        position = self.offset_index.lookup(max(floor.offset, starting_offset)).position
        for header, chunk in self.batches(position, check=False):
            if header.max_timestamp >= timestamp and header.next_offset > starting_offset:
                found = _first_record_at(chunk, header, timestamp, starting_offset)
                if found is not None:
                    return found
        return None

    # -- maintenance -------------------------------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Make the offset and time index anew from the batches; `CorruptSegmentError` when there are bad ones."""
        self.reset_indexes()
        position = 0
        for header, _ in self.batches(0, check=False):
            self._index(
                header.base_offset + header.last_offset_delta, header.max_timestamp, position, header.size_in_bytes
            )
            position += header.size_in_bytes
        self.complete_indexes()

    def start_empty_indexes(self) -> None:
        """Take the index files for empty, as the caller has seen that they are."""
        self._offset_index.start_empty(0)
        self._time_index.start_empty(0)

    def reset_indexes(self) -> None:
        """Begin with empty indexes, whatever the files hold."""
        self._offset_index.start_empty()
        self._time_index.start_empty()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_last_index_entry = 0

    def index_recovered(self, header: BatchHeader, position: int) -> None:
        """Take a batch that recovery found good into the indexes."""
        last_offset = header.base_offset + header.last_offset_delta
        self._index(last_offset, header.max_timestamp, position, header.size_in_bytes)

    def complete_indexes(self) -> None:
        """Add the entry that tells the largest timestamp of all, and write the index files."""
        self.time_index.maybe_append(*self.max_timestamp)
        self.write_indexes()

    def write_indexes(self) -> None:
        """Bring the index files up to date, without waiting for the disk."""
        self._offset_index.write()
        self._time_index.write()

    def truncate_bytes(self, size: int) -> None:
        """Cut the file behind `size` bytes."""
        self.file.truncate(size)
        self.size = size
        self._positions.clear()
        if not size:
            self._first_batch_timestamp = None
            self.created_ms = None

    def on_become_inactive(self) -> None:
        """Complete the indexes and trim the files, for a new segment takes over."""
        self.complete_indexes()
        if self.file.size() != self.size:
            self.file.truncate(self.size)

    def flush(self) -> None:
        """Return when the batches and their indexes are on the disk."""
        self.file.sync()
        self._offset_index.flush()
        self._time_index.flush()
        self.txn_index.flush()

    def release(self) -> None:
        """Write the indexes and give open files and memory back; the next use opens them again."""
        if self._max_timestamp is not None and self._time_index.loaded:
            self._time_index.maybe_append(*self._max_timestamp)
        self._offset_index.release()
        self._time_index.release()
        self.txn_index.release()
        self._positions.clear()
        self.close_file()

    def close(self, *, trim: bool) -> None:
        """Release everything; with `trim`, cut what was preallocated behind the last batch."""
        if trim and self.file.size() != self.size:
            self.file.truncate(self.size)
        self.release()

    def close_file(self) -> None:
        """Give the handle of the `.log` file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def abandon(self) -> None:
        """Give all handles back and write nothing: the files are to be deleted, or the disk has failed."""
        self.close_file()
        self._offset_index.close_file()
        self._time_index.close_file()

    def move_to(self, directory: str, suffix: str = "") -> None:
        """Follow a renamed directory, or files renamed with a further suffix."""
        self.abandon()
        self.directory = directory
        self.suffix = suffix
        self._offset_index.path = self.path(INDEX_FILE_SUFFIX)
        self._time_index.path = self.path(TIME_INDEX_FILE_SUFFIX)
        self.txn_index.path = self.path(TXN_INDEX_FILE_SUFFIX)

    def change_suffix(self, suffix: str) -> None:
        """Rename all files of the segment: from `.deleted`, `.cleaned` or `.swap`, or none, to another of these."""
        before = [self.path(kind) for kind in SEGMENT_SUFFIXES]
        self.move_to(self.directory, suffix)
        for kind, old in zip(SEGMENT_SUFFIXES, before, strict=True):
            try:
                self._filesystem.rename(old, self.path(kind))
            except FileNotFoundError:
                continue

    def delete(self) -> None:
        """Remove all files of the segment, the log last: without it the others are strays that loading removes."""
        self.abandon()
        for suffix in reversed(SEGMENT_SUFFIXES):
            self._filesystem.remove(self.path(suffix))


class CorruptSegmentError(CorruptRecordError):
    """A segment holds, at `position`, something that is no whole and sound batch."""

    def __init__(self, segment: LogSegment, position: int, reason: str) -> None:
        super().__init__(f"{segment.path(LOG_FILE_SUFFIX)} at byte {position} of {segment.size}: {reason}")
        self.position = position


def _head_of(chunk: bytes, start: int) -> tuple[int, int] | None:
    """Last offset and size of a batch of which perhaps only the head lies in the chunk."""
    available = len(chunk) - start
    if available < _LEGACY_HEAD_SIZE:
        return None
    base_offset, length = _BASE_OFFSET_LENGTH.unpack_from(chunk, start)
    if chunk[start + _LEGACY_HEAD_SIZE - 1] < 2:
        return base_offset, _SIZE_PREFIX + length
    if available < _HEAD_SIZE:
        return None
    return base_offset + _LAST_OFFSET_DELTA.unpack_from(chunk, start + 23)[0], _SIZE_PREFIX + length


def _first_record_at(
    chunk: bytes, header: BatchHeader, timestamp: int, starting_offset: int
) -> TimestampAndOffset | None:
    from barnabas.records import read_batches

    data = memoryview(chunk)[header.position : header.position + header.size_in_bytes]
    for batch in read_batches(data):
        for record in batch:
            if record.timestamp >= timestamp and record.offset >= starting_offset:
                return TimestampAndOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
