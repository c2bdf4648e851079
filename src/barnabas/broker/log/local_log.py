"""The segments of one partition on disk: append, read, roll, flush, truncate, delete (LocalLog)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.fetch_data_info import FetchDataInfo
from barnabas.broker.log.log_file_utils import DELETED_FILE_SUFFIX, SEGMENT_SUFFIXES, SWAP_FILE_SUFFIX, file_name
from barnabas.broker.log.log_segment import AppendedBatch, LogSegment
from barnabas.broker.log.log_segments import LogSegments
from barnabas.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.filesystem import Buffer, File, FileSystem, Sync
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.transaction_index import AbortedTxn


class LocalLog:
    """Batches in files; knows nothing of producers, epochs or the high watermark. Raises `OSError` from the disk."""

    __slots__ = (
        "_most_flushed",
        "config",
        "directory",
        "filesystem",
        "is_touched",
        "log_end_offset",
        "on_touched",
        "recovery_point",
        "segments",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        config: LogConfig,
        segments: LogSegments,
        log_end_offset: int,
        recovery_point: int,
    ) -> None:
        self.filesystem = filesystem
        self.directory = directory
        self.config = config
        self.segments = segments
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        #: Up to where a flush has begun since the last truncation, at most.
        self._most_flushed = recovery_point
        #: Whether `on_touched` was called since the background work has looked at the log.
        self.is_touched = False
        self.on_touched: Callable[[], None] = lambda: None

    def touch(self) -> None:
        """Have the background work look at the log: something has changed that may be of concern to it."""
        if not self.is_touched:
            self.is_touched = True
            self.on_touched()

    @property
    def unflushed_messages(self) -> int:
        """How many records a power loss might take."""
        return self.log_end_offset - self.recovery_point

    def append(self, data: Buffer, first_offset: int, batches: list[AppendedBatch]) -> None:
        """Write batches at the end of the active segment."""
        assert first_offset >= self.log_end_offset, f"{first_offset} would be written behind {self.log_end_offset}"
        self.segments.active.append(data, first_offset, batches)
        assert batches[-1].last_offset >= first_offset
        self.log_end_offset = batches[-1].last_offset + 1
        if not self.is_touched:
            self.touch()

    def read(
        self,
        offset: int,
        max_bytes: int,
        max_offset: int,
        *,
        min_one_message: bool,
        include_aborted: bool,
        to_send: bool = False,
    ) -> FetchDataInfo:
        """Bytes of batches from the one with `offset` on and below `max_offset`; `OffsetOutOfRangeError`."""
        segment = self.segments.floor(offset)
        if segment is None or offset > self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.directory} was asked for; it holds offsets up to {self.log_end_offset}"
            )
        while segment is not None and offset < max_offset:
            end = self._max_position(segment, max_offset)
            found = segment.read(offset, max_bytes, end, min_one_message=min_one_message, to_send=to_send)
            if found is not None:
                if segment is not self.segments.active:
                    self.segments.used(segment)
                aborted = None
                if include_aborted:
                    aborted = self._aborted_for(segment, offset, found.position + len(found.data))
                return FetchDataInfo(found.data, found.available, aborted)
            segment = self.segments.higher(segment.base_offset)
        return FetchDataInfo(b"", 0, [] if include_aborted else None)

    def remembers(self, offset: int) -> bool:
        """Whether a read from an offset needs no search: it follows what was read or appended last."""
        segment = self.segments.floor(offset)
        return segment is not None and segment.remembers(offset)

    def _max_position(self, segment: LogSegment, max_offset: int) -> int:
        if max_offset >= self.log_end_offset:
            return segment.size
        following = self.segments.higher(segment.base_offset)
        if following is not None and following.base_offset <= max_offset:
            return segment.size
        position = segment.locate(max_offset)
        return segment.size if position < 0 else position

    def _aborted_for(self, segment: LogSegment, offset: int, end_position: int) -> list[AbortedTxn]:
        entry = segment.offset_index.first_from(end_position)
        if entry is not None:
            upper = entry.offset
        else:
            following = self.segments.higher(segment.base_offset)
            upper = following.base_offset if following is not None else self.log_end_offset
        return self.collect_aborted(segment, offset, upper)

    def collect_aborted(self, segment: LogSegment | None, offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Return the aborted transactions that concern [offset, upper_bound), from the index of this segment on."""
        found: list[AbortedTxn] = []
        while segment is not None:
            more, complete = segment.txn_index.collect_aborted_txns(offset, upper_bound)
            found += more
            if complete:
                break
            segment = self.segments.higher(segment.base_offset)
        return found

    def roll(self) -> LogSegment:
        """Begin a new active segment at the end of the log; the old one becomes read-only."""
        offset = self.log_end_offset
        active = self.segments.active
        if active.base_offset == offset and active.size == 0:
            return active
        active.on_become_inactive()
        for suffix in SEGMENT_SUFFIXES:
            self.filesystem.remove(f"{self.directory}/{file_name(offset, suffix)}")
        segment = LogSegment.create(self.filesystem, self.directory, offset, self.config)
        self.segments.add(segment)
        self.segments.used(active)
        return segment

    def begin_flush(self, up_to: int) -> list[File]:
        """Write what is only in memory; the files to be synced so that every record below `up_to` is on the disk."""
        self._most_flushed = max(self._most_flushed, up_to)
        if up_to <= self.recovery_point:
            return []
        return [file for segment in self.segments.values(self.recovery_point, up_to) for file in segment.begin_flush()]

    def directories_to_sync(self, up_to: int) -> list[str]:
        """Return the directories with names that the disk may lack, to be synced after the files of `begin_flush`."""
        if up_to > self.recovery_point and self.segments.active.base_offset >= self.recovery_point:
            return [self.directory, self.directory.rpartition("/")[0]]
        return []

    def end_flush(self, up_to: int) -> None:
        """Move the recovery point, for files and directories are synced.

        A flush that began before the log was truncated says nothing of what was written since.
        """
        self.recovery_point = max(self.recovery_point, min(up_to, self.log_end_offset, self._most_flushed))
        self.touch()

    def remove_segments(self, segments: list[LogSegment]) -> list[str]:
        """Take segments out of the log and rename their files to `.deleted`; the files, which may go any time now."""
        for segment in segments:
            self.segments.remove(segment)
            segment.change_suffix(DELETED_FILE_SUFFIX)
        self.touch()
        return [segment.path(suffix) for segment in segments for suffix in SEGMENT_SUFFIXES]

    def replace_segments(self, cleaned: LogSegment, replaced: list[LogSegment]) -> list[str]:
        """Put a cleaned segment in the place of others; the files of those, renamed to `.deleted`.

        The disk has the whole of it in files that end in `.cleaned`. When they end in `.swap` it is decided: what a
        crash interrupts after that, the next start completes (`LogLoader`). The files may go when the directory is on
        the disk.
        """
        cleaned.change_suffix(SWAP_FILE_SUFFIX)
        paths = self.remove_segments(replaced)
        self.segments.add(cleaned)
        cleaned.change_suffix("")
        cleaned.release()
        return paths

    def truncate_to(self, offset: int) -> tuple[list[str], Sync]:
        """End the log at the offset, or where the batch begins in which it lies; the files that are to go.

        Before the flush that is returned has run, nothing may be appended: it must not come to lie between what was
        cut.
        """
        deleted = [segment for segment in self.segments if segment.base_offset > offset]
        # From the last one on: so a crash never leaves a log with a gap.
        paths = [path for segment in reversed(deleted) for path in self.remove_segments([segment])]
        active = self.segments.active
        self.segments.used_as_active(active)
        self.log_end_offset = active.truncate_to(offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self._most_flushed = self.recovery_point
        self.touch()
        return paths, self.filesystem.prepare_sync(active.begin_flush(), [self.directory])

    def truncate_fully_and_start_at(self, offset: int) -> tuple[list[str], Sync]:
        """Drop all segments and begin an empty one at the offset; returns as `truncate_to`."""
        paths = [path for segment in reversed(list(self.segments)) for path in self.remove_segments([segment])]
        self.segments.add(LogSegment.create(self.filesystem, self.directory, offset, self.config))
        self.log_end_offset = self.recovery_point = self._most_flushed = offset
        self.touch()
        return paths, self.filesystem.prepare_sync([], [self.directory])

    def close_files(self) -> None:
        """Give all handles back and write nothing more."""
        for segment in self.segments:
            segment.abandon()

    def close(self) -> None:
        """Complete the files and give all handles back."""
        for segment in self.segments:
            segment.close(trim=self.config.preallocate and segment is self.segments.active)
