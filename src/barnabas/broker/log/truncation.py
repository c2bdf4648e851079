"""Cutting off the end of a log, or all of it (UnifiedLog.truncateTo and truncateFullyAndStartAt; KIP-101).

Afterwards the log is what it would be without the part that was cut: segments, indexes, leader epochs, producers and
transactions, recovery point and high watermark. The order is what a crash leaves: the segments first and on the disk,
the leader epochs last. An epoch without records is dropped when the log is opened; records without their epoch would
pass for those of an earlier one, and never be found to differ from the leader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.producer_recovery import rebuild_producer_state
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.log.log_cleaner import LogCleaner
    from barnabas.broker.log.offset_checkpoints import OffsetCheckpoints
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition


class LogTruncation:
    """Truncates the logs of one directory, and its checkpoints before them.

    Behind a recovery point that is too late nothing would be recovered. `write_checkpoints()` returns when they are on
    the disk; `delete_later(path, at_ms)` takes the files that are left over.
    """

    __slots__ = ("_checkpoints", "_cleaner", "_delete_later", "_logs", "_write_checkpoints")

    def __init__(
        self,
        logs: Mapping[TopicPartition, UnifiedLog],
        checkpoints: OffsetCheckpoints,
        cleaner: LogCleaner,
        write_checkpoints: Callable[[], None],
        delete_later: Callable[[str, int], None],
    ) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._write_checkpoints = write_checkpoints
        self._delete_later = delete_later

    def truncate_to(
        self, offsets: Mapping[TopicPartition, int], now_ms: int
    ) -> dict[TopicPartition, KafkaStorageError]:
        """End logs at offsets, see the function `truncate_to`; what has failed."""
        return self._truncate(offsets, lambda log, offset: truncate_to(log, offset, now_ms), now_ms)

    def truncate_fully_and_start_at(self, name: TopicPartition, offset: int, now_ms: int) -> None:
        """Drop all that a log has and begin it anew at the offset. Raises `KafkaStorageError`."""
        for error in self._truncate({name: offset}, truncate_fully_and_start_at, now_ms).values():
            raise error

    def _truncate(
        self,
        offsets: Mapping[TopicPartition, int],
        truncate: Callable[[UnifiedLog, int], list[str]],
        now_ms: int,
    ) -> dict[TopicPartition, KafkaStorageError]:
        failed = {name: KafkaStorageError(f"{name} is being opened anew") for name in offsets if name not in self._logs}
        offsets = {name: offset for name, offset in offsets.items() if name in self._logs}
        try:
            if self._roll_checkpoints_back(offsets):
                self._write_checkpoints()
        except OSError as error:
            problem = KafkaStorageError(f"the checkpoints of {self._checkpoints.directory} cannot be written: {error}")
            return failed | dict.fromkeys(offsets, problem)
        for name, offset in offsets.items():
            log = self._logs[name]
            try:
                self._cleaner.abort(log, offset)
                for path in truncate(log, offset):
                    self._delete_later(path, now_ms + log.config.file_delete_delay_ms)
            except KafkaStorageError as error:
                failed[name] = error
        return failed

    def _roll_checkpoints_back(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Lower recovery points and high watermarks to what the logs will have; whether a file says otherwise."""
        changed = False
        for name, offset in offsets.items():
            log = self._logs[name]
            log.local_log.recovery_point = min(log.recovery_point, offset)
            changed |= self._checkpoints.recovery_points.get(name, 0) > offset
            changed |= self._checkpoints.high_watermarks.get(name, 0) > offset
            if log.high_watermark > offset:
                log.update_high_watermark(offset)
        return changed


def truncate_to(log: UnifiedLog, offset: int, now_ms: int) -> list[str]:
    """End the log at the offset, or where the batch begins in which it lies, as if nothing had followed.

    Gives the files, renamed, that are to be deleted after a delay. No checkpoint may name a later recovery point when
    this is called: `LogTruncation` sees to it. Raises `KafkaStorageError`.
    """
    log.check_online()
    if offset < log.local_log.segments.first.base_offset:
        return truncate_fully_and_start_at(log, offset)
    paths: list[str] = []
    try:
        if offset < log.log_end_offset:
            _report(log, offset)
            log.producer_state.delete_snapshots_after(offset)
            paths = log.local_log.truncate_to(offset)
            log.log_start_offset = min(log.log_start_offset, log.log_end_offset)
            _roll_back_producers(log, now_ms)
            log.update_high_watermark(log.high_watermark)
        # Also where there is nothing to cut: a leader that wrote nothing has left its epoch at the end.
        log.leader_epochs.truncate_from_end(log.log_end_offset)
    except OSError as error:
        raise log.fail(f"truncating to offset {offset}", error) from error
    return paths


def truncate_fully_and_start_at(log: UnifiedLog, offset: int) -> list[str]:
    """Drop everything and begin anew at the offset; see `truncate_to`."""
    log.check_online()
    _report(log, offset)
    try:
        log.producer_state.truncate_fully_and_start_at(offset)
        paths = log.local_log.truncate_fully_and_start_at(offset)
        log.leader_epochs.clear()
    except OSError as error:
        raise log.fail(f"starting anew at offset {offset}", error) from error
    log.log_start_offset = offset
    log.update_high_watermark(offset)
    return paths


def _roll_back_producers(log: UnifiedLog, now_ms: int) -> None:
    producers, end = log.producer_state, log.log_end_offset
    if not producers.producers and not producers.unreplicated_txns:
        # No producer is known at the end, so none has to be found again before it.
        producers.map_end_offset = end
        return
    for _ in rebuild_producer_state(producers, log.local_log.segments, log.log_start_offset, end, now_ms):
        pass


def _report(log: UnifiedLog, offset: int) -> None:
    from logging import INFO, WARNING, getLogger

    getLogger(__name__).log(
        WARNING if offset < log.high_watermark else INFO,
        "%s is truncated to offset %d; it ended at %d, with the high watermark at %d",
        log.topic_partition, offset, log.log_end_offset, log.high_watermark,
    )  # fmt: skip
