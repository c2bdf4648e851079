"""What the checkpoints of a data directory say of its logs: recovery points, log starts and high watermarks."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    CorruptCheckpointError,
    OffsetCheckpointFile,
)
from barnabas.broker.log.lazy_logger import lazy_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.log.unopened_logs import UnopenedLog
    from barnabas.protocol.topic_partition import TopicPartition


_logger = lazy_logger(__name__)


class OffsetCheckpoints:
    """The checkpoints of one directory, as they were read and as they are written.

    `is_replicated(name)` tells which logs have other replicas: only theirs is the high watermark that is kept, for in
    a log that has none everything is committed. Raises `OSError` where nothing else is said.
    """

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self.is_replicated: Callable[[TopicPartition], bool] = lambda _name: False
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.directory = directory
        self._recovery_points = OffsetCheckpointFile(filesystem, f"{directory}/{RECOVERY_POINT_CHECKPOINT}")
        self._log_start_offsets = OffsetCheckpointFile(filesystem, f"{directory}/{LOG_START_OFFSET_CHECKPOINT}")
        self._high_watermarks = OffsetCheckpointFile(filesystem, f"{directory}/{REPLICATION_OFFSET_CHECKPOINT}")
        #: Whether the files lack something, and whether all logs are to be looked at for that.
        self._lacks = self._lacks_high_watermarks = self._is_partial = True
        self._fails = False
        self._writes = CheckpointWrites(self._note_failure)

    def read(self) -> None:
        """Read the files; one that cannot be understood counts as empty, and is told."""
        self.recovery_points = self._read(self._recovery_points)
        self.log_start_offsets = self._read(self._log_start_offsets)
        self.high_watermarks = self._read(self._high_watermarks)

    @staticmethod
    def _read(checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int]:
        try:
            return checkpoint.read()
        except CorruptCheckpointError as error:
            _logger().warning("%s; going without", error)
            return {}

    def high_watermark(self, name: TopicPartition) -> int | None:
        """Return where the high watermark of a replicated log was last seen; None for a log without other replicas."""
        return self.high_watermarks.get(name, 0) if self.is_replicated(name) else None

    def write(
        self, logs: Mapping[TopicPartition, UnifiedLog], unopened: Mapping[TopicPartition, UnopenedLog], *, sync: bool
    ) -> None:
        """Bring the files up to date, if anything has changed or they are to be on the disk (`sync`)."""
        self._take_in(logs, unopened)
        self._note_high_watermarks(self._found_high_watermarks(logs))
        self._write(sync=sync)
        self._write_high_watermarks(sync=sync)

    def _write(self, *, sync: bool) -> None:
        if sync or self._lacks:
            self._lacks = True
            self._recovery_points.write(self.recovery_points, sync=sync)
            self._log_start_offsets.write(self.log_start_offsets, sync=sync)
            self._lacks = False

    def _write_high_watermarks(self, *, sync: bool) -> None:
        if self._lacks_high_watermarks:
            self._high_watermarks.write(self.high_watermarks, sync=sync)
            self._lacks_high_watermarks = False

    def prepare_write(
        self, logs: Mapping[TopicPartition, UnifiedLog], unopened: Mapping[TopicPartition, UnopenedLog]
    ) -> CheckpointWrite:
        """Return what brings all that the checkpoints say to the disk, in any thread.

        As long as it has not run nothing else is written: an older state would come after a newer one.
        """
        self._take_in(logs, unopened)
        self.high_watermarks = self._found_high_watermarks(logs)
        self._lacks = self._lacks_high_watermarks = False
        contents = (
            (self._recovery_points, self.recovery_points),
            (self._log_start_offsets, self.log_start_offsets),
            (self._high_watermarks, self.high_watermarks),
        )
        return self._writes.prepare(contents)

    def _note_failure(self) -> None:
        self._lacks = self._lacks_high_watermarks = True

    def _take_in(
        self, logs: Mapping[TopicPartition, UnifiedLog], unopened: Mapping[TopicPartition, UnopenedLog]
    ) -> None:
        recovery_points = {
            name: log.recovery_point for name, log in unopened.items() if log.recovery_point is not None
        } | {name: log.recovery_point for name, log in logs.items()}
        log_start_offsets = {
            name: log.log_start_offset for name, log in unopened.items() if log.log_start_offset is not None
        } | {name: log.log_start_offset for name, log in logs.items() if log.starts_within_segment}
        self._lacks |= (recovery_points, log_start_offsets) != (self.recovery_points, self.log_start_offsets)
        self.recovery_points, self.log_start_offsets = recovery_points, log_start_offsets

    def _take_changes(self, changed: Collection[UnifiedLog]) -> None:
        for log in changed:
            name, start = log.topic_partition, log.log_start_offset if log.starts_within_segment else None
            if (self.recovery_points.get(name), self.log_start_offsets.get(name)) != (log.recovery_point, start):
                self._lacks = True
                self.recovery_points[name] = log.recovery_point
                self.log_start_offsets.pop(name, None)
                if start is not None:
                    self.log_start_offsets[name] = start

    def _note_high_watermarks(self, found: dict[TopicPartition, int]) -> None:
        self._lacks_high_watermarks |= found != self.high_watermarks
        self.high_watermarks = found

    def _take_high_watermarks(self, changed: Collection[UnifiedLog]) -> None:
        for log in changed:
            name = log.topic_partition
            if not self.is_replicated(name):
                self._lacks_high_watermarks |= self.high_watermarks.pop(name, None) is not None
            elif self.high_watermarks.get(name) != log.high_watermark:
                self.high_watermarks[name] = log.high_watermark
                self._lacks_high_watermarks = True

    def forget(self, name: TopicPartition) -> None:
        """Note that a log was deleted."""
        for offsets in (self.recovery_points, self.log_start_offsets):
            self._lacks |= offsets.pop(name, None) is not None
        self._lacks_high_watermarks |= self.high_watermarks.pop(name, None) is not None

    def _found_high_watermarks(self, logs: Mapping[TopicPartition, UnifiedLog]) -> dict[TopicPartition, int]:
        found = {name: offset for name, offset in self.high_watermarks.items() if self.is_replicated(name)}
        return found | {name: log.high_watermark for name, log in logs.items() if self.is_replicated(name)}

    def write_in_background(
        self,
        logs: Mapping[TopicPartition, UnifiedLog],
        unopened: Mapping[TopicPartition, UnopenedLog],
        changed: Collection[UnifiedLog],
        *,
        high_watermarks_only: bool,
    ) -> bool:
        """Write unsynced what is other in the logs that were `changed`; whether that was taken in.

        An old checkpoint, or none, only means that more is read again. An error is told once. While logs are being
        opened, and for the first time after that, all are looked at.
        """
        if self._writes.in_flight:
            # The next time: a newer state must not be replaced by that which is on its way.
            return False
        try:
            if self._is_partial or unopened:
                self.write(logs, unopened, sync=False)
                self._is_partial = bool(unopened)
            elif high_watermarks_only:
                self._take_high_watermarks(changed)
                self._write_high_watermarks(sync=False)
            else:
                self._take_changes(changed)
                self._take_high_watermarks(changed)
                self._write(sync=False)
                self._write_high_watermarks(sync=False)
        except OSError as error:
            if not self._fails:
                self._fails = True
                _logger().error(
                    "the checkpoints of %s cannot be written; that is tried again: %s", self.directory, error
                )
        else:
            # The high watermarks alone are mostly not written, which says nothing of the disk.
            self._fails = self._fails and high_watermarks_only
        return True


class CheckpointWrites:
    """Brings what checkpoints said at some moments to the disk: of two that are on their way the later one stays.

    `on_failed` is called, in any thread, when one has failed. `in_flight` are those that have not run.
    """

    def __init__(self, on_failed: Callable[[], None] = lambda: None) -> None:
        self._on_failed = on_failed
        self._version = self._version_on_disk = 0
        self._lock = Lock()
        self.in_flight: set[CheckpointWrite] = set()

    def prepare(self, contents: Iterable[tuple[OffsetCheckpointFile, Mapping[TopicPartition, int]]]) -> CheckpointWrite:
        """Return what brings the contents of files to the disk."""
        self._version += 1
        write = CheckpointWrite(self, self._version, [(file, dict(offsets)) for file, offsets in contents])
        self.in_flight.add(write)
        return write

    def run(self, write: CheckpointWrite) -> None:
        """Bring a prepared write to the disk, in any thread, unless a later one is there. Raises `OSError`."""
        try:
            with self._lock:
                if write.version > self._version_on_disk:
                    for file, offsets in write.contents:
                        file.write(offsets, sync=True)
                    self._version_on_disk = write.version
        except OSError:
            self._on_failed()
            raise
        finally:
            self.in_flight.discard(write)


class CheckpointWrite:
    """What checkpoints said at one moment, on its way to the disk."""

    __slots__ = ("_writes", "contents", "version")

    def __init__(
        self,
        writes: CheckpointWrites,
        version: int,
        contents: list[tuple[OffsetCheckpointFile, dict[TopicPartition, int]]],
    ) -> None:
        self._writes = writes
        self.version = version
        self.contents = contents

    def run(self) -> None:
        """Return when the disk has it. Raises `OSError`."""
        self._writes.run(self)
