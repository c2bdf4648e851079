"""Cutting off the end of a log, or all of it (UnifiedLog.truncateTo and truncateFullyAndStartAt; KIP-101).

Afterwards the log is what it would be without the part that was cut: segments, indexes, leader epochs, producers and
transactions, recovery point and high watermark. The order is what a crash leaves: the segments first and on the disk,
the leader epochs last. An epoch without records is dropped when the log is opened; records without their epoch would
pass for those of an earlier one, and never be found to differ from the leader's.

What waits for the disk is yielded, as work that may be done beside the loop; nothing is appended meanwhile
(`UnifiedLog.is_truncating`).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.log.disk_steps import done_at_once
from barnabas.broker.log.producer_recovery import rebuild_producer_state, replayed_ranges
from barnabas.errors import KafkaStorageError

Result = TypeVar("Result")

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from barnabas.broker.log.filesystem import Sync
    from barnabas.broker.log.leader_epoch_file_cache import EpochWrite
    from barnabas.broker.log.log_cleaner import LogCleaner
    from barnabas.broker.log.offset_checkpoints import CheckpointWrite, OffsetCheckpoints
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.storage_threads import Storage, Work
    from barnabas.protocol.topic_partition import TopicPartition

    #: Yields what waits for the disk, and keeps its errors to itself; goes on when that is done.
    Steps = Generator[Work, None, Result]
    Failed = dict[TopicPartition, KafkaStorageError]


class LogTruncation:
    """Truncates the logs of one directory, and its checkpoints before them.

    Behind a recovery point that is too late nothing would be recovered. `prepare_checkpoints()` gives what brings them
    to the disk; `delete_later(path, at_ms)` takes the files that are left over.
    """

    __slots__ = ("_checkpoints", "_cleaner", "_delete_later", "_logs", "_prepare_checkpoints")

    def __init__(
        self,
        logs: Mapping[TopicPartition, UnifiedLog],
        checkpoints: OffsetCheckpoints,
        cleaner: LogCleaner,
        prepare_checkpoints: Callable[[], CheckpointWrite],
        delete_later: Callable[[str, int], None],
    ) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._prepare_checkpoints = prepare_checkpoints
        self._delete_later = delete_later

    def truncate_to(self, offsets: Mapping[TopicPartition, int], now_ms: int) -> Failed:
        """End logs at offsets, see the function `truncate_to`; what has failed."""
        return done_at_once(self.steps(offsets, now_ms))

    def truncate_fully_and_start_at(self, name: TopicPartition, offset: int, now_ms: int) -> None:
        """Drop all that a log has and begin it anew at the offset. Raises `KafkaStorageError`."""
        for error in done_at_once(self.steps({name: offset}, now_ms, fully=True)).values():
            raise error

    def steps(
        self,
        offsets: Mapping[TopicPartition, int],
        now_ms: int,
        is_wanted: Callable[[TopicPartition], bool] = lambda name: True,
        *,
        fully: bool = False,
    ) -> Steps[Failed]:
        """End logs at offsets (`fully`: begin them anew there), and return what has failed.

        A log that is not wanted any more when its checkpoints are on the disk stays as it is.
        """
        failed = {name: KafkaStorageError(f"{name} is being opened anew") for name in offsets if name not in self._logs}
        logs = {name: self._logs[name] for name in offsets if name in self._logs}
        for log in logs.values():
            log.is_truncating = True
        try:
            if self._roll_checkpoints_back(logs, offsets):
                problem = yield from _written(self._prepare_checkpoints())
                if problem is not None:
                    text = f"the checkpoints of {self._checkpoints.directory} cannot be written: {problem}"
                    return failed | dict.fromkeys(logs, KafkaStorageError(text))
            for name, log in logs.items():
                if not is_wanted(name) or self._logs.get(name) is not log:
                    continue
                try:
                    yield from _clean_offset_lowered(self._cleaner.abort(log, offsets[name]), log)
                    cut = fully_steps(log, offsets[name]) if fully else truncation_steps(log, offsets[name], now_ms)
                    for path in (yield from cut):
                        self._delete_later(path, now_ms + log.config.file_delete_delay_ms)
                except KafkaStorageError as error:
                    failed[name] = error
                except Exception as problem:
                    log.doubt(problem)
                    raise
        finally:
            for log in logs.values():
                log.is_truncating = False
        return failed

    def _roll_checkpoints_back(
        self, logs: Mapping[TopicPartition, UnifiedLog], offsets: Mapping[TopicPartition, int]
    ) -> bool:
        """Lower recovery points and high watermarks to what the logs will have; whether a file says otherwise."""
        changed = False
        for name, log in logs.items():
            offset = offsets[name]
            log.local_log.recovery_point = min(log.recovery_point, offset)
            changed |= self._checkpoints.recovery_points.get(name, 0) > offset
            changed |= self._checkpoints.high_watermarks.get(name, 0) > offset
            if log.high_watermark > offset:
                log.update_high_watermark(offset)
        return changed


def done_beside(steps: Steps[Result], storage: Storage, tell: Callable[[Result], None]) -> None:
    """Have the storage do the work of the steps; `tell` gets on the loop what they return."""

    def go_on() -> None:
        try:
            work = next(steps)
        except StopIteration as end:
            tell(end.value)
        else:
            storage.submit(work, go_on)

    go_on()


def truncate_to(log: UnifiedLog, offset: int, now_ms: int) -> list[str]:
    """End the log at the offset, or where the batch begins in which it lies, as if nothing had followed.

    Gives the files, renamed, that are to be deleted after a delay. No checkpoint may name a later recovery point when
    this is called: `LogTruncation` sees to it. Raises `KafkaStorageError`.
    """
    return done_at_once(truncation_steps(log, offset, now_ms))


def truncate_fully_and_start_at(log: UnifiedLog, offset: int) -> list[str]:
    """Drop everything and begin anew at the offset; see `truncate_to`."""
    return done_at_once(fully_steps(log, offset))


def truncation_steps(log: UnifiedLog, offset: int, now_ms: int) -> Steps[list[str]]:
    """Do what `truncate_to` does."""
    log.check_online()
    if offset < log.local_log.segments.first.base_offset:
        return (yield from fully_steps(log, offset))
    paths: list[str] = []
    action = f"truncating to offset {offset}"
    try:
        if offset < log.log_end_offset:
            _report(log, offset)
            yield _bringing_in(log, offset)
            log.check_online()
            log.producer_state.delete_snapshots_after(offset)
            paths, sync = log.local_log.truncate_to(offset)
            log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
            log.update_high_watermark(log.high_watermark)
            yield from _producers_rolled_back(log, now_ms)
            log.update_high_watermark(log.high_watermark)
            yield from _synced(log, sync, action)
        # Also where there is nothing to cut: a leader that wrote nothing has left its epoch at the end.
        log.leader_epochs.drop_beyond(log.log_end_offset)
        yield from _epochs_written(log, action)
    except OSError as error:
        raise log.fail(action, error) from error
    return paths


def fully_steps(log: UnifiedLog, offset: int) -> Steps[list[str]]:
    """Do what `truncate_fully_and_start_at` does."""
    log.check_online()
    _report(log, offset)
    action = f"starting anew at offset {offset}"
    try:
        log.producer_state.truncate_fully_and_start_at(offset)
        paths, sync = log.local_log.truncate_fully_and_start_at(offset)
        log.log_start_offset = offset
        log.update_high_watermark(offset)
        yield from _synced(log, sync, action)
        log.leader_epochs.drop_all()
        yield from _epochs_written(log, action)
    except OSError as error:
        raise log.fail(action, error) from error
    return paths


def _written(write: CheckpointWrite | EpochWrite) -> Steps[OSError | None]:
    problems: list[OSError] = []

    def work() -> None:
        try:
            write.run()
        except OSError as error:
            problems.append(error)

    yield work
    return problems[0] if problems else None


def _clean_offset_lowered(write: CheckpointWrite | None, log: UnifiedLog) -> Steps[None]:
    problem = None if write is None else (yield from _written(write))
    if problem is not None:
        raise log.storage_failure("breaking its compaction off", problem) from problem
    log.check_online()


def _synced(log: UnifiedLog, sync: Sync, action: str) -> Steps[None]:
    yield sync.run
    if sync.error is not None or not sync.done:
        error = sync.error or OSError(errno.EIO, "the flush was not carried out")
        raise log.fail(action, error) from error
    log.check_online()


def _epochs_written(log: UnifiedLog, action: str) -> Steps[None]:
    write = log.leader_epochs.prepare_write()
    problem = None if write is None else (yield from _written(write))
    if problem is not None:
        raise log.fail(action, problem) from problem


def _bringing_in(log: UnifiedLog, offset: int) -> Work:
    """Return what brings into the system's cache what the cut looks at: indexes, and what is replayed of producers."""
    filesystem, ranges = log.local_log.filesystem, replayed_ranges(log.producer_state, log.local_log.segments, offset)

    def work() -> None:
        for path, size in ranges:
            filesystem.bring_in(path, size, 0)

    return work


def _producers_rolled_back(log: UnifiedLog, now_ms: int) -> Steps[None]:
    producers, end = log.producer_state, log.log_end_offset
    if not producers.producers and not producers.unreplicated_txns:
        # No producer is known at the end, so none has to be found again before it.
        producers.map_end_offset = end
        return
    local = log.local_log
    for step in rebuild_producer_state(producers, local.segments, log.log_start_offset, end, now_ms, local.filesystem):
        # What was read is worked on in pieces, and others have their turn between.
        yield _nothing if isinstance(step, int) else step
        log.check_online()


def _nothing() -> None:
    return


def _report(log: UnifiedLog, offset: int) -> None:
    from logging import INFO, WARNING, getLogger

    getLogger(__name__).log(
        WARNING if offset < log.high_watermark else INFO,
        "%s is truncated to offset %d; it ended at %d, with the high watermark at %d",
        log.topic_partition, offset, log.log_end_offset, log.high_watermark,
    )  # fmt: skip
