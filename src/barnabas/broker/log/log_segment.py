"""One segment of a log: a `.log` file of record batches and the indexes into it (LogSegment)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from barnabas.broker.log.abstract_index import CorruptIndexError
from barnabas.broker.log.file_records import CorruptSegmentError, FileRecords
from barnabas.broker.log.filesystem import Buffer, File, FileRegion, FileSystem
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.log_file_utils import (
    CLEANED_FILE_SUFFIX,
    INDEX_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_FILE_SUFFIX,
    TXN_INDEX_FILE_SUFFIX,
    file_name,
)
from barnabas.broker.log.offset_index import OffsetIndex
from barnabas.broker.log.time_index import TimeIndex, TimestampOffset
from barnabas.broker.log.transaction_index import TransactionIndex
from barnabas.records.batch_header import NO_TIMESTAMP, BatchHeader

if TYPE_CHECKING:
    from barnabas.broker.log.log_config import LogConfig

_logger = lazy_logger(__name__)

MAX_REMEMBERED_POSITIONS = 64


class AppendedBatch(NamedTuple):
    """What the indexes must know of a batch that is written."""

    size: int
    last_offset: int
    max_timestamp: int


class SegmentRead(NamedTuple):
    """What a read found: the position of the first batch, whole batches from there on, `available` as FetchDataInfo."""

    position: int
    data: bytes | FileRegion
    available: int


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in epoch milliseconds, its offset, and the leader epoch of its batch (-1: none)."""

    timestamp: int
    offset: int
    leader_epoch: int


class SegmentFiles(NamedTuple):
    """The files of a segment that lie there: bytes of the `.log`, and what follows the names of all of them."""

    size: int = 0
    has_txn_index: bool = False
    suffix: str = ""


class LogSegment:
    """A run of batches in one file, from `base_offset` on, with its offset, time and transaction index.

    Files are opened, and indexes read, when they are needed. An index that is missing or does not fit is rebuilt from
    the batches. Raises `OSError` from the file system and `CorruptRecordError` for bytes that are no batches.
    """

    __slots__ = (
        "_bytes_since_last_index_entry",
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
        "records",
        "roll_jitter_ms",
        "suffix",
        "txn_index",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        files: SegmentFiles = SegmentFiles(),  # noqa: B008 - it never changes
    ) -> None:
        self._filesystem = filesystem
        self._positions: dict[int, int] = {}
        self._first_batch_timestamp: int | None = None
        self._max_timestamp: TimestampOffset | None = None
        self._bytes_since_last_index_entry = 0
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = files.suffix
        self.created_ms: int | None = None
        # Spread by name and offset: the same on every start, and no two partitions roll together.
        self.roll_jitter_ms = crc32(f"{directory}/{base_offset}".encode()) % (config.segment_jitter_ms + 1)
        self.index_interval_bytes = config.index_interval_bytes
        self.records = FileRecords(filesystem, self.path(LOG_FILE_SUFFIX), files.size)
        index_size = config.segment_index_bytes
        self._offset_index = OffsetIndex(filesystem, self.path(INDEX_FILE_SUFFIX), base_offset, index_size)
        self._time_index = TimeIndex(filesystem, self.path(TIME_INDEX_FILE_SUFFIX), base_offset, index_size)
        self.txn_index = TransactionIndex(
            filesystem, self.path(TXN_INDEX_FILE_SUFFIX), base_offset, exists=files.has_txn_index
        )

    @classmethod
    def create(cls, filesystem: FileSystem, directory: str, base_offset: int, config: LogConfig) -> LogSegment:
        """Return a new, empty segment and its files."""
        segment = cls(filesystem, directory, base_offset, config)
        segment.create_files()
        if config.preallocate:
            segment.records.file.truncate(config.segment_bytes)
        return segment

    @classmethod
    def create_cleaned(cls, filesystem: FileSystem, directory: str, base_offset: int, config: LogConfig) -> LogSegment:
        """Return a new, empty segment for the cleaner, in files that end in `.cleaned`, in place of any left there."""
        segment = cls(filesystem, directory, base_offset, config, SegmentFiles(suffix=CLEANED_FILE_SUFFIX))
        segment.delete()
        segment.create_files()
        return segment

    def create_files(self) -> None:
        """Make the empty files of a new segment."""
        for suffix in SEGMENT_SUFFIXES[:3]:
            self._filesystem.create(self.path(suffix))
        self.start_empty_indexes()

    def path(self, suffix: str) -> str:
        """Return the path of one of the segment's files."""
        return f"{self.directory}/{file_name(self.base_offset, suffix)}{self.suffix}"

    def __repr__(self) -> str:
        return f"LogSegment({self.path(LOG_FILE_SUFFIX)}, {self.size} bytes)"

    @property
    def size(self) -> int:
        """The bytes of its batches."""
        return self.records.size

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
            self._check_indexes()
        except (CorruptIndexError, CorruptSegmentError) as error:
            if self.size:
                _logger().warning("%s; rebuilding the indexes of %r", error, self)
            self.rebuild_indexes()

    def _check_indexes(self) -> None:
        """Compare the last entries with the batches that they name; `CorruptIndexError` where they do not fit."""
        position = self._offset_index.last_entry.position
        if position >= self.size > 0:
            raise self._offset_index.corrupt(f"it points to byte {position} of a segment of {self.size}")
        timestamp, offset = self._time_index.last_entry
        if self._time_index.entries:
            position = self.records.find(offset, self._offset_index.lookup(offset).position)
            if position < 0 or self.records.header_at(position).max_timestamp != timestamp:
                raise self._time_index.corrupt(f"offset {offset} has not the timestamp {timestamp}")
        elif self.first_batch_timestamp >= 0:
            raise self._time_index.corrupt("it is empty")

    # -- writing -----------------------------------------------------------------------------------------------------

    def should_roll(self, config: LogConfig, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether a new segment must begin before `size` bytes up to `last_offset` are appended."""
        if self.created_ms is None:
            self.created_ms = now_ms
        present, index = self.records.size, self.offset_index
        return (
            present > config.segment_bytes - size
            or (present > 0 and self._time_waited(now_ms, max_timestamp) > config.max_segment_ms - self.roll_jitter_ms)
            or index.is_full
            or self.time_index.is_full
            or not index.can_append(last_offset)
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
            self._first_batch_timestamp = self.records.header_at(0).max_timestamp
        return self._first_batch_timestamp

    def append(self, data: Buffer, base_offset: int, batches: list[AppendedBatch]) -> None:
        """Write whole batches at the end, with one write, and bring the indexes up to date.

        When the write fails the segment is as it was before, apart from bytes behind its end: the caller cuts those.
        """
        position = self.records.size
        self.records.append(data)
        if position == 0:
            self._first_batch_timestamp = batches[0].max_timestamp
        self._remember_position(base_offset, position)
        for batch in batches:
            self._index(batch.last_offset, batch.max_timestamp, position, batch.size)
            position += batch.size
        assert position == self.records.size, f"batches end at byte {position}, the file at {self.records.size}"

    def _index(self, last_offset: int, max_timestamp: int, position: int, size: int) -> None:
        largest = self.max_timestamp
        if max_timestamp > largest.timestamp:
            largest = self._max_timestamp = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_last_index_entry > self.index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(*largest)
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
        """Return the largest timestamp, or when the file was last written if no record has one (for retention)."""
        timestamp = self.max_timestamp.timestamp
        return timestamp if timestamp >= 0 else self._filesystem.modified_ms(self.path(LOG_FILE_SUFFIX))

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(
        self, offset: int, max_size: int, max_position: int, *, min_one_message: bool, to_send: bool = False
    ) -> SegmentRead | None:
        """Whole batches from the one with `offset` on, up to `max_size` bytes and not beyond `max_position`.

        Where not even the first fits it comes nevertheless with `min_one_message`, else nothing does. None when all
        batches end before `offset`. With `to_send` much comes as a region of the file.
        """
        position = self._positions.get(offset, -1)
        if position < 0:
            position = self.locate(offset)
        if position < 0 or position >= self.size:
            return None
        available = max_position - position
        size = whole = min(max_size, available)
        if size <= 0 and not min_one_message:
            return SegmentRead(position, b"", 0)
        if position + size < self.size:
            whole = self._size_of_whole_batches(position, size)
            if whole == 0:
                whole = self.records.batch_size(b"", position)
                if not min_one_message or available < whole:
                    return SegmentRead(position, b"", 0)
        data = self.records.region(whole, position) if to_send else self.records.read(whole, position)
        # A position from memory, and an entry of the index behind it, lead past what `locate` looks at.
        self.records.batch_size(data if isinstance(data, bytes) else b"", position)
        return SegmentRead(position, data, max(size, whole))

    def remembers(self, offset: int) -> bool:
        """Whether the position of the batch with an offset is known without a search."""
        return offset in self._positions

    def _remember_position(self, offset: int, position: int) -> None:
        # A consumer asks next for what follows its last batch (`read` notes that), or for what was appended since
        # (`append` does), so fetches in sequence need neither index nor search.
        positions = self._positions
        if len(positions) >= MAX_REMEMBERED_POSITIONS:
            del positions[next(iter(positions))]
        positions[offset] = position

    def _size_of_whole_batches(self, position: int, size: int) -> int:
        """How much of the `size` bytes from the batch at `position` on belongs to batches that end within them."""
        entry = self.offset_index.last_before(position + size)
        end, next_offset = self.records.end_of_batches(max(entry.position, position), position + size)
        self._remember_position(next_offset, end)
        return end - position

    def cold_indexes(self) -> list[tuple[str, int]]:
        """Return the index files, with their sizes, that a lookup would have to wait for. Raises `OSError`."""
        found = [(index.path, index.cold_size()) for index in (self._offset_index, self._time_index)]
        return [(path, size) for path, size in found if size]

    def position_before(self, offset: int) -> int:
        """Return where a read from an offset on begins to look, without looking at the records."""
        position = self._positions.get(offset, -1)
        return position if position >= 0 else self.offset_index.lookup(offset).position

    def locate(self, offset: int) -> int:
        """Return the position of the first batch that ends at or beyond the offset, -1 when there is none."""
        slot = self.offset_index.slot_for(offset)
        entry = self.offset_index.entry(slot)
        if slot >= 0 and self.records.last_offset_at(entry.position) != entry.offset:
            _logger().warning("%r has no batch where %s leads; rebuilding its indexes", self, entry)
            self.rebuild_indexes()
            entry = self.offset_index.lookup(offset)
        return self.records.find(offset, entry.position)

    def read_next_offset(self) -> int:
        """Return the offset after the last batch; the base offset when there is none."""
        next_offset = self.base_offset
        for header, _ in self.records.batches(self.offset_index.last_entry.position, check=False):
            next_offset = header.next_offset
        return next_offset

    def scan_next_offset(self) -> int:
        """Return the offset after the last batch, by reading all of them."""
        next_offset = self.base_offset
        for header, _ in self.records.batches(0, check=False):
            next_offset = header.next_offset
        return next_offset

    def find_offset_by_timestamp(self, timestamp: int, starting_offset: int) -> TimestampAndOffset | None:
        """Return the first record at or beyond `starting_offset` with a timestamp not below the one given."""
        for header, chunk in self.records.batches(self.search_position(timestamp, starting_offset), check=False):
            if header.max_timestamp >= timestamp and header.next_offset > starting_offset:
                found = _first_record_at(chunk, header, timestamp, starting_offset)
                if found is not None:
                    return found
        return None

    def search_position(self, timestamp: int, starting_offset: int) -> int:
        """Return where `find_offset_by_timestamp` begins to look."""
        floor = self.time_index.lookup(timestamp)
        return self.offset_index.lookup(max(floor.offset, starting_offset)).position

    # -- maintenance -------------------------------------------------------------------------------------------------

    def rebuild_indexes(self) -> None:
        """Make the offset and time index anew from the batches; `CorruptSegmentError` when there are bad ones."""
        self.reset_indexes()
        position = 0
        for header, _ in self.records.batches(0, check=False):
            last_offset = header.base_offset + header.last_offset_delta
            if not self._offset_index.can_append(last_offset):
                raise CorruptSegmentError(self.records, position, f"offset {last_offset} is too far from its base")
            self._index(last_offset, header.max_timestamp, position, header.size_in_bytes)
            position += header.size_in_bytes
        self.complete_indexes()

    def start_empty_indexes(self) -> None:
        """Take the index files for empty, as the caller has seen that they are."""
        self._offset_index.start_empty(0)
        self._time_index.start_empty(0)

    def reset_indexes(self) -> None:
        """Begin with empty indexes, without reading the files."""
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
        for index in (self._offset_index, self._time_index):
            index.write()
            index.close_file()

    def restore_largest_timestamp(self) -> None:
        """Add the entry made on rolling if a loss of power took it: what has come since the last entry is looked at."""
        if self.size:
            self._recount()
            self.complete_indexes()

    def truncate_to(self, offset: int) -> int:
        """Cut the batches that reach to the offset or beyond; the offset at which the segment ends then.

        That is the offset asked for, or the start of the batch that it lay in: batches are never cut.
        """
        position = self.locate(offset)
        if position >= 0:
            offset = min(offset, self.records.header_at(position).base_offset)
            self.offset_index.truncate_to(offset)
            self.time_index.truncate_to(offset)
            self.truncate_bytes(position)
        self.txn_index.truncate_to(offset)
        self._recount()
        return offset

    def _recount(self) -> None:
        """Find what has come since the last entries of the indexes: the bytes, and the largest timestamp."""
        last = self.offset_index.last_entry
        largest = self.time_index.last_entry
        self._bytes_since_last_index_entry = 0
        for header, _ in self.records.batches(last.position, check=False):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
            if header.last_offset > last.offset or not self.offset_index.entries:
                self._bytes_since_last_index_entry += header.size_in_bytes
        self._max_timestamp = largest

    def truncate_bytes(self, size: int) -> None:
        """Cut the file behind `size` bytes."""
        self.records.truncate(size)
        self._positions.clear()
        if not size:
            self._first_batch_timestamp = None
            self.created_ms = None

    def on_become_inactive(self) -> None:
        """Complete the indexes and trim the files, for a new segment takes over."""
        self.complete_indexes()
        self.records.trim()

    def begin_flush(self) -> list[File]:
        """Write what is only in memory; the files that must be synced for the segment to be on the disk."""
        return [
            self.records.file,
            *self._offset_index.write_for_sync(),
            *self._time_index.write_for_sync(),
            *self.txn_index.files,
        ]

    def release(self) -> None:
        """Write the indexes and give open files and memory back; the next use opens them again."""
        if self._max_timestamp is not None and self._time_index.loaded:
            self._time_index.maybe_append(*self._max_timestamp)
        self._offset_index.release()
        self._time_index.release()
        self.txn_index.release()
        self._positions.clear()
        self.records.close()

    def close(self, *, trim: bool) -> None:
        """Release everything; with `trim`, cut what was preallocated behind the last batch."""
        if trim:
            self.records.trim()
        self.release()

    def abandon(self) -> None:
        """Give all handles back and write nothing: the files are to be deleted, or the disk has failed."""
        self.records.close()
        self._offset_index.close_file()
        self._time_index.close_file()

    def move_to(self, directory: str, suffix: str = "") -> None:
        """Follow a renamed directory, or files renamed with a further suffix."""
        self.abandon()
        self.directory = directory
        self.suffix = suffix
        self.records.path = self.path(LOG_FILE_SUFFIX)
        self._offset_index.path = self.path(INDEX_FILE_SUFFIX)
        self._time_index.path = self.path(TIME_INDEX_FILE_SUFFIX)
        self.txn_index.path = self.path(TXN_INDEX_FILE_SUFFIX)

    def change_suffix(self, suffix: str) -> None:
        """Rename all files of the segment: from `.deleted`, `.cleaned` or `.swap`, or none, to another of these.

        Where the first of them cannot be renamed the segment is as it was.
        """
        before, old_suffix = [self.path(kind) for kind in SEGMENT_SUFFIXES], self.suffix
        self.move_to(self.directory, suffix)
        for at, (kind, old) in enumerate(zip(SEGMENT_SUFFIXES, before, strict=True)):
            try:
                self._filesystem.rename(old, self.path(kind))
            except FileNotFoundError:
                continue
            except OSError:
                if at == 0:
                    # The log's file comes first: nothing has happened.
                    self.move_to(self.directory, old_suffix)
                raise

    def delete(self) -> None:
        """Remove all files of the segment, the log last: without it the others are strays that loading removes."""
        self.abandon()
        for suffix in reversed(SEGMENT_SUFFIXES):
            self._filesystem.remove(self.path(suffix))


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
