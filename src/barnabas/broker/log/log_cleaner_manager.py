"""Which log is cleaned next, from where on, and which logs cannot be (LogCleanerManager)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import CorruptCheckpointError, OffsetCheckpointFile
from barnabas.broker.log.cleanable_offsets import LogToClean, log_to_clean
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.offset_checkpoints import CheckpointWrites
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.offset_checkpoints import CheckpointWrite
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition

_logger = lazy_logger(__name__)

CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
RETRY_AFTER_MS = 600_000
"""How long a log is left alone after the disk refused something, such as room."""
_NEVER = 1 << 63


def _key(log: UnifiedLog) -> tuple[TopicPartition, bytes | None]:
    """Return what a log has in common with the one that it becomes when it is opened anew."""
    return log.topic_partition, log.topic_id


class LogCleanerManager:
    """The state of compaction for the logs of one directory: up to where each is clean, in `cleaner-offset-checkpoint`.

    A log that could not be cleaned is left alone until the broker is started again, or for a while if only the disk
    was in the way.
    """

    __slots__ = ("_checkpoint", "_clean_offsets", "_logs", "_ratios", "_resting", "_unseen", "_writes")

    def __init__(self, filesystem: FileSystem, directory: str, logs: Callable[[], list[UnifiedLog]]) -> None:
        self._checkpoint = OffsetCheckpointFile(filesystem, f"{directory}/{CLEANER_OFFSET_CHECKPOINT}")
        self._clean_offsets: dict[TopicPartition, int] | None = None
        self._writes = CheckpointWrites()
        self._logs = logs
        self._ratios: dict[TopicPartition, float] = {}
        #: Logs that may have become dirty since they were looked at; None where that is not told.
        self._unseen: dict[UnifiedLog, None] | None = None
        self._resting: dict[tuple[TopicPartition, bytes | None], int] = {}

    @property
    def clean_offsets(self) -> dict[TopicPartition, int]:
        """The first offset of each log that is not clean yet. Raises `OSError`."""
        if self._clean_offsets is None:
            try:
                self._clean_offsets = self._checkpoint.read()
            except CorruptCheckpointError as error:
                _logger().warning("%s; compaction begins anew", error)
                self._clean_offsets = {}
        return self._clean_offsets

    def grab_filthiest_compacted_log(self, now_ms: int) -> LogToClean | None:
        """Return the log with the largest part of dirty bytes among those that are due; None when no log is.

        `OSError`.
        """
        found = None
        if self._unseen is None:
            self._ratios = {}
        for log in list(self._logs() if self._unseen is None else self._unseen):
            if not log.config.compact or log.is_offline:
                self._seen(log)
                continue
            if now_ms < self._resting.get(_key(log), 0):
                continue
            self._resting.pop(_key(log), None)
            try:
                target = log_to_clean(log, self.first_dirty_offset(log), now_ms)
            except Exception as error:  # noqa: BLE001 - one log must not keep the others from being cleaned
                self.failed(log, error, now_ms)
                continue
            self._ratios[log.topic_partition] = target.cleanable_ratio
            if not target.is_due and not target.ages:
                self._seen(log)
            elif target.is_due and (found is None or target.cleanable_ratio > found.cleanable_ratio):
                found = target
        return found

    def touched(self, logs: Iterable[UnifiedLog]) -> None:
        """Note that something has changed in logs; from now on the others are not looked at again."""
        if self._unseen is None:
            self._unseen = dict.fromkeys(self._logs())
        self._unseen.update((log, None) for log in logs if log.config.compact)

    def _seen(self, log: UnifiedLog) -> None:
        """Leave a log alone until something changes in it."""
        if self._unseen is not None:
            self._unseen.pop(log, None)
            if log.is_offline or not log.config.compact:
                self._ratios.pop(log.topic_partition, None)

    @property
    def dirtiest_ratio(self) -> float:
        """The dirty part of the log that has the largest, as far as they were looked at."""
        return max(self._ratios.values(), default=0.0)

    def first_dirty_offset(self, log: UnifiedLog) -> int:
        """Where the records begin that no cleaning has looked at."""
        start = log.log_start_offset
        offset = self.clean_offsets.get(log.topic_partition, start)
        if start <= offset <= log.log_end_offset:
            return offset
        if not log.config.delete or offset > log.log_end_offset:
            _logger().warning(
                "%s is clean up to offset %d, says %s; but it has the offsets %d to %d: cleaning it from its start on",
                log.topic_partition, offset, self._checkpoint.path, start, log.log_end_offset,
            )  # fmt: skip
        self.clean_offsets[log.topic_partition] = start
        return start

    def done(self, log: UnifiedLog, end_offset: int) -> None:
        """Note that a log is clean up to an offset. Raises `OSError`."""
        known = {found.topic_partition for found in self._logs()}
        self._clean_offsets = {name: offset for name, offset in self.clean_offsets.items() if name in known}
        self._clean_offsets[log.topic_partition] = end_offset
        # Unsynced, or not at all while another is on its way: an older one only means that more is cleaned again.
        if not self._writes.in_flight:
            self._checkpoint.write(self._clean_offsets, sync=False)

    def truncated(self, log: UnifiedLog, offset: int) -> CheckpointWrite | None:
        """Note that a log ends at the offset: what comes behind it is not clean. Raises `OSError`.

        Returns what brings that to the disk, in any thread, None where the disk has it.
        """
        if self.clean_offsets.get(log.topic_partition, 0) <= offset:
            return None
        self.clean_offsets[log.topic_partition] = offset
        return self._writes.prepare([(self._checkpoint, self.clean_offsets)])

    def failed(self, log: UnifiedLog, error: Exception, now_ms: int) -> None:
        """Leave a log alone, and say why."""
        if isinstance(error, (OSError, KafkaStorageError)):
            self._resting[_key(log)] = now_ms + RETRY_AFTER_MS
            _logger().error("%s: cleaning failed, the next try is in ten minutes: %s", log.directory, error)
        else:
            self._resting[_key(log)] = _NEVER
            _logger().error("%s cannot be cleaned and grows until the broker is restarted: %s", log.directory, error)

    @property
    def uncleanable(self) -> list[TopicPartition]:
        """The partitions that are not cleaned any more."""
        return [name for (name, _), until in self._resting.items() if until == _NEVER]
