"""A log on its way to another data directory: copied while it is used, and swapped when the copy has all (KIP-113).

The copy lies in a directory that ends in `-future`. A crash leaves it unfinished, and the next start deletes it, but
where its log is lost (`settle_copies`); one between the two renames of the swap leaves both, whole, and the next start
puts one aside (`DuplicateLogs`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.broker.log.checkpoint_files import PARTITION_METADATA, write_partition_metadata
from barnabas.broker.log.cold_range import cold_ranges
from barnabas.broker.log.log_config import LONG_MAX
from barnabas.broker.log.truncation import truncate_fully_and_start_at
from barnabas.broker.log.unified_log import LOG_END
from barnabas.errors import KafkaError, KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.cold_range import ColdRange
    from barnabas.broker.log.log_manager import LogManager
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition

#: So much is copied before others get their turn, in bytes.
_PIECE: Final = 1 << 20
#: The copy takes batches of every leader epoch that the log has.
_ANY_EPOCH: Final = (1 << 31) - 1


class FutureLog:
    """Copies the log of a partition from one directory to another, a piece at a time.

    `is_over` when it was swapped in or given up; `problem` says why it was given up, `copied` how many bytes it has
    taken. `may_swap` is asked before the swap, again and again while it says no.
    """

    __slots__ = ("_is_flushed", "_is_waiting", "_may_swap", "_source", "copied", "is_over", "log", "name", "problem",
                 "target")  # fmt: skip

    def __init__(
        self,
        name: TopicPartition,
        source: LogManager,
        target: LogManager,
        may_swap: Callable[[], bool] = lambda: True,
    ) -> None:
        """Make the files of the copy. Raises `KafkaStorageError`."""
        self.name = name
        self.target = target
        self.problem: str | None = None
        self.is_over = False
        self.copied = 0
        self._source = source
        self._may_swap = may_swap
        self._is_waiting = False
        self._is_flushed = False
        self.log = self._make()

    def _make(self) -> UnifiedLog:
        current, target = self._current, self.target
        directory = target.future_directory(self.name)
        try:
            target.filesystem.make_directory(directory)
            self._write_topic_id(directory, current.topic_id, sync=False)
            log = target.load(directory, self.name, current.config)
            if current.log_start_offset:
                truncate_fully_and_start_at(log, current.log_start_offset)
        except OSError as error:
            raise KafkaStorageError(f"the copy of {self.name} cannot be made in {directory}: {error}") from error
        return log

    def _write_topic_id(self, directory: str, topic_id: bytes | None, *, sync: bool) -> None:
        if topic_id is not None:
            path = f"{directory}/{PARTITION_METADATA}"
            write_partition_metadata(self.target.filesystem, path, topic_id, sync=sync)

    @property
    def _current(self) -> UnifiedLog:
        found = self._source.logs.get(self.name)
        if found is None:
            raise KafkaStorageError(f"the log of {self.name} is not in service")
        return found

    @property
    def lag(self) -> int:
        """How many offsets the copy is behind."""
        current = self._source.logs.get(self.name)
        return 0 if current is None else max(0, current.log_end_offset - self.log.log_end_offset)

    def step(self, now_ms: int, most: float | None = None) -> bool:
        """Copy a piece, flush the copy, or swap; whether there is more to do at once.

        At most `most` bytes are copied, and a whole batch; none where it is negative.
        """
        if self.is_over or self._is_waiting:
            return False
        try:
            current = self._current
            current.check_online()
            self._follow_start(current)
            if self.log.log_end_offset != current.log_end_offset:
                piece = _PIECE if most is None else int(min(_PIECE, most))
                return piece >= 0 and self._copy(current, piece, now_ms)
            return self._finish(current, now_ms)
        except (OSError, KafkaError) as error:
            self._fail(str(error))
            return False

    def _fail(self, problem: str) -> None:
        """Give the move up; the copy is left for the next start where the disk of the log is what has failed."""
        current = self._source.logs.get(self.name)
        if current is not None and current.is_offline and not current.health.can_be_reopened:
            self.is_over, self.problem = True, f"{problem}; the copy {self.log.directory} is left"
            self.log.mark_deleted()
        else:
            self.give_up(problem)

    def _follow_start(self, current: UnifiedLog) -> None:
        start = current.log_start_offset
        if self.log.log_end_offset < start or self.log.log_end_offset > current.log_end_offset:
            self.begin_anew()
        elif self.log.log_start_offset < start:
            self.log.update_high_watermark(self.log.log_end_offset)
            self.log.increment_log_start_offset(start, "that of the log starts there")

    def begin_anew(self) -> None:
        """Drop what was copied: the log was truncated, and may have grown again since."""
        for path in truncate_fully_and_start_at(self.log, self._current.log_start_offset):
            self.target.filesystem.remove(path)

    def _copy(self, current: UnifiedLog, piece: int, now_ms: int) -> bool:
        offset = self.log.log_end_offset
        cold = cold_ranges(current, offset, max(piece, 1))
        if cold:
            self._bring_in(cold)
            return False
        records = current.read(offset, max(piece, 1), isolation=LOG_END).records
        assert isinstance(records, bytes), "a region comes only to who wants to send it"
        self.log.append_as_follower(records, now_ms=now_ms, leader_epoch=_ANY_EPOCH)
        self.copied += len(records)
        self._is_flushed = False
        return True

    def _bring_in(self, ranges: list[ColdRange]) -> None:
        filesystem = self._source.filesystem
        self._is_waiting = True

        def work() -> None:
            for found in ranges:
                filesystem.bring_in(*found)

        def done() -> None:
            self._is_waiting = False

        self._source.storage.submit(work, done)

    def _finish(self, current: UnifiedLog, now_ms: int) -> bool:
        if not self._is_flushed:
            self._flush(now_ms)
            return False
        if current.being_cleaned or not self._is_as_durable(current) or not self._may_swap():
            return False
        self._swap(current)
        return False

    def _is_as_durable(self, current: UnifiedLog) -> bool:
        """Whether the disk has as much of the copy as of the log, and no append waits for a flush of the log."""
        waits = current.config.flush_messages != LONG_MAX and current.local_log.unflushed_messages > 0
        if self.log.recovery_point < current.recovery_point:
            self._is_flushed = False
            return False
        return not waits

    def _flush(self, now_ms: int) -> None:
        end = self.log.log_end_offset
        sync, directory, topic_id = self.log.prepare_flush(end), self.log.directory, self._current.topic_id
        self._is_waiting = True

        def work() -> None:
            sync.run()
            if self.is_over:
                return
            try:
                # Whose copy it is counts where the log is lost (`settle_copies`).
                self._write_topic_id(directory, topic_id, sync=True)
            except OSError as error:
                sync.error = sync.error or error

        def done() -> None:
            self._is_waiting, self._is_flushed = False, True
            if not self.is_over:
                self.log.end_flush(end, sync.error, now_ms)

        self._source.storage.submit(work, done)

    def _swap(self, current: UnifiedLog) -> None:
        """Put the copy in the log's place; nothing is appended meanwhile, for all of this is one turn of the loop."""
        recovery_point = self.log.recovery_point
        self.log.close()
        self.target.take_over(self.log.directory, current, recovery_point)
        self._source.delete_log(self.name)
        self.is_over = True
        self.target.on_moved(self.target.logs[self.name])

    def give_up(self, problem: str) -> None:
        """Copy no more, and have the copy deleted."""
        if not self.is_over:
            self.is_over, self.problem = True, problem
            directory = self.log.directory
            self.log.mark_deleted()
            self.target.delete_directory(self.name, directory)
