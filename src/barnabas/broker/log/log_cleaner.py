"""Compaction beside the traffic: one log after the other, a piece at a time (LogCleaner)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.broker.log.log_cleaner_manager import LogCleanerManager
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.log.cleaner import Cleaner, CleanerStats, Work
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.offset_checkpoints import CheckpointWrite
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition

_SECOND_MS = 1000


class LogCleaner:
    """Cleans the logs whose cleanup policy is `compact`, the dirtiest first.

    Apache Kafka has threads for this; here `step` does a piece of about an eighth of `log.cleaner.io.buffer.size`. Its
    code is loaded with the first log that is due.
    """

    __slots__ = (
        "_bytes_this_second",
        "_cleaner",
        "_delete_later",
        "_filesystem",
        "_log",
        "_next_look_ms",
        "_random_bytes",
        "_second",
        "_settings",
        "_work",
        "cleanings",
        "last_stats",
        "manager",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        logs: Callable[[], list[UnifiedLog]],
        settings: dict[str, object],
        delete_later: Callable[[str, int], None],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self.manager = LogCleanerManager(filesystem, directory, logs)
        self.cleanings = 0
        self.last_stats: CleanerStats | None = None
        self._filesystem = filesystem
        self._settings = settings
        self._delete_later = delete_later
        self._random_bytes = random_bytes
        self._next_look_ms = 0
        self._log: UnifiedLog | None = None
        self._cleaner: Cleaner | None = None
        self._work: Work | None = None
        self._second = self._bytes_this_second = 0

    @property
    def uncleanable(self) -> list[TopicPartition]:
        """The partitions that could not be cleaned and are left alone."""
        return self.manager.uncleanable

    def step(self, now_ms: int) -> bool:
        """Do a piece of what is due; whether more is due at once."""
        if self._work is None and not self._begin(now_ms):
            return False
        work, log = self._work, self._log
        if work is None or log is None or self._is_throttled(now_ms):
            return False
        try:
            worked = next(work)
        except StopIteration:
            self._finish(log, now_ms)
            return True
        except (KafkaError, OSError) as error:
            self._fail(log, error, now_ms)
            return True
        if worked < 0:
            return False
        self._bytes_this_second += worked
        self._delete_replaced(log, now_ms)
        return True

    def abort(self, log: UnifiedLog, offset: int) -> CheckpointWrite | None:
        """Break off the cleaning of a log that is about to be truncated to the offset. Raises `KafkaStorageError`.

        Returns what has to be on the disk before, None where it is.
        """
        try:
            if self._log is log:
                self.close()
            return self.manager.truncated(log, offset)
        except OSError as error:
            raise log.storage_failure("breaking its compaction off", error) from error

    def close(self) -> None:
        """Break the cleaning at work off and remove what is half made. Raises `OSError`."""
        cleaner, log = self._cleaner, self._log
        if cleaner is not None and log is not None:
            self._end(log)
            cleaner.abandon(remove=not log.is_offline)

    def _begin(self, now_ms: int) -> bool:
        if now_ms < self._next_look_ms or str(self._settings.get("log.cleaner.enable", True)).lower() == "false":
            return False
        try:
            target = self.manager.grab_filthiest_compacted_log(now_ms)
        except OSError:
            target = None
        if target is None:
            self._next_look_ms = now_ms + int(str(self._settings.get("log.cleaner.backoff.ms", 15_000)))
            return False
        from barnabas.broker.log.cleaner import Cleaner, CleanerConfig

        config = CleanerConfig.from_settings(self._settings)
        self._log = target.log
        self._log.being_cleaned = True
        self._cleaner = Cleaner(self._filesystem, config, target, now_ms, self._random_bytes(16))
        self._work = self._cleaner.run()
        return True

    def _is_throttled(self, now_ms: int) -> bool:
        second = now_ms // _SECOND_MS
        if second != self._second:
            self._second = second
            self._bytes_this_second = 0
        limit = float(str(self._settings.get("log.cleaner.io.max.bytes.per.second", "inf")))
        return self._bytes_this_second >= limit

    def _delete_replaced(self, log: UnifiedLog, now_ms: int) -> None:
        if self._cleaner is not None:
            for path in self._cleaner.deletable:
                self._delete_later(path, now_ms + log.config.file_delete_delay_ms)
            self._cleaner.deletable.clear()

    def _finish(self, log: UnifiedLog, now_ms: int) -> None:
        cleaner = self._cleaner
        self._delete_replaced(log, now_ms)
        self._end(log)
        if cleaner is None:
            return
        self.cleanings += 1
        stats = self.last_stats = cleaner.stats
        try:
            self.manager.done(log, stats.end_offset)
        except OSError as error:
            self.manager.failed(log, error, now_ms)
        if anatomy.active is not None:
            names = *log.topic_partition, stats.end_offset, stats.bytes_before, stats.bytes_after, stats.keys
            anatomy.active.record(anatomy.events.LogCleaned(*names))
        from logging import getLogger

        getLogger(__name__).info(
            "%s is clean up to offset %d: %d bytes became %d, %d keys were dirty",
            log.topic_partition, stats.end_offset, stats.bytes_before, stats.bytes_after, stats.keys,
        )  # fmt: skip

    def _fail(self, log: UnifiedLog, error: Exception, now_ms: int) -> None:
        cleaner = self._cleaner
        self._delete_replaced(log, now_ms)
        self._end(log)
        # That a log was deleted has been said, and its files are not ours any more.
        if not log.is_offline or log.health.can_be_reopened:
            self.manager.failed(log, error, now_ms)
        if cleaner is not None:
            try:
                cleaner.abandon(remove=not log.is_offline)
            except OSError as second:
                self.manager.failed(log, second, now_ms)

    def _end(self, log: UnifiedLog) -> None:
        log.being_cleaned = False
        if self._work is not None:
            self._work.close()
        self._work = self._cleaner = self._log = None
