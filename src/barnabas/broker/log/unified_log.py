"""The log of one partition, as the broker sees it (UnifiedLog)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.broker.log.append_origin import CLIENT, REPLICATION
from barnabas.broker.log.fetch_data_info import FetchDataInfo
from barnabas.broker.log.leader_epoch_file_cache import EpochsNotWrittenError, SyncWithEpochs
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.log.log_file_utils import CLEANED_FILE_SUFFIX
from barnabas.broker.log.log_health import CLEANING, FLUSHING, READING, WRITING, LogHealth
from barnabas.broker.log.log_segment import LogSegment, TimestampAndOffset
from barnabas.broker.log.log_validator import LogValidator, ValidatedRecords
from barnabas.broker.log.producer_append_info import NO_OFFSET, BatchMetadata, CompletedTxn, ProducerAppendInfo
from barnabas.broker.log.producer_checks import check_producers
from barnabas.errors import OffsetOutOfRangeError, RecordBatchTooLargeError
from barnabas.protocol.kinds import IsolationLevel
from barnabas.records.batch_header import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.filesystem import Buffer, Sync
    from barnabas.broker.log.leader_epoch_file_cache import EpochEntry, LeaderEpochFileCache
    from barnabas.broker.log.local_log import LocalLog
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.producer_state_manager import ProducerStateManager
    from barnabas.errors import KafkaStorageError
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.records.batch_header import BatchHeader


#: The isolation with which a follower reads: what is written counts, committed or not (FetchIsolation).
LOG_END = -1


class UnifiedLog:
    """An append-only sequence of records with offsets; the file behind one partition.

    What `append` has returned is in the operating system's hands, so it survives the end of this process; what
    `flush` has returned is on the disk. One thread at a time uses a log. `high_watermark` is what the checkpoint says
    of a log that has other replicas; without it, all that the log holds is committed.

    When the disk fails in a way that leaves the state of the files unknown, the log goes offline: every later call
    raises `KafkaStorageError`. `LogManager` opens it anew, and recovers it, unless a flush has failed
    (`LogHealth`): then the system may hold pages that it does not bring to the disk any more. Any other failure costs
    the call that met it; `troubles` says what fails at present, reading or writing, and each is logged once.
    """

    __slots__ = (
        "_validator",
        "being_cleaned",
        "config",
        "health",
        "high_watermark",
        "is_truncating",
        "last_flushed_ms",
        "leader_epochs",
        "local_log",
        "log_start_offset",
        "on_roll",
        "on_start_moved",
        "producer_state",
        "topic_id",
        "topic_partition",
        "troubles",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        local_log: LocalLog,
        producer_state: ProducerStateManager,
        leader_epochs: LeaderEpochFileCache,
        *,
        log_start_offset: int,
        high_watermark: int | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.local_log = local_log
        self.config = local_log.config
        self.producer_state = producer_state
        self.leader_epochs = leader_epochs
        self.log_start_offset = log_start_offset
        end = local_log.log_end_offset
        self.high_watermark = end if high_watermark is None else min(max(high_watermark, log_start_offset), end)
        self.topic_id: bytes | None = None
        self.last_flushed_ms: int | None = None
        self.on_roll: Callable[[UnifiedLog], None] | None = None
        self.on_start_moved: Callable[[UnifiedLog], None] | None = None
        self.being_cleaned = False
        #: Nothing may be appended before the disk has what was cut.
        self.is_truncating = False
        self.health = LogHealth(local_log.directory)
        self.troubles = self.health.troubles
        self._validator = LogValidator(str(topic_partition), local_log.config)
        producer_state.on_high_watermark_updated(self.high_watermark)

    def __repr__(self) -> str:
        return f"UnifiedLog({self.directory}, offsets {self.log_start_offset} to {self.log_end_offset})"

    # -- where things stand ------------------------------------------------------------------------------------------

    @property
    def directory(self) -> str:
        """The path of the log's directory."""
        return self.local_log.directory

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self.local_log.log_end_offset

    @property
    def recovery_point(self) -> int:
        """The offset below which everything is on the disk."""
        return self.local_log.recovery_point

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided; what `read_committed` sees."""
        unstable = self.producer_state.first_unstable_offset
        if unstable == NO_OFFSET or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record, -1 when there is none."""
        return self.leader_epochs.latest_epoch

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return self.local_log.segments.size

    @property
    def number_of_segments(self) -> int:
        """How many segments there are."""
        return len(self.local_log.segments)

    @property
    def starts_within_segment(self) -> bool:
        """Whether the log's start is not simply that of its first segment, so that a checkpoint must tell it."""
        return self.log_start_offset > self.local_log.segments.first.base_offset

    def update_high_watermark(self, offset: int) -> int:
        """Let consumers see what lies below the offset; the new high watermark, kept within the log."""
        end_offset = self.local_log.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            offset = min(max(offset, self.log_start_offset), end_offset)
            assert self.log_start_offset <= offset
        if offset != self.high_watermark and not self.local_log.is_touched:
            self.touch()
        self.high_watermark = offset
        self.producer_state.on_high_watermark_updated(offset)
        if anatomy.active is not None:
            self.tell_offsets(anatomy.active)
        return offset

    def tell_offsets(self, recorder: anatomy.Recorder) -> None:
        """Tell where the log stands."""
        active, local = self.local_log.segments.active, self.local_log
        offsets = self.log_start_offset, self.last_stable_offset, self.high_watermark, local.log_end_offset
        recorder.record(anatomy.events.LogMoved(*self.topic_partition, *offsets, active.base_offset, active.size))

    def update_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        self.config = self.local_log.config = self._validator.config = config
        self.touch()

    def touch(self) -> None:
        """See `LocalLog.touch`."""
        self.local_log.touch()

    @property
    def is_offline(self) -> bool:
        """Whether the log is of no use any more: the disk has failed under it, or it was deleted."""
        return self.health.is_offline

    def check_online(self) -> None:
        """Raise `KafkaStorageError` if the disk has failed under this log."""
        self.health.check_online()

    def storage_failure(self, action: str, error: OSError, *, kind: str = WRITING) -> KafkaStorageError:
        """Log the first failure of its kind that has left the files as they must be; the error to raise."""
        return self.health.failed(action, error, kind)

    def fail(self, action: str, error: Exception, *, reopen: bool = True) -> KafkaStorageError:
        """Take the log offline, for a failure has left its files in an unknown state; the error to raise."""
        return self.health.go_offline(action, error, reopen=reopen)

    # -- appending ---------------------------------------------------------------------------------------------------

    def append(self, data: Buffer, *, now_ms: int, origin: int = CLIENT, leader_epoch: int = 0) -> LogAppendInfo:
        """Write the record batches in `data` at the end of the log, all of them or none.

        Consumers see them when the partition moves the high watermark. `data` is not changed. Raises what
        `LogValidator.validate_and_assign_offsets` and `ProducerAppendInfo.append` raise, `RecordBatchTooLargeError`
        for more than a segment, and `KafkaStorageError`; then nothing was written.
        """
        self.check_online()
        local = self.local_log
        records = self._validator.validate_and_assign_offsets(
            data, first_offset=local.log_end_offset, leader_epoch=leader_epoch, origin=origin, now_ms=now_ms
        )
        size = len(records.buffer)
        if size > self.config.segment_bytes:
            raise RecordBatchTooLargeError(f"{size} bytes for {self.topic_partition} exceed segment.bytes")
        producers, completed, duplicate = self._check_producers(records, origin)
        if duplicate is not None:
            return self._duplicate_info(duplicate)
        self._write(records, leader_epoch, now_ms)
        if self.troubles:
            self.health.succeeded(WRITING)
        self._update_producers(producers, completed)
        return LogAppendInfo(
            records.first_offset,
            records.last_offset,
            records.log_append_time,
            self.log_start_offset,
            records.record_count,
            size,
            False,
        )

    def append_as_follower(self, data: Buffer, *, now_ms: int, leader_epoch: int) -> LogAppendInfo | None:
        """Write what the leader of `leader_epoch` has sent, with its offsets and epochs; None where nothing is whole.

        Consumers see it when the leader's high watermark says so. Raises what `validate_follower_records` raises,
        `InvalidTxnStateError`, and `KafkaStorageError`: what lies below `log_end_offset` then is written.
        """
        from barnabas.broker.log.follower_records import split_for_segments, validate_follower_records

        self.check_online()
        name, end = str(self.topic_partition), self.log_end_offset
        records = validate_follower_records(name, data, log_end_offset=end, leader_epoch=leader_epoch)
        if records is None:
            return None
        for piece in split_for_segments(records, self.config.segment_bytes):
            producers, completed, _ = self._check_producers(piece, REPLICATION)
            if not self.local_log.segments.active.offset_index.can_append(piece.last_offset):
                # The next segment has to begin near its records: what compaction has taken may be a wide gap.
                self.local_log.log_end_offset = piece.first_offset
            self._write(piece, None, now_ms)
            self._update_producers(producers, completed)
        if self.troubles:
            self.health.succeeded(WRITING)
        size, epoch = len(records.buffer), records.headers[-1].partition_leader_epoch
        first, last, count = records.first_offset, records.last_offset, records.record_count
        return LogAppendInfo(first, last, -1, self.log_start_offset, count, size, False, epoch)

    def _check_producers(
        self, records: ValidatedRecords, origin: int
    ) -> tuple[dict[int, ProducerAppendInfo], list[CompletedTxn], BatchMetadata | None]:
        return check_producers(records, origin, self.producer_state, self.local_log.segments, self.health)

    def _duplicate_info(self, batch: BatchMetadata) -> LogAppendInfo:
        append_time = batch.timestamp if self.config.message_timestamp_type else -1
        return LogAppendInfo(
            batch.first_offset, batch.last_offset, append_time, self.log_start_offset, batch.offset_delta + 1, 0, True
        )

    def _write(self, records: ValidatedRecords, leader_epoch: int | None, now_ms: int) -> None:
        """Write records of an epoch, or those of a follower, which bring their own."""
        local = self.local_log
        try:
            self._maybe_roll(records, now_ms)
            if leader_epoch is None:
                self._assign_epochs(records.headers)
            elif leader_epoch != self.leader_epochs.latest_epoch:
                self.leader_epochs.assign(leader_epoch, records.first_offset)
        except OSError as error:
            raise self.storage_failure("preparing an append", error) from error
        segment = local.segments.active
        try:
            local.append(records.buffer, records.first_offset, records.batches)
        except OSError as error:
            raise self.undo_append(segment, error) from error

    def _assign_epochs(self, headers: list[BatchHeader]) -> None:
        epochs = self.leader_epochs
        for header in headers:
            if header.magic < CURRENT_MAGIC:
                # Of an old format, which has no epochs: truncation by them would be wrong (KAFKA-7897).
                epochs.clear()
            elif header.partition_leader_epoch != epochs.latest_epoch:
                epochs.assign(header.partition_leader_epoch, header.base_offset)

    def undo_append(self, segment: LogSegment, error: OSError) -> KafkaStorageError:
        """Cut what a failed append has left in the segment's file; the error to raise.

        Where even that fails the log goes offline: only recovery can tell what is there.
        """
        try:
            segment.records.trim()
        except OSError as second:
            return self.fail("an append, and then taking it back,", second)
        return self.storage_failure("an append", error)

    def _maybe_roll(self, records: ValidatedRecords, now_ms: int) -> None:
        active = self.local_log.segments.active
        size = len(records.buffer)
        if active.should_roll(self.config, size, records.max_timestamp, records.last_offset, now_ms):
            self.roll()

    def _update_producers(self, producers: dict[int, ProducerAppendInfo], completed: list[CompletedTxn]) -> None:
        state = self.producer_state
        for info in producers.values():
            state.update(info)
        for transaction in completed:
            aborted = state.finish(transaction)
            if aborted is not None:
                try:
                    self.local_log.segments.active.txn_index.append(aborted)
                except OSError as error:
                    raise self.fail("writing the transaction index", error) from error
        state.map_end_offset = self.log_end_offset

    def roll(self) -> LogSegment:
        """Begin a new segment, with a snapshot of the producers at its start. Raises `OSError`."""
        segment = self.local_log.roll()
        self.producer_state.map_end_offset = segment.base_offset
        self.producer_state.take_snapshot(sync=False)
        if anatomy.active is not None:
            anatomy.active.record(anatomy.events.SegmentRolled(*self.topic_partition, segment.base_offset))
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_message: bool = True,
        isolation: int = IsolationLevel.READ_UNCOMMITTED,
        max_offset: int | None = None,
        to_send: bool = False,
    ) -> FetchDataInfo:
        """Whole batches from the one with `offset` on.

        They end at the high watermark (with READ_COMMITTED at the last stable offset, with LOG_END at the end of the
        log, as for followers, and never beyond `max_offset`)
        and within `max_bytes`; but the first batch comes in any case if `min_one_message`. Much comes as a region of a
        file if it is `to_send` to a socket, at once. Nothing is returned at the end of what may be seen. Raises
        `OffsetOutOfRangeError` for an offset before the log's start or behind its end, and `KafkaStorageError`.
        """
        self.check_online()
        if offset < self.log_start_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} of {self.topic_partition} was asked for; the log starts at {self.log_start_offset}"
            )
        committed = isolation == IsolationLevel.READ_COMMITTED
        bound = self._end_for(isolation)
        if max_offset is not None:
            bound = min(bound, max_offset)
        was_remembered = anatomy.active is not None and self.local_log.remembers(offset)
        try:
            found = self.local_log.read(
                offset,
                max_bytes,
                bound,
                min_one_message=min_one_message,
                include_aborted=committed,
                to_send=to_send,
            )
        except OSError as error:
            raise self.storage_failure(f"reading from offset {offset}", error, kind=READING) from error
        if self.troubles:
            self.health.succeeded(READING)
        if anatomy.active is not None and found.records:
            self._tell_read(anatomy.active, offset, found, was_remembered=was_remembered)
        return found

    def _tell_read(
        self, recorder: anatomy.Recorder, offset: int, found: FetchDataInfo, *, was_remembered: bool
    ) -> None:
        segment = self.local_log.segments.floor(offset)
        assert segment is not None
        # What was searched a moment ago is searched once more: only a recording pays for it.
        entry = (-1, -1) if was_remembered else segment.offset_index.lookup(offset)
        aborted = len(found.aborted_transactions or ())
        told = offset, segment.base_offset, *entry, len(found.records), aborted
        recorder.record(anatomy.events.LogRead(*self.topic_partition, *told))

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record whose timestamp is not below the one given (epoch ms); None when there is none."""
        self.check_online()
        try:
            for segment in self.local_log.segments:
                if segment.largest_timestamp() >= timestamp:
                    found = segment.find_offset_by_timestamp(timestamp, self.log_start_offset)
                    if found is not None:
                        return found
        except OSError as error:
            raise self.storage_failure(f"searching timestamp {timestamp}", error, kind=READING) from error
        return None

    def earliest_offset(self) -> TimestampAndOffset:
        """Return the log's start (ListOffsets, timestamp -2); the timestamp is -1."""
        start = self.log_start_offset
        return TimestampAndOffset(-1, start, self.leader_epochs.epoch_for_offset(start))

    def latest_offset(self, isolation: int = IsolationLevel.READ_UNCOMMITTED) -> TimestampAndOffset:
        """Return the end of what may be seen (ListOffsets, timestamp -1); the timestamp is -1."""
        return TimestampAndOffset(-1, self._end_for(isolation), self.latest_epoch)

    def _end_for(self, isolation: int) -> int:
        if isolation == IsolationLevel.READ_COMMITTED:
            return self.last_stable_offset
        return self.log_end_offset if isolation == LOG_END else self.high_watermark

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the largest timestamp (ListOffsets, timestamp -3); None for an empty log."""
        self.check_online()
        segments = list(self.local_log.segments)
        timestamp = max(segment.max_timestamp.timestamp for segment in segments)
        return self.offset_for_timestamp(timestamp) if timestamp >= 0 else None

    def end_offset_for_epoch(self, epoch: int) -> EpochEntry:
        """Return the largest leader epoch not above the one given, and where it ends (OffsetForLeaderEpoch).

        -1 if unknown.
        """
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    # -- keeping -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Return when every record is on the disk. Raises `KafkaStorageError`."""
        end = self.log_end_offset
        sync = self.prepare_flush(end)
        sync.run()
        self.end_flush(end, sync.error, self.last_flushed_ms)
        self.check_online()

    @property
    def must_flush(self) -> bool:
        """Whether `flush.messages` says that what was appended counts only when it is on the disk."""
        return self.local_log.unflushed_messages >= self.config.flush_messages

    def prepare_flush(self, up_to: int) -> Sync:
        """Write what is only in memory; what is to be run before `end_flush`. Raises `KafkaStorageError`."""
        self.check_online()
        local = self.local_log
        try:
            epochs = self.leader_epochs.prepare_write()
            sync = local.filesystem.prepare_sync(local.begin_flush(up_to), local.directories_to_sync(up_to))
            return sync if epochs is None else SyncWithEpochs(epochs, sync)
        except OSError as error:
            raise self.storage_failure("preparing a flush", error, kind=FLUSHING) from error

    def end_flush(self, up_to: int, error: OSError | None, now_ms: int | None) -> None:
        """Take note that every record below `up_to` is on the disk, or of the error that says otherwise."""
        if self.is_offline:
            return
        self.touch()
        if error is not None:
            # The system may have dropped the pages that it could not write: trying again would hide that. The epochs
            # are written as a whole, again from the records.
            self.fail("flushing", error, reopen=isinstance(error, EpochsNotWrittenError))
            return
        self.local_log.end_flush(up_to)
        if self.troubles:
            self.health.succeeded(FLUSHING)
        self.last_flushed_ms = now_ms

    def flush_is_due(self, now_ms: int) -> bool:
        """Whether records have waited for `flush.ms` to reach the disk; the count starts when this is first asked."""
        if self.last_flushed_ms is None or not self.local_log.unflushed_messages:
            self.last_flushed_ms = now_ms
        return now_ms - self.last_flushed_ms >= self.config.flush_ms and self.local_log.unflushed_messages > 0

    def increment_log_start_offset(self, offset: int, reason: str) -> bool:
        """Forget the records below the offset (DeleteRecords); whether the start has moved.

        Whole segments go with the next `delete_old_segments`. Raises `OffsetOutOfRangeError` beyond the high
        watermark, and `KafkaStorageError`.
        """
        self.check_online()
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(
                f"{self.topic_partition} cannot start at offset {offset}; its high watermark is {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.leader_epochs.truncate_from_start(offset)
        self.log_start_offset = offset
        self.local_log.recovery_point = max(self.recovery_point, offset)
        self.producer_state.on_log_start_offset_incremented(offset)
        self.touch()
        from logging import getLogger

        getLogger(__name__).info("%s starts at offset %d now: %s", self.topic_partition, offset, reason)
        if self.on_start_moved is not None:
            self.on_start_moved(self)
        return True

    def replace_segments(self, cleaned: LogSegment, replaced: list[LogSegment]) -> list[str]:
        """Put a cleaned segment in the place of those it was made of; the files, renamed, to be deleted after a delay.

        Raises `KafkaStorageError`.
        """
        self.check_online()
        try:
            following = self.local_log.segments.higher(replaced[-1].base_offset)
            paths = self.local_log.replace_segments(cleaned, replaced)
            if anatomy.active is not None:
                end = self.log_end_offset if following is None else following.base_offset
                names = *self.topic_partition, cleaned.base_offset, end, cleaned.size
                anatomy.active.record(anatomy.events.SegmentsReplaced(*names))
            return paths + self.producer_state.mark_snapshots_for_deletion(
                [old.base_offset for old in replaced if old.base_offset != cleaned.base_offset]
            )
        except OSError as error:
            action = "replacing segments by cleaned ones"
            if cleaned.suffix == CLEANED_FILE_SUFFIX:
                # Not even begun.
                raise self.storage_failure(action, error, kind=CLEANING) from error
            raise self.fail(action, error) from error

    def doubt(self, problem: Exception) -> None:
        """Take the log out of service until it is opened anew: a fault of this program may have left it half changed.

        What the files hold is recovered then, as after a crash.
        """
        self.health.go_offline("a change, by a fault of the broker,", problem, reopen=True)

    def mark_deleted(self) -> None:
        """Give all handles back and write nothing more, for the log's directory gets another owner."""
        self.local_log.close_files()
        self.health.end()

    def close(self) -> None:
        """Write a snapshot of the producers, complete the files and give all handles back."""
        self.check_online()
        try:
            self.producer_state.take_snapshot()
            self.leader_epochs.flush()
            self.local_log.close()
        except OSError as error:
            raise self.fail("closing", error, reopen=False) from error
