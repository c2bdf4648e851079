"""A directory of logs: its lock and identity, how the last broker left it, and which logs lie there (LogDirectory)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.log.checkpoint_files import (
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    META_PROPERTIES,
    Owner,
    claim_directory,
    read_clean_shutdown_file,
    write_clean_shutdown_file,
)
from barnabas.broker.log.filesystem import DirectoryLockedError
from barnabas.broker.log.log_file_utils import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    MARKED_DIR_SUFFIXES,
    parse_directory_name,
)
from barnabas.broker.log.unopened_logs import UnopenedLog
from barnabas.errors import KafkaStorageError
from barnabas.protocol.metadata_topic import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import DirectoryLock, FileSystem
    from barnabas.broker.log.offset_checkpoints import OffsetCheckpoints
    from barnabas.protocol.topic_partition import TopicPartition

Identify = Callable[[str | None], tuple[str, int] | Owner]


class FoundLogs(NamedTuple):
    """The logs in a directory, and the paths of deleted ones and of copies that were on their way there."""

    logs: dict[TopicPartition, UnopenedLog]
    deleted: list[str]
    unfinished: list[str]


class LogDirectory:
    """One data directory, which no other broker may use while this one has taken it."""

    __slots__ = ("_filesystem", "_lock", "directory_id", "had_clean_shutdown", "path", "previous_broker_epoch")

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self.had_clean_shutdown = False
        self.directory_id = b""
        """The id of the directory, once it is taken (KIP-858)."""
        self.previous_broker_epoch = -1
        """The broker epoch in which the directory was closed; -1 after a crash, and outside of a cluster."""
        self._filesystem = filesystem
        self._lock: DirectoryLock | None = None

    def file(self, name: str) -> str:
        """Return the path of a file or directory in it."""
        return f"{self.path}/{name}"

    @property
    def is_locked(self) -> bool:
        """Whether this broker has it."""
        return self._lock is not None

    def lock(self) -> None:
        """Make the directory if need be, and lock it. Raises `KafkaStorageError`."""
        try:
            self._filesystem.make_directory(self.path)
            self._lock = self._filesystem.lock(self.file(LOCK_FILE))
        except DirectoryLockedError as error:
            raise KafkaStorageError(
                f"the data directory {self.path} is in use ({error}); stop that broker or choose another directory"
            ) from error
        except OSError as error:
            raise KafkaStorageError(f"the data directory {self.path} cannot be used: {error}") from error

    def identify(self, identify: Identify, random_bytes: Callable[[int], bytes]) -> None:
        """Check whose directory it is, and note that it is ours. Raises `KafkaStorageError` and `OSError`."""
        self.directory_id = claim_directory(self._filesystem, self.file(META_PROPERTIES), identify, random_bytes)

    def begin_use(self) -> None:
        """Read how the last broker left it; from here on a crash counts as one, even if nothing was written yet."""
        marker = self.file(CLEAN_SHUTDOWN_FILE)
        self.had_clean_shutdown = self._filesystem.exists(marker)
        self.previous_broker_epoch = read_clean_shutdown_file(self._filesystem, marker)
        self._filesystem.remove(marker)
        if self.had_clean_shutdown:
            # A power loss must not bring the mark back.
            self._filesystem.sync_directory(self.path)

    def list_logs(self, checkpoints: OffsetCheckpoints) -> FoundLogs:
        """Return what lies there. Raises `OSError`."""
        recovery_points, starts = checkpoints.recovery_points, checkpoints.log_start_offsets
        found = FoundLogs({}, [], [])
        for entry in self._filesystem.list_directory(self.path):
            name = self._partition_of(entry.name, found) if entry.is_directory else None
            if name is not None:
                # A log that the last broker did not know was copied here; nothing vouches for its state.
                clean = self.had_clean_shutdown and name in recovery_points
                found.logs[name] = UnopenedLog(
                    self.file(entry.name), clean, recovery_points.get(name), starts.get(name)
                )
        return found

    def _partition_of(self, name: str, found: FoundLogs) -> TopicPartition | None:
        topic_partition = parse_directory_name(name)
        if topic_partition is not None and topic_partition.topic == CLUSTER_METADATA_TOPIC:
            # The quorum's log, which is this node's controller's, or that of an Apache Kafka that was here before.
            return None
        if topic_partition is None:
            self._warn("%s holds no partition; leaving it alone", name)
            return None
        if not name.endswith(MARKED_DIR_SUFFIXES):
            return topic_partition
        if name.endswith(DELETE_DIR_SUFFIX):
            found.deleted.append(self.file(name))
        elif name.endswith(FUTURE_DIR_SUFFIX):
            found.unfinished.append(self.file(name))
        else:
            self._warn("%s is a stray copy of a partition; leaving it alone", name)
        return None

    def _warn(self, message: str, name: str) -> None:
        from logging import getLogger

        getLogger(__name__).warning(message, self.file(name))

    def end_use(self, broker_epoch: int) -> None:
        """Note that all logs are closed, so that the next start need not recover. Raises `OSError`."""
        write_clean_shutdown_file(self._filesystem, self.file(CLEAN_SHUTDOWN_FILE), broker_epoch)

    def release(self) -> None:
        """Let another broker take it."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def absolute(self) -> str:
        """The absolute path."""
        return os.path.abspath(self.path)

    def disk_space(self) -> tuple[int, int]:
        """Return the bytes that its disk has, and those that are left for this process; -1 if not known."""
        try:
            return self._filesystem.disk_space(self.path)
        except OSError:
            return -1, -1
