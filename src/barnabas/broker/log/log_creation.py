"""How the log of a new partition comes into being, and that of a copy from another directory into service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.log.checkpoint_files import PARTITION_METADATA, write_partition_metadata
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.log_file_utils import FUTURE_DIR_SUFFIX, log_directory_name, marked_directory_name
from barnabas.broker.log.log_loader import LogCheckpoints, LogLoader
from barnabas.broker.log.log_preparation import LogToPrepare
from barnabas.errors import KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.log_directory import LogDirectory
    from barnabas.broker.log.log_settings import LogSettings, Settings
    from barnabas.broker.log.offset_checkpoints import OffsetCheckpoints
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition


_logger = lazy_logger(__name__)


class LogCreation:
    """Makes the directories of logs, and loads what lies in them; who asks notes the log."""

    __slots__ = ("_checkpoints", "_filesystem", "_log_directory", "_settings", "_unmade")

    def __init__(
        self, filesystem: FileSystem, log_directory: LogDirectory, checkpoints: OffsetCheckpoints, settings: LogSettings
    ) -> None:
        self._filesystem = filesystem
        self._log_directory = log_directory
        self._checkpoints = checkpoints
        self._settings = settings
        self._unmade: set[TopicPartition] = set()

    def path(self, name: TopicPartition) -> str:
        """Where the log of a partition lies."""
        return self._log_directory.file(log_directory_name(name))

    def future_path(self, name: TopicPartition, unique_id: str) -> str:
        """Where a copy lies that comes from another directory, until it is in service."""
        return self._log_directory.file(marked_directory_name(name, unique_id, FUTURE_DIR_SUFFIX))

    def to_prepare(self, name: TopicPartition, topic_id: bytes) -> LogToPrepare:
        """Return what can be made of a log before it is created."""
        make_segment = not self._settings.config_of(name.topic).preallocate
        return LogToPrepare(name, self.path(name), topic_id, make_segment)

    def load(
        self,
        directory: str,
        name: TopicPartition,
        config: LogConfig,
        high_watermark: int | None,
        now_ms: int = 0,
        topic_id: bytes | None = None,
    ) -> UnifiedLog:
        """Return the log in a directory, empty where nothing lies there. Raises `OSError`.

        Its topic id is read there, unless `topic_id` says it.
        """
        checkpoints = LogCheckpoints(clean=True, high_watermark=high_watermark, topic_id=topic_id)
        expiration_ms = self._settings.producer_expiration_ms
        return LogLoader(self._filesystem, directory, name, config, checkpoints, expiration_ms).load(now_ms)

    def create(
        self, name: TopicPartition, topic_id: bytes | None, made_for: bytes | None, settings: Settings
    ) -> UnifiedLog:
        """Make a log, or take over files that lie there from before. Raises `KafkaStorageError`.

        `made_for` is the topic id for which its files were prepared, None if they were not.
        """
        config = self._settings.config(settings)
        directory = self.path(name)
        try:
            self._filesystem.make_directory(directory)
            if topic_id is not None and topic_id != made_for:
                write_partition_metadata(self._filesystem, f"{directory}/{PARTITION_METADATA}", topic_id)
            log = self.load(directory, name, config, self._checkpoints.high_watermark(name), topic_id=topic_id)
        except OSError as error:
            problem = KafkaStorageError(f"the log of {name} cannot be made in {directory}: {error}")
            if name not in self._unmade:
                self._unmade.add(name)
                _logger().error("%s; that is tried again with the next request for it", problem)
            raise problem from error
        self._unmade.discard(name)
        if log.log_end_offset:
            _logger().warning(
                "%s takes over the offsets %d to %d that lay there",
                name, log.log_start_offset, log.log_end_offset - 1,
            )  # fmt: skip
        return log

    def rename_copy(self, directory: str, name: TopicPartition) -> str:
        """Give the copy of a log the name of its partition's; the new path. Raises `KafkaStorageError`."""
        path = self.path(name)
        try:
            self._filesystem.rename(directory, path)
        except OSError as error:
            raise KafkaStorageError(f"the copy of {name} cannot be taken into service: {error}") from error
        return path

    def take_over(self, directory: str, current: UnifiedLog, recovery_point: int, now_ms: int) -> UnifiedLog:
        """Rename the copy of a log, closed, to the log of its partition, and load it. Raises `KafkaStorageError`."""
        name = current.topic_partition
        path = self.rename_copy(directory, name)
        try:
            log = self.load(path, name, current.config, current.high_watermark, now_ms)
        except OSError as error:
            raise KafkaStorageError(f"the copy of {name} cannot be taken into service: {error}") from error
        log.local_log.recovery_point = min(recovery_point, log.log_end_offset)
        log.log_start_offset = max(log.log_start_offset, current.log_start_offset)
        for epoch, start_offset in current.leader_epochs.entries[-1:]:
            # What a leader has begun, and written nothing in yet, stands in no batch that was copied.
            log.leader_epochs.assign(epoch, start_offset)
        return log
