"""Opens the log of one partition, and recovers it when the last broker did not close it (LogLoader).

After a clean shutdown nothing is scanned: the end of the log follows from the last index entry, and the producers
from the snapshot there. After anything else every segment from the recovery point on is read: checksums are verified,
indexes and the producers' state are made anew, and from the first batch that is not whole and sound the rest is cut,
later segments included, as Apache Kafka does. Where that is more than the torn end of the active segment, the log
says so as an error. Segments before the recovery point are on the disk and are not touched: a reader of a damaged one
gets `CorruptRecordError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.checkpoint_files import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    CorruptCheckpointError,
    read_partition_metadata,
)
from barnabas.broker.log.cold_range import ColdRange, cold_index_ranges
from barnabas.broker.log.disk_steps import brought_in, cold_file, cold_part, done_at_once, next_piece, synced
from barnabas.broker.log.file_records import SCAN_CHUNK, BatchScan, CorruptSegmentError
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.leader_epoch_file_cache import LeaderEpochFileCache
from barnabas.broker.log.local_log import LocalLog
from barnabas.broker.log.log_config import LONG_MAX
from barnabas.broker.log.log_file_utils import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    PRODUCER_SNAPSHOT_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    TEMPORARY_FILE_SUFFIX,
    TIME_INDEX_FILE_SUFFIX,
    TXN_INDEX_FILE_SUFFIX,
    file_name,
    offset_from_file_name,
)
from barnabas.broker.log.log_segment import LogSegment, SegmentFiles
from barnabas.broker.log.log_segments import LogSegments
from barnabas.broker.log.producer_recovery import rebuild_producer_state
from barnabas.broker.log.producer_state_manager import ProducerStateManager
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.broker.log.writing_proof import prove_writing
from barnabas.errors import CorruptRecordError, KafkaError

if TYPE_CHECKING:
    from barnabas.broker.log.disk_steps import Steps
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.records.batch_header import BatchHeader

_logger = lazy_logger(__name__)

#: So much at the end of the last segment that was flushed is looked at.
_TAIL = 1 << 20
_LEFTOVER_SUFFIXES = (DELETED_FILE_SUFFIX, CLEANED_FILE_SUFFIX, TEMPORARY_FILE_SUFFIX)
_INDEX_SUFFIXES = (INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX)


class LogCheckpoints(NamedTuple):
    """How the last broker left a log: whether it was closed, and what the checkpoints say, 0 for nothing.

    `high_watermark` is as for `UnifiedLog`; `topic_id` is None where only `partition.metadata` tells it; one that
    `has_failed` is opened only if it can be written. Where others `has_copies`, a log ends where records are missing.
    """

    clean: bool
    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int | None = None
    topic_id: bytes | None = None
    has_failed: bool = False
    has_copies: bool = False


class LogLoader:
    """Makes a `UnifiedLog` of a directory. Raises `OSError`."""

    __slots__ = (
        "_checkpoints",
        "_config",
        "_directory",
        "_epochs",
        "_files",
        "_filesystem",
        "_producers",
        "_segments",
        "_topic_partition",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        checkpoints: LogCheckpoints,
        producer_id_expiration_ms: int = 86_400_000,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._topic_partition = topic_partition
        self._config = config
        self._checkpoints = checkpoints
        self._segments = LogSegments()
        self._files = {
            entry.name: entry.size for entry in filesystem.list_directory(directory) if not entry.is_directory
        }
        if any(name.endswith(SWAP_FILE_SUFFIX) for name in self._files):
            self._complete_swaps()
        snapshots = [
            offset_from_file_name(name) for name in self._files if name.endswith(PRODUCER_SNAPSHOT_FILE_SUFFIX)
        ]
        self._producers = ProducerStateManager(
            filesystem, directory, str(topic_partition), snapshots, producer_id_expiration_ms
        )
        self._epochs = LeaderEpochFileCache(filesystem, f"{directory}/{LEADER_EPOCH_CHECKPOINT}")

    def load(self, now_ms: int = 0) -> UnifiedLog:
        """Open the log in one go; `now_ms` decides which producers have expired."""
        return done_at_once(self.steps(now_ms))

    def steps(self, now_ms: int = 0) -> Steps[UnifiedLog]:
        """Open the log a piece of its files at a time (`disk_steps`).

        What recovery reads and the cache lacks, and what it flushes, is work to be done beside the loop.
        """
        self._load_segments()
        if self._checkpoints.has_failed:
            yield from prove_writing(self._filesystem, self._segments.active.records, self._epochs.path)
        self._load_epochs()
        if not self._checkpoints.clean:
            yield from self._recover(now_ms)
        end = yield from self._find_end()
        self._epochs.drop_beyond(end)
        self._epochs.truncate_from_start(self._checkpoints.log_start_offset)
        start = max(self._checkpoints.log_start_offset, self._segments.first.base_offset)
        yield from self._load_producers(start, end, now_ms)
        local = LocalLog(
            self._filesystem,
            self._directory,
            self._config,
            self._segments,
            end,
            end if self._checkpoints.clean else min(self._checkpoints.recovery_point, end),
        )
        log = UnifiedLog(
            self._topic_partition,
            local,
            self._producers,
            self._epochs,
            log_start_offset=start,
            high_watermark=self._checkpoints.high_watermark,
        )
        log.topic_id = self._checkpoints.topic_id or self._read_topic_id()
        return log

    def abandon(self) -> None:
        """Close the files of a log whose opening is given up."""
        for segment in self._segments:
            segment.abandon()

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _complete_swaps(self) -> None:
        """Finish a replacement of segments that was cut short: the new ones lie there as `.swap`, whole."""
        names = sorted(self._files)
        unfinished = [offset_from_file_name(name) for name in names if name.endswith(CLEANED_FILE_SUFFIX)]
        swaps = [name for name in names if name.endswith(SWAP_FILE_SUFFIX)]
        valid = [name for name in swaps if not unfinished or offset_from_file_name(name) < min(unfinished)]
        ends = []
        for name in valid:
            if name.endswith(LOG_FILE_SUFFIX + SWAP_FILE_SUFFIX):
                segment = self._segment(offset_from_file_name(name), self._files[name])
                segment.move_to(self._directory, SWAP_FILE_SUFFIX)
                ends.append((segment.base_offset, max(segment.scan_next_offset(), segment.base_offset + 1)))
                segment.abandon()
        for name in names:
            replaced = any(start <= offset_from_file_name(name) < end for start, end in ends)
            if name not in valid and (name in swaps or (replaced and not name.endswith(PRODUCER_SNAPSHOT_FILE_SUFFIX))):
                self._filesystem.remove(self._path(name))
                del self._files[name]
        for name in valid:
            final = name.removesuffix(SWAP_FILE_SUFFIX)
            _logger().info("%s: completing the replacement of %s", self._directory, final)
            self._filesystem.rename(self._path(name), self._path(final))
            self._files[final] = self._files.pop(name)

    def _segment(self, base_offset: int, size: int) -> LogSegment:
        has_txn_index = file_name(base_offset, TXN_INDEX_FILE_SUFFIX) in self._files
        files = SegmentFiles(size, has_txn_index)
        return LogSegment(self._filesystem, self._directory, base_offset, self._config, files)

    def _load_segments(self) -> None:
        for name, size in self._files.items():
            if name.endswith(LOG_FILE_SUFFIX):
                self._load_segment(offset_from_file_name(name), size)
            elif name.endswith(_LEFTOVER_SUFFIXES):
                self._filesystem.remove(self._path(name))
            elif name.endswith(_INDEX_SUFFIXES):
                self._remove_orphan(name)
        if not len(self._segments):
            self._create_segment(self._checkpoints.log_start_offset)

    def _load_segment(self, base_offset: int, size: int) -> None:
        segment = self._segment(base_offset, size)
        index = self._files.get(file_name(base_offset, INDEX_FILE_SUFFIX))
        time_index = self._files.get(file_name(base_offset, TIME_INDEX_FILE_SUFFIX))
        if size == index == time_index == 0:
            segment.start_empty_indexes()
        self._segments.add(segment)

    def _remove_orphan(self, name: str) -> None:
        if file_name(offset_from_file_name(name), LOG_FILE_SUFFIX) not in self._files:
            _logger().warning("%s has no log file beside it; removing it", self._path(name))
            self._filesystem.remove(self._path(name))

    def _create_segment(self, base_offset: int) -> None:
        self._segments.add(LogSegment.create(self._filesystem, self._directory, base_offset, self._config))

    def _load_epochs(self) -> None:
        if not self._files.get(LEADER_EPOCH_CHECKPOINT):
            return
        try:
            self._epochs.load()
        except CorruptCheckpointError as error:
            # An epoch that is not in the file is found in its batches when the log is recovered.
            _logger().error("%s; the leader epochs begin anew", error)

    def _read_topic_id(self) -> bytes | None:
        if PARTITION_METADATA not in self._files:
            return None
        try:
            return read_partition_metadata(self._filesystem, self._path(PARTITION_METADATA))
        except CorruptCheckpointError as error:
            _logger().error("%s; the topic id must come from the metadata", error)
            return None

    # -- recovery ----------------------------------------------------------------------------------------------------

    def _recover(self, now_ms: int) -> Steps[None]:
        """Read the segments that may not have reached the disk, and cut the log where they are damaged."""
        unflushed = self._segments.values(self._checkpoints.recovery_point, 1 << 63)
        yield from self._complete_segment_before(unflushed[0].base_offset)
        yield from brought_in(self._filesystem, self._cold_snapshots(unflushed[0].base_offset))
        yield from self._restore_producers(self._checkpoints.log_start_offset, unflushed[0].base_offset, now_ms)
        end = unflushed[0].base_offset
        for at, segment in enumerate(unflushed):
            if segment.base_offset > end and not self._config.compact:
                _logger().error("%s: the offsets %d to %d are missing", self._directory, end, segment.base_offset - 1)
                if self._checkpoints.has_copies:
                    # What comes behind them is fetched again with them: a replica must not lead without.
                    yield from self._delete_later_segments(unflushed[at:])
                    break
            cut = yield from self._recover_segment(segment)
            end = self._producers.map_end_offset
            if cut:
                yield from self._delete_later_segments(unflushed[at + 1 :])
                break
        if not self._config.compact:
            # No consumer could read up to the end of a log that ends with a gap.
            yield from self._delete_later_segments(
                [segment for segment in self._segments if not segment.size and segment.base_offset > end]
            )
        if self._config.flush_messages < LONG_MAX:
            yield from self._bring_to_disk(
                [segment for segment in unflushed if segment.size and segment.base_offset in self._segments]
            )

    def _complete_segment_before(self, offset: int) -> Steps[None]:
        """See to the time index of a segment that was flushed to its end before it was rolled, and not since."""
        before = self._segments.floor(offset - 1)
        if before is None:
            return
        try:
            tail = cold_part(before.records, _TAIL, max(before.size - _TAIL, 0))
            yield from brought_in(self._filesystem, [*cold_index_ranges(before), *tail])
            before.restore_largest_timestamp()
            self._segments.used(before)
        except (OSError, KafkaError) as error:
            # Who reads a damaged batch is told; here it only means that a search by time may miss its end.
            _logger().warning("%s: the time index of %r is not completed: %s", self._directory, before, error)

    def _bring_to_disk(self, segments: list[LogSegment]) -> Steps[None]:
        """Flush what the process before had written, and had acknowledged only once it was flushed.

        From here on the records count as committed: a producer that sends them again is told that they are there.
        """
        if segments:
            yield from synced(self._filesystem, [segment.records.file for segment in segments], [self._directory])

    def _recover_segment(self, segment: LogSegment) -> Steps[bool]:
        segment.reset_indexes()
        segment.txn_index.reset()
        position = 0
        next_offset = segment.base_offset
        problem = None
        try:
            scan = BatchScan(segment.records, 0, check=True)
            while not scan.is_over:
                yield from next_piece(self._filesystem, scan)
                for header, chunk in scan.next_batches():
                    self._check_offsets(segment, header, position, next_offset)
                    self._take_in(segment, header, chunk, position)
                    position += header.size_in_bytes
                    next_offset = header.next_offset
        except CorruptSegmentError as error:
            problem = error
        if problem is not None:
            yield from self._cut(segment, position, next_offset, problem)
        try:
            segment.complete_indexes()
        except OSError as error:
            # They are in memory, and reach their files with the next flush.
            _logger().warning("%s: the indexes of %r are not written: %s", self._directory, segment, error)
        return problem is not None

    def _check_offsets(self, segment: LogSegment, header: BatchHeader, position: int, next_offset: int) -> None:
        records = segment.records
        if header.base_offset < next_offset and header.magic >= 2:
            raise CorruptSegmentError(records, position, f"offset {header.base_offset} follows {next_offset - 1}")
        if not segment.offset_index.can_append(header.next_offset - 1):
            raise CorruptSegmentError(records, position, f"offset {header.next_offset - 1} is too far from its base")
        if header.base_offset > next_offset and not self._config.compact:
            # Left by an earlier compaction, or the offset itself is damaged, which no checksum covers.
            _logger().warning(
                "%s at byte %d: offset %d follows %d", records.path, position, header.base_offset, next_offset - 1
            )

    def _take_in(self, segment: LogSegment, header: BatchHeader, chunk: bytes, position: int) -> None:
        segment.index_recovered(header, position)
        if header.partition_leader_epoch > self._epochs.latest_epoch:
            self._epochs.assign(header.partition_leader_epoch, header.base_offset)
        aborted = self._producers.replay(chunk, header)
        if aborted is not None:
            segment.txn_index.append(aborted)

    def _cut(self, segment: LogSegment, position: int, next_offset: int, problem: CorruptSegmentError) -> Steps[None]:
        size = segment.size - position
        yield from brought_in(self._filesystem, cold_part(segment.records, SCAN_CHUNK, position))
        following = segment.records.next_sound_batch(position)
        if following is None:
            _logger().warning("%s; cutting the last %d bytes, the log ends at offset %d", problem, size, next_offset)
        else:
            _logger().error(
                "%s; sound batches follow from byte %d on, but behind a gap they cannot be served: cutting %d bytes, "
                "the log ends at offset %d",
                problem, following, size, next_offset,
            )  # fmt: skip
        segment.truncate_bytes(position)
        # What is left may end at the recovery point: no flush would ever bring the cut to the disk.
        yield from synced(self._filesystem, [segment.records.file], [])

    def _delete_later_segments(self, segments: list[LogSegment]) -> Steps[None]:
        if not segments:
            return
        size = sum(segment.size for segment in segments)
        _logger().error(
            "%s: deleting the %d segments (%d bytes) from offset %d on, for they follow the damaged one",
            self._directory, len(segments), size, segments[0].base_offset,
        )  # fmt: skip
        for segment in segments:
            self._segments.remove(segment)
            segment.delete()
        yield from synced(self._filesystem, [], [self._directory])

    def _find_end(self) -> Steps[int]:
        """Return the offset after the last record."""
        active = self._segments.active
        try:
            end = active.read_next_offset()
        except CorruptRecordError as error:
            _logger().error("%s, although the log was closed; recovering the segment", error)
            yield from self._restore_producers(self._checkpoints.log_start_offset, active.base_offset, 0)
            yield from self._recover_segment(active)
            end = active.read_next_offset()
        if end >= self._checkpoints.log_start_offset:
            return end
        _logger().error(
            "%s ends at offset %d, before its start at %d (were files deleted?); starting it anew there",
            self._directory, end, self._checkpoints.log_start_offset,
        )  # fmt: skip
        for segment in list(self._segments):
            self._segments.remove(segment)
            segment.delete()
        self._epochs.clear()
        self._producers.truncate_fully_and_start_at(self._checkpoints.log_start_offset)
        self._create_segment(self._checkpoints.log_start_offset)
        return self._checkpoints.log_start_offset

    # -- producers ---------------------------------------------------------------------------------------------------

    def _load_producers(self, start: int, end: int, now_ms: int) -> Steps[None]:
        producers = self._producers
        producers.remove_stray_snapshots(self._segments.base_offsets)
        if self._checkpoints.clean and not producers.snapshots:
            # Closed by a broker that wrote no snapshots: no producer was active, or it is too old to matter.
            producers.map_end_offset = end
        else:
            yield from self._restore_producers(start, end, now_ms)
        try:
            producers.take_snapshot(sync=False)
        except OSError as error:
            # It only shortens the next recovery: what is there can be read, and a full disk is no reason not to.
            _logger().warning("%s: no snapshot of the producers is written: %s", self._directory, error)

    def _restore_producers(self, start: int, end: int, now_ms: int) -> Steps[None]:
        return rebuild_producer_state(self._producers, self._segments, start, end, now_ms, self._filesystem)

    def _cold_snapshots(self, end: int) -> list[ColdRange]:
        """Return the snapshot of the producers from which recovery begins, if reading it would wait for the disk."""
        offset = max((offset for offset in self._producers.snapshots if offset <= end), default=None)
        return [] if offset is None else cold_file(self._filesystem, self._producers.snapshot_path(offset))
