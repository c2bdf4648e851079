"""The metadata log in Kafka's files: `__cluster_metadata-0`, its segments and `.checkpoint` snapshots.

A snapshot is written under a name of its writer's own that ends in `.part`, synced, and renamed: a file
`<offset>-<epoch>.checkpoint` is whole. The log never begins behind a snapshot that is not there, also after a power
loss.
"""

from __future__ import annotations

import errno
import re
from functools import partial
from itertools import count
from logging import getLogger
from threading import Lock
from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import (
    PARTITION_METADATA,
    CorruptCheckpointError,
    read_partition_metadata,
    write_partition_metadata,
)
from barnabas.broker.log.disk_steps import carried_out
from barnabas.broker.log.log_config import LogConfig
from barnabas.broker.log.log_loader import LogCheckpoints, LogLoader
from barnabas.broker.log.log_retention import delete_old_segments
from barnabas.broker.log.truncation import fully_steps, truncate_fully_and_start_at, truncation_steps
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.raft.control_records import read_control_records
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.raft_messages import METADATA_TOPIC, METADATA_TOPIC_ID, PARTITION
from barnabas.broker.raft.replicated_log import BOOTSTRAP_SNAPSHOT_ID
from barnabas.errors import KafkaStorageError
from barnabas.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.broker.log.filesystem import File, FileSystem
    from barnabas.broker.log.truncation import Steps
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.message import Buffer

QUORUM_STATE = "quorum-state"
_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_ID_IN_NAME = "%020d-%010d"
_PART_SUFFIX = ".checkpoint.part"
_DELETED_SUFFIX = ".checkpoint.deleted"
_HEADER_BYTES = 4096
#: What Kafka's settings of the metadata log are when they are not given.
_DEFAULTS = {
    "metadata.log.segment.bytes": 1 << 30,
    "metadata.log.segment.ms": 604_800_000,
    "metadata.max.retention.bytes": 104_857_600,
    "metadata.max.retention.ms": 604_800_000,
}


def snapshot_file_name(snapshot_id: OffsetAndEpoch) -> str:
    """Return the name of a snapshot's file."""
    return f"{_ID_IN_NAME % snapshot_id}.checkpoint"


def log_directory_of(data_directory: str) -> str:
    """Return where in a data directory the metadata log lies."""
    return f"{data_directory}/{METADATA_TOPIC}-{PARTITION}"


class FileQuorumStateStore:
    """The file `quorum-state`; a `QuorumStateStore`."""

    __slots__ = ("_filesystem", "_path")

    def __init__(self, filesystem: FileSystem, data_directory: str) -> None:
        self._filesystem = filesystem
        self._path = f"{log_directory_of(data_directory)}/{QUORUM_STATE}"

    def read(self) -> bytes | None:
        """See `QuorumStateStore`."""
        try:
            return self._filesystem.read(self._path) if self._filesystem.exists(self._path) else None
        except OSError as error:
            raise KafkaStorageError(f"{self._path} cannot be read: {error}") from error

    def write(self, content: bytes) -> Steps[None]:
        """See `QuorumStateStore`."""
        try:
            yield from carried_out(partial(self._filesystem.replace, self._path, content, sync=True))
        except OSError as error:
            raise KafkaStorageError(f"{self._path} cannot be written: {error}") from error


class FileSnapshotWriter:
    """A snapshot's file in the making; a `RawSnapshotWriter`. Of those with one id the first that ends it counts."""

    __slots__ = ("_file", "_log", "_path", "size", "snapshot_id")

    def __init__(self, log: KafkaMetadataLog, snapshot_id: OffsetAndEpoch) -> None:
        self._log = log
        self.snapshot_id = snapshot_id
        self.size = 0
        self._path = log.next_part(snapshot_id)
        self._file: File | None = log.filesystem.open(self._path)
        self._file.truncate(0)

    def append(self, data: Buffer) -> None:
        """See `RawSnapshotWriter`."""
        if self._file is None:
            raise KafkaStorageError(f"the snapshot {self.snapshot_id} is ended")
        try:
            self._file.pwrite(data, self.size)
        except OSError as error:
            raise KafkaStorageError(f"{self._path} cannot be written: {error}") from error
        self.size += len(data)

    def freeze(self) -> Steps[None]:
        """See `RawSnapshotWriter`."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            yield from carried_out(partial(self._end, file))
        except OSError as error:
            self._log.remove_file(self._path)
            raise KafkaStorageError(f"{self._path} cannot be ended: {error}") from error
        self._log.add_snapshot(self.snapshot_id, self.size)

    def _end(self, file: File) -> None:
        try:
            file.sync()
        finally:
            file.close()
        log, path = self._log, self._log.snapshot_path(self.snapshot_id)
        with log.naming:
            if log.filesystem.exists(path):
                # Who reads it in parts goes on with the same bytes.
                log.filesystem.remove(self._path)
                self.size = log.named.get(self.snapshot_id, self.size)
            else:
                log.filesystem.rename(self._path, path)
                log.named[self.snapshot_id] = self.size
            log.filesystem.sync_directory(log.directory)

    def close(self) -> None:
        """See `RawSnapshotWriter`."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._log.remove_file(self._path)


class KafkaMetadataLog:
    """A `ReplicatedLog` in a directory.

    `config` has Kafka's settings of the metadata log (`metadata.log.segment.bytes`, `metadata.max.retention.ms`). As in
    Kafka the whole log is verified when it is opened: nothing says how far it was on the disk. Raises
    `KafkaStorageError`.
    """

    def __init__(self, filesystem: FileSystem, data_directory: str, config: Mapping[str, object], now_ms: int) -> None:
        self.filesystem = filesystem
        self.directory = log_directory_of(data_directory)
        self._settings = {name: int(str(config.get(name, default))) for name, default in _DEFAULTS.items()}
        self._now_ms = now_ms
        self._parts = count()
        #: Held by who gives a snapshot its name, beside the loop; how large those are that were named so.
        self.naming = Lock()
        self.named: dict[OffsetAndEpoch, int] = {}
        try:
            # It holds what users log in with, though salted and hashed.
            filesystem.make_directory(self.directory, private=True)
            self._write_partition_metadata()
            self._snapshots = self._find_snapshots()
            self._log = self._open()
        except OSError as error:
            raise KafkaStorageError(f"the metadata log in {self.directory} cannot be opened: {error}") from error

    def _write_partition_metadata(self) -> None:
        path = f"{self.directory}/{PARTITION_METADATA}"
        try:
            found = read_partition_metadata(self.filesystem, path)
        except CorruptCheckpointError:
            found = None  # torn by a power loss; its content is known
        if found is None:
            write_partition_metadata(self.filesystem, path, METADATA_TOPIC_ID)

    def _find_snapshots(self) -> dict[OffsetAndEpoch, int]:
        found = {}
        for entry in self.filesystem.list_directory(self.directory):
            match = _SNAPSHOT_NAME.fullmatch(entry.name)
            if match:
                found[OffsetAndEpoch(int(match[1]), int(match[2]))] = entry.size
            elif entry.name.endswith((_PART_SUFFIX, _DELETED_SUFFIX)):
                self.filesystem.remove(f"{self.directory}/{entry.name}")
        return dict(sorted(found.items()))

    def _open(self) -> UnifiedLog:
        config = LogConfig(
            {
                "segment.bytes": self._settings["metadata.log.segment.bytes"],
                "segment.ms": self._settings["metadata.log.segment.ms"],
                "max.message.bytes": 16 << 20,
                "retention.ms": -1,
                "retention.bytes": -1,
            }
        )
        name = TopicPartition(METADATA_TOPIC, PARTITION)
        log = LogLoader(
            self.filesystem, self.directory, name, config, LogCheckpoints(clean=False, high_watermark=0)
        ).load(self._now_ms)
        latest = self.latest_snapshot_id
        # After a power loss the log may end before a snapshot that it was to begin behind, or begin too early.
        if (
            latest is not None
            and latest != BOOTSTRAP_SNAPSHOT_ID
            and (log.latest_epoch, log.log_end_offset) < (latest.epoch, latest.offset)
        ):
            self._remove_files(truncate_fully_and_start_at(log, latest.offset))
        elif self._snapshots and log.log_start_offset < self._start(log):
            log.update_high_watermark(self._start(log))
            log.increment_log_start_offset(self._start(log), "a snapshot has all before it")
        # One that was dropped may be back: the log does not reach to it any more.
        for older in [found for found in self._snapshots if found.offset < log.log_start_offset]:
            self._forget(older)
        return log

    def _start(self, log: UnifiedLog) -> int:
        """Return where the log begins: at its oldest snapshot that is not the one of formatting, else where it did."""
        earliest = next(iter(self._snapshots)).offset
        return earliest if log.local_log.segments.first.base_offset > 0 or earliest == 0 else log.log_start_offset

    # -- where things stand ------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        """See `ReplicatedLog`."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """See `ReplicatedLog`."""
        return self._log.log_end_offset

    @property
    def flushed_offset(self) -> int:
        """See `ReplicatedLog`."""
        return self._log.recovery_point

    @property
    def high_watermark(self) -> int:
        """See `ReplicatedLog`."""
        return self._log.high_watermark

    @property
    def last_fetched_epoch(self) -> int:
        """See `ReplicatedLog`."""
        if self._log.latest_epoch >= 0:
            return self._log.latest_epoch
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        """See `ReplicatedLog`."""
        if self._log.latest_epoch < 0:
            return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)
        found = self._log.end_offset_for_epoch(epoch)
        earliest = self.earliest_snapshot_id
        if found.epoch < 0:
            return OffsetAndEpoch(self.end_offset, self.last_fetched_epoch)
        if earliest is not None and found.start_offset == earliest.offset and found.epoch == epoch:
            return earliest
        return OffsetAndEpoch(found.start_offset, found.epoch)

    # -- records -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, max_offset: int | None = None) -> bytes:
        """See `ReplicatedLog`."""
        found = self._log.read(offset, max_bytes, isolation=LOG_END, max_offset=max_offset).records
        return found if isinstance(found, bytes) else found.read()

    def append(self, records: Buffer, epoch: int, now_ms: int) -> None:
        """See `ReplicatedLog`."""
        self._log.append_as_follower(records, now_ms=now_ms, leader_epoch=epoch)

    def flush(self) -> Steps[None]:
        """See `ReplicatedLog`."""
        log, end = self._log, self._log.log_end_offset
        sync = log.prepare_flush(end)
        yield sync.run
        error = None if sync.done else OSError(errno.EIO, "the flush was not carried out")
        log.end_flush(end, sync.error or error, log.last_flushed_ms)
        log.check_online()

    def truncate_to(self, offset: int) -> Steps[None]:
        """See `ReplicatedLog`."""
        if offset < self.high_watermark:
            raise ValueError(
                f"the metadata log cannot be truncated to {offset}: it is committed to {self.high_watermark}"
            )
        self._remove_files((yield from truncation_steps(self._log, offset, self._now_ms)))

    def truncate_to_latest_snapshot(self) -> Steps[bool]:
        """See `ReplicatedLog`."""
        latest = self.latest_snapshot_id
        if latest is None or (latest.epoch, latest.offset) <= (self.last_fetched_epoch, self.end_offset):
            return False
        self._remove_files((yield from fully_steps(self._log, latest.offset)))
        self._forget_before(latest)
        return True

    def update_high_watermark(self, offset: int) -> None:
        """See `ReplicatedLog`."""
        self._log.update_high_watermark(offset)

    # -- snapshots ---------------------------------------------------------------------------------------------------

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        """See `ReplicatedLog`."""
        return next(reversed(self._snapshots), None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        """See `ReplicatedLog`."""
        return next(iter(self._snapshots), None)

    def snapshot_size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """See `ReplicatedLog`."""
        return self._snapshots.get(snapshot_id)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        """See `ReplicatedLog`."""
        path = self.snapshot_path(snapshot_id)
        try:
            file = self.filesystem.open(path)
            try:
                return file.pread(size, position)
            finally:
                file.close()
        except OSError as error:
            raise KafkaStorageError(f"{path} cannot be read: {error}") from error

    def create_snapshot(self, snapshot_id: OffsetAndEpoch) -> FileSnapshotWriter | None:
        """See `ReplicatedLog`."""
        if snapshot_id in self._snapshots:
            return None
        try:
            return FileSnapshotWriter(self, snapshot_id)
        except OSError as error:
            raise KafkaStorageError(f"the snapshot {snapshot_id} cannot be begun: {error}") from error

    def snapshot_path(self, snapshot_id: OffsetAndEpoch) -> str:
        """Return where a snapshot lies when it is whole."""
        return f"{self.directory}/{snapshot_file_name(snapshot_id)}"

    def next_part(self, snapshot_id: OffsetAndEpoch) -> str:
        """Return where a snapshot is written: two that write the same one may be at it at once."""
        return f"{self.directory}/{_ID_IN_NAME % snapshot_id}-{next(self._parts)}{_PART_SUFFIX}"

    def add_snapshot(self, snapshot_id: OffsetAndEpoch, size: int) -> None:
        """Take note of a snapshot that is whole; one that the log has left behind meanwhile goes."""
        self._snapshots[snapshot_id] = size
        if snapshot_id.offset < self.start_offset:
            self._forget(snapshot_id)
        self._snapshots = dict(sorted(self._snapshots.items()))

    def delete_before_snapshot(self, snapshot_id: OffsetAndEpoch) -> bool:
        """See `ReplicatedLog`."""
        if snapshot_id not in self._snapshots or not self.start_offset < snapshot_id.offset <= self.high_watermark:
            return False
        self._log.increment_log_start_offset(snapshot_id.offset, "a snapshot has all before it")
        self._remove_files(delete_old_segments(self._log, self._now_ms))
        self._forget_before(snapshot_id)
        return True

    def clean(self, now_ms: int) -> None:
        """See `ReplicatedLog`: drop snapshots, and the log before the next, by size and by age."""
        self._now_ms = now_ms
        while len(self._snapshots) > 1:
            oldest, following, *_ = self._snapshots
            if not (self._is_too_large() or self._is_too_old(oldest)) or not self.delete_before_snapshot(following):
                return

    def _is_too_large(self) -> bool:
        most = self._settings["metadata.max.retention.bytes"]
        return 0 <= most < self._log.size + sum(self._snapshots.values())

    def _is_too_old(self, snapshot_id: OffsetAndEpoch) -> bool:
        most = self._settings["metadata.max.retention.ms"]
        if most < 0:
            return False
        for _, message in read_control_records(self.read_snapshot(snapshot_id, 0, _HEADER_BYTES)):
            if isinstance(message, SnapshotHeaderRecord):
                return self._now_ms - message.last_contained_log_timestamp > most
        return False

    def _forget_before(self, snapshot_id: OffsetAndEpoch) -> None:
        for older in [found for found in self._snapshots if found < snapshot_id]:
            self._forget(older)

    def _forget(self, snapshot_id: OffsetAndEpoch) -> None:
        del self._snapshots[snapshot_id]
        self.named.pop(snapshot_id, None)
        self.remove_file(self.snapshot_path(snapshot_id))

    def _remove_files(self, paths: list[str]) -> None:
        for path in paths:
            self.remove_file(path)

    def remove_file(self, path: str) -> None:
        """Remove what is of no use any more; the next start does it where the disk refuses."""
        try:
            if self.filesystem.exists(path):
                self.filesystem.remove(path)
        except OSError as error:
            getLogger(__name__).warning("%s cannot be removed: %s", path, error)

    def close(self) -> None:
        """Give all files back, with everything on the disk. Raises `KafkaStorageError`."""
        self._log.flush()
        self._log.close()
