"""All logs of one data directory: opening, making, deleting, closing, and the work in the background (LogManager)."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.faults import OnFault
from barnabas.broker.log.background_work import BackgroundWork
from barnabas.broker.log.deleted_logs import DeletedLogs
from barnabas.broker.log.filesystem import FileSystem
from barnabas.broker.log.lazy_logger import lazy_logger
from barnabas.broker.log.log_cleaner import LogCleaner
from barnabas.broker.log.log_closing import close_logs
from barnabas.broker.log.log_creation import LogCreation
from barnabas.broker.log.log_directory import Identify, LogDirectory
from barnabas.broker.log.log_file_utils import LOG_FILE_SUFFIX
from barnabas.broker.log.log_opener import OPEN_BYTES, LogOpener
from barnabas.broker.log.log_preparation import LogPreparation, LogToPrepare
from barnabas.broker.log.log_reopening import LogReopening
from barnabas.broker.log.log_settings import LogSettings, Settings
from barnabas.broker.log.offline_partitions import OfflinePartitions
from barnabas.broker.log.offset_checkpoints import OffsetCheckpoints
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.broker.log.unopened_logs import UnopenedLog, UnopenedLogs
from barnabas.broker.storage_threads import InlineStorage, Storage
from barnabas.errors import (
    IllegalStateError,
    KafkaStorageError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
)
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.offset_checkpoints import CheckpointWrite
    from barnabas.broker.log.truncation import LogTruncation


_logger = lazy_logger(__name__)

#: How often what the disk has refused is looked at, in milliseconds: logs out of service, those of deleted topics.
MEND_INTERVAL_MS = 5_000
#: With less room than this on the disk, deleted files go at once; their delay is a comfort for readers, which need none
#: here.
LITTLE_ROOM = 16 << 20


class DirectoryState(NamedTuple):
    """A data directory as others see it: what has its logs, and why it is out of service, None while it is not."""

    manager: LogManager
    problem: str | None


class LogManager:
    """The logs in one data directory, which no other broker may use meanwhile.

    Flushes go through `storage`. `config` has the defaults of `LogSettings`. `random_bytes(size)` makes the unique
    names of deleted directories. Where others `has_copies` of the logs, what is missing in one is fetched from them.
    """

    def __init__(
        self,
        directory: str,
        filesystem: FileSystem | None = None,
        config: Settings | None = None,
        *,
        random_bytes: Callable[[int], bytes] = os.urandom,
        storage: Storage | None = None,
        has_copies: bool = False,
    ) -> None:
        self.directory = os.fspath(directory)
        self.filesystem: FileSystem = filesystem if filesystem is not None else OsFileSystem()
        self.settings = LogSettings(config)
        self.log_directory = LogDirectory(self.filesystem, self.directory)
        self.broker_epoch: Callable[[], int] = lambda: -1
        """Gives the present broker epoch, which is noted when the directory is closed."""
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        """The logs that are open."""
        self._offline = OfflinePartitions()
        self.troubled: dict[UnifiedLog, None] = {}
        """Logs that have met a failure of the disk, which may be over."""
        self._deleted = DeletedLogs(self.filesystem, self.directory, random_bytes)
        #: Whether a controller decides where the replicas lie.
        self._is_member = has_copies
        self.checkpoints = OffsetCheckpoints(self.filesystem, self.directory)
        self.storage: Storage = storage or InlineStorage()
        self.unopened = UnopenedLogs(
            self.filesystem,
            self.settings.config_of,
            lambda: self.settings.producer_expiration_ms,
            self.checkpoints.high_watermark,
            self.storage,
            has_copies=has_copies,
        )
        self.unopened.on_ready = lambda: self._opener.on_prepared()
        self.on_opened: Callable[[UnifiedLog], None] = lambda _log: None
        """Called with every log that lay there from before, before its first use; may take it out of use."""
        self.on_all_opened: Callable[[], None] = lambda: None
        self.on_moved: Callable[[UnifiedLog], None] = lambda _log: None
        """Called with a log that has come from another directory, in the place of the one there."""
        self.now_ms = 0
        """When it was last told the time."""
        self._random_bytes = random_bytes
        self._background = BackgroundWork(
            self.filesystem,
            self.storage,
            lambda: self.logs,
            self._checkpoint,
            self.settings.defaults,
            lambda logs: self.cleaner.manager.touched(logs),
        )
        self.cleaner = LogCleaner(
            self.filesystem,
            self.directory,
            lambda: list(self.logs.values()),
            self.settings.defaults,
            self._background.delete_later,
            random_bytes,
        )
        self._preparation = LogPreparation(self.filesystem, self.storage)
        self._preparation.on_unwanted = self.delete_directory
        self._opener = LogOpener(self.unopened, self.prepare, self._advance, self._preparation.has_read)
        self._opener.on_failed = self._offline.add_unopened
        self._creation = LogCreation(self.filesystem, self.log_directory, self.checkpoints, self.settings)
        self._unfinished: list[str] = []
        self._mend_at_ms = 0
        self._reopening = LogReopening()

    @property
    def offline(self) -> Mapping[str, set[int]]:
        """Topic → its partitions that cannot be served, for their log is offline or could not be opened."""
        return self._offline.by_topic

    @property
    def has_offline(self) -> bool:
        """Whether a log is out of service, or could not be opened."""
        return bool(self.unopened.failures) or any(log.is_offline for log in self.logs.values())

    @property
    def had_clean_shutdown(self) -> bool:
        """Whether the last broker closed all its logs here."""
        return self.log_directory.had_clean_shutdown

    @property
    def directories(self) -> list[DirectoryState]:
        """The one directory, see `LogDirectories`."""
        return [DirectoryState(self, None)]

    @property
    def count(self) -> int:
        """How many logs there are, open or not; those of which only the files are made do not count."""
        return len(self.logs) + len(self.unopened)

    def holds(self, name: TopicPartition) -> bool:
        """Whether there is a log of a partition, open or not, or its files are being made."""
        if name in self.logs or name in self._preparation:
            return True
        return self.unopened.directory_of(name) is not None

    def move(self, name: TopicPartition, directory: str) -> None:
        """See `LogDirectories.move`: there is no other directory."""
        if directory != self.log_directory.absolute:
            raise LogDirNotFoundError(f"{directory} is no data directory of this broker")
        if not self.holds(name):
            raise ReplicaNotAvailableError(f"there is no log of {name} yet")

    def future(self, name: TopicPartition) -> None:
        """See `LogDirectories.future`: there is none."""

    def note_topics(self, topic_ids: Mapping[str, bytes], deleted: Collection[bytes] = ()) -> None:
        """Take note of the topics that are there at the start: of no use where there is one directory."""

    def note_replicated(self, is_replicated: Callable[[TopicPartition], bool]) -> None:
        """Keep high watermarks of the logs for which `is_replicated` says so, see `OffsetCheckpoints`."""
        self.checkpoints.is_replicated = is_replicated

    def note_broker_epoch(self, broker_epoch: Callable[[], int]) -> None:
        """Have `broker_epoch` give the present broker epoch, which is noted when the directory is closed."""
        self.broker_epoch = broker_epoch

    def notify_moved(self, on_moved: Callable[[UnifiedLog], None]) -> None:
        """Set `on_moved`."""
        self.on_moved = on_moved

    def notify_prepared(self, on_prepared: Callable[[], None]) -> None:
        """Have `on_prepared` called when `step` is to be made soon.

        It can open logs for which it had to wait, or one went out of service, and its whole directory may have to.
        """
        self._opener.on_prepared = on_prepared

    def notify_faults(self, on_fault: OnFault) -> None:
        """Have `on_fault` called with what a fault of this program raises in the background work of one log."""
        self._background.on_fault = on_fault

    def notify_opened(self, on_opened: Callable[[UnifiedLog], None], on_all_opened: Callable[[], None]) -> None:
        """Set `on_opened` and `on_all_opened`."""
        self.on_opened, self.on_all_opened = on_opened, on_all_opened

    def take_out_of_service(self, problem: str) -> None:
        """Serve no log of the directory any more."""
        error = KafkaStorageError(f"the data directory {self.directory} is out of service: {problem}")
        for log in self.logs.values():
            log.health.go_offline("its data directory", error, reopen=False)
        for name in self.unopened.fail_all(error):
            self._offline.add_unopened(name, error)

    def mark_unopened_stray(self, name: TopicPartition) -> str:
        """Rename the directory of a log that is not open; the new path. Raises `KafkaStorageError`."""
        directory = self.unopened.remove(name)
        assert directory is not None, "the log is not open"
        return self._deleted.mark_stray(name, directory)

    # -- opening -----------------------------------------------------------------------------------------------------

    def start(
        self,
        topic_settings: Callable[[str], Settings] | None = None,
        now_ms: int = 0,
        identify: Identify | None = None,
        *,
        open_logs: bool = True,
    ) -> None:
        """Lock the directory (made if need be) and open every log in it, recovering those that were not closed.

        `topic_settings(topic)` gives what a topic sets beside the defaults. `identify(cluster_id)` gives the ids of
        this cluster and node, and may adopt the cluster id that `meta.properties` names; without it the owner of the
        directory is not checked. With `open_logs=False` the logs are only listed: they are opened by `open_step`, and
        by `get_log` when they are asked for. Raises `KafkaStorageError` for a directory that another broker uses or
        owns, that cannot be read, or whose logs cannot be opened.
        """
        if topic_settings is not None:
            self.settings.topic_settings = topic_settings
        self.now_ms = now_ms
        self.log_directory.lock()
        try:
            if identify is not None:
                self.log_directory.identify(identify, self._random_bytes)
            self._find_logs()
            while open_logs and self.unopened:
                self._advance(next(self.unopened.next_ones(1)), OPEN_BYTES)
                self.storage.drain()
        except OSError as error:
            self.log_directory.release()
            raise KafkaStorageError(f"the logs in {self.directory} cannot be opened: {error}") from error
        except BaseException:
            self.log_directory.release()
            raise

    def _find_logs(self) -> None:
        self.log_directory.begin_use()
        self.checkpoints.read()
        found = self.log_directory.list_logs(self.checkpoints)
        self._deleted.found(found.deleted)
        self.unopened.add(found.logs)
        if self._is_member:
            self._unfinished = found.unfinished
        else:
            for path in found.unfinished:
                self.drop_unfinished(path)

    def open_step(self, now_ms: int) -> bool:
        """Open some of the logs that are not open yet, see `LogOpener.step`."""
        self.now_ms = now_ms
        return self._opener.step()

    def _advance(self, name: TopicPartition, budget: int) -> int:
        self._preparation.forget(name)
        log, read = self.unopened.advance(name, budget, self.now_ms)
        if log is not None:
            self._add(log)
            self._offline.remove(name)
            self.on_opened(log)
            self.unopened.note_opened(name)
            if not self.unopened and not self.unopened.failures:
                self.on_all_opened()
        return read

    # -- logs --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(list(self.logs.values()))

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """Return the log of a partition, None when there is none.

        One that is not open yet is opened. Where that takes more than a moment, each call brings it forward, and
        raises `NotLeaderOrFollowerError`, upon which clients try again. Raises `KafkaStorageError` for one that
        cannot be opened.
        """
        found = self.logs.get(topic_partition)
        if found is not None or (not self.unopened and not self.unopened.failures):
            return found
        if topic_partition in self.unopened:
            try:
                self._advance(topic_partition, OPEN_BYTES)
            except OSError as error:
                self._offline.add_unopened(topic_partition, error)
            if topic_partition in self.unopened:
                raise NotLeaderOrFollowerError(
                    f"{topic_partition} is being recovered from a crash of the broker; try again in a moment"
                )
        if topic_partition in self.unopened.failures:
            _, failure = self.unopened.failures[topic_partition]
            raise KafkaStorageError(f"the log of {topic_partition} could not be opened: {failure}") from failure
        return self.logs.get(topic_partition)

    def prepare(self, names: Iterable[tuple[TopicPartition, bytes]], done: Callable[[], None]) -> None:
        """Do beside the loop what `get_log` and `create_log` ask of the disk, for logs by name and topic id.

        `done` is called on the loop. Until then there are none of these logs.
        """
        logs = []
        for name, topic_id in names:
            directory = self.unopened.directory_of(name)
            if directory is not None:
                if not self._preparation.has_read(name):
                    logs.append(LogToPrepare(name, directory, None))
            elif name not in self.logs and name not in self._deleted:
                logs.append(self._creation.to_prepare(name, topic_id))
        self._preparation.begin(logs, done)

    def is_prepared(self, name: TopicPartition) -> bool:
        """Whether `get_log` finds what it needs without waiting for the disk."""
        unopened = self.unopened
        return name not in unopened or unopened.has_begun(name) or self._preparation.has_read(name)

    def notify_ready(self, name: TopicPartition, done: Callable[[], object]) -> bool:
        """Have `done` called when `get_log` can go on with a recovery that waits for the disk; False if none does."""
        return self.unopened.notify_ready(name, done)

    # -- to another directory and from there -------------------------------------------------------------------------

    def future_directory(self, name: TopicPartition) -> str:
        """Return a new path for a copy of a log that comes from another directory."""
        return self._creation.future_path(name, self._random_bytes(16).hex())

    def take_unfinished(self) -> list[str]:
        """Return the paths of the copies that were on their way here when the last broker ended, each once."""
        taken, self._unfinished = self._unfinished, []
        return taken

    def drop_unfinished(self, directory: str) -> None:
        """Delete such a copy; its files go later."""
        _logger().warning("%s is an unfinished copy of a partition; it is deleted", directory)
        self._deleted.found([directory])

    def take_up_unfinished(self, directory: str, name: TopicPartition) -> str:
        """Make such a copy the log of a partition, to be opened as after a crash; its path. `KafkaStorageError`."""
        path = self._creation.rename_copy(directory, name)
        self.unopened.add({name: UnopenedLog(path, False, None, None)})
        return path

    def load(self, directory: str, name: TopicPartition, config: LogConfig) -> UnifiedLog:
        """Return the log in a directory, empty where nothing lies there, without noting it. Raises `OSError`."""
        return self._creation.load(directory, name, config, None, self.now_ms)

    def take_over(self, directory: str, current: UnifiedLog, recovery_point: int) -> None:
        """Serve the copy of a log, closed, that lies in a directory here. Raises `KafkaStorageError`."""
        log = self._creation.take_over(directory, current, recovery_point, self.now_ms)
        self._add(log)
        self.checkpoint_soon()

    def size(self, topic_partition: TopicPartition) -> int:
        """Return the bytes of a log's segments; 0 without one."""
        log = self.logs.get(topic_partition)
        if log is not None:
            return log.size
        directory = self.unopened.directory_of(topic_partition)
        return 0 if directory is None else self._segments_size(directory)

    def _segments_size(self, directory: str) -> int:
        try:
            entries = self.filesystem.list_directory(directory)
        except OSError:
            return 0
        return sum(entry.size for entry in entries if entry.name.endswith(LOG_FILE_SUFFIX))

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes | None = None, config: Settings | None = None
    ) -> UnifiedLog:
        """Make the log of a new partition, or take over files that lie there from before.

        Raises `IllegalStateError` if there is one already, and `KafkaStorageError`.
        """
        if not self.log_directory.is_locked:
            raise IllegalStateError(f"the log manager of {self.directory} is not started")
        if topic_partition in self.logs or topic_partition in self.unopened:
            raise IllegalStateError(f"{self.directory} has a log of {topic_partition} already")
        if self._preparation.is_making(topic_partition):
            raise NotLeaderOrFollowerError(f"the files of {topic_partition} are being made; try again in a moment")
        self._deleted.finish(topic_partition)
        made_for = self._preparation.forget(topic_partition)
        log = self._creation.create(topic_partition, topic_id, made_for, config or {})
        self._add(log)
        return log

    def _add(self, log: UnifiedLog) -> None:
        log.on_roll = self._background.rolled
        log.health.on_offline = partial(self._went_offline, log.topic_partition)
        log.health.on_trouble = partial(self.troubled.setdefault, log)
        log.local_log.on_touched = partial(self._background.touched, log)
        log.touch()
        log.producer_state.expiration_ms = self.settings.producer_expiration_ms
        self.logs[log.topic_partition] = log

    def _went_offline(self, name: TopicPartition) -> None:
        self._offline.add_failed(name)
        self._opener.on_prepared()

    def update_topic_config(self, topic: str, settings: Settings) -> None:
        """Use other settings for a topic from now on. Raises `ConfigError` for a value that is not allowed."""
        self.settings.update_topic(topic, settings, self.logs.values())

    def update_defaults(self, defaults: Settings, topic_settings: Callable[[str], Settings]) -> None:
        """Use other settings for what topics do not set themselves, and for the work in the background, from now on.

        `topic_settings` is as for `start`. Raises `ConfigError` for a value that is not allowed; nothing has changed
        then.
        """
        self.settings.update_defaults(defaults, topic_settings, self.logs.values())

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """Take a log out of use, open or not, and rename its directory; its files go later, step by step.

        Where the disk refuses that it is tried again: no log of this name is made before it is done.
        """
        log = self.logs.pop(topic_partition, None)
        directory = log.directory if log is not None else self.unopened.remove(topic_partition)
        self._offline.remove_deleted(topic_partition)
        self._reopening.forget(topic_partition)
        self.checkpoints.forget(topic_partition)
        if log is not None:
            log.mark_deleted()
        if self._preparation.note_deleted(topic_partition):
            directory = self._creation.path(topic_partition)
        if directory is not None:
            self.delete_directory(topic_partition, directory)

    def delete_directory(self, topic_partition: TopicPartition, directory: str) -> None:
        """Rename the directory of a log that is out of use; its files go later."""
        try:
            self._deleted.add(topic_partition, directory)
        except KafkaStorageError as error:
            _logger().error("%s; that is tried again", error)

    def truncation(self) -> LogTruncation:
        """Return what truncates the logs."""
        from barnabas.broker.log.truncation import LogTruncation

        def prepare() -> CheckpointWrite:
            return self.checkpoints.prepare_write(self.logs, self.unopened.checkpoints())

        return LogTruncation(self.logs, self.checkpoints, self.cleaner, prepare, self._background.delete_later)

    def truncate_to(
        self,
        offsets: Mapping[TopicPartition, int],
        now_ms: int,
        tell: Callable[[Mapping[TopicPartition, KafkaStorageError]], None],
        is_wanted: Callable[[TopicPartition], bool] = lambda _name: True,
        *,
        fully: bool = False,
    ) -> None:
        """Truncate logs beside the loop, see `LogTruncation.steps`; `tell` gets what has failed, on the loop."""
        from barnabas.broker.log.truncation import done_beside

        done_beside(self.truncation().steps(offsets, now_ms, is_wanted, fully=fully), self.storage, tell)

    def truncate_now(
        self, offsets: Mapping[TopicPartition, int], now_ms: int, *, fully: bool = False
    ) -> Mapping[TopicPartition, KafkaStorageError]:
        """Truncate logs, and return what has failed when the disk has it."""
        from barnabas.broker.log.disk_steps import done_at_once

        return done_at_once(self.truncation().steps(offsets, now_ms, fully=fully))

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Close a log and leave its files, which `create_log` takes over. Raises `KafkaStorageError`."""
        log = self.logs.pop(topic_partition)
        log.flush()
        log.close()

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """Take a log out of use and rename its directory to one that stays; the new path. `KafkaStorageError`."""
        log = self.logs.pop(topic_partition)
        log.mark_deleted()
        self.checkpoints.forget(topic_partition)
        return self._deleted.mark_stray(topic_partition, log.directory)

    def checkpoint_soon(self) -> None:
        """Bring what only the checkpoints tell, such as where a log starts, into the files with the next step."""
        self._background.checkpoint_soon()

    # -- in the background, and the end ------------------------------------------------------------------------------

    def step(self, budget: int, now_ms: int) -> bool:
        """Do up to `budget` units of background work (a log looked at, a file deleted), and a piece of compaction.

        Whether more is due at once.

        Call it about once a second, and again while it returns True. Logs that are not open yet go first.
        """
        self.now_ms = now_ms
        self._mend(now_ms)
        if self.unopened:
            return self.open_step(now_ms) or not self.unopened
        deleted = self._deleted.drain()
        if deleted:
            little_room = 0 <= self.log_directory.disk_space()[1] < LITTLE_ROOM
            delay = 0 if little_room else self.settings.config({}).file_delete_delay_ms
            for path in deleted:
                self._background.delete_later(path, now_ms + delay)
        more = self._background.step(budget, now_ms)
        return self.cleaner.step(now_ms) or more

    def _mend(self, now_ms: int) -> None:
        """Try again, now and then, what the disk has refused."""
        # A clock that was set back does not put it off.
        if now_ms < self._mend_at_ms <= now_ms + MEND_INTERVAL_MS:
            return
        self._mend_at_ms = now_ms + MEND_INTERVAL_MS
        if self._offline.by_topic:
            for name, log in list(self.logs.items()):
                if log.health.can_be_reopened and self._reopening.try_now(name, now_ms):
                    self._reopen(name, log)
            self.unopened.retry(lambda name: self._reopening.try_now(name, now_ms))
        for log in list(self.troubled):
            if self.logs.get(log.topic_partition) is not log or log.health.settle(now_ms):
                del self.troubled[log]
        self._deleted.retry()

    def _reopen(self, name: TopicPartition, log: UnifiedLog) -> None:
        del self.logs[name]
        log.local_log.close_files()
        self.checkpoints.high_watermarks[name] = log.high_watermark
        found = UnopenedLog(log.directory, False, log.recovery_point, log.log_start_offset, has_failed=True)
        self.unopened.add({name: found})

    def close(self) -> None:
        """Flush and close every log, and say so on the disk, so that the next start need not recover.

        A log that cannot be closed keeps the others from nothing; the next start recovers then.
        """
        if not self.log_directory.is_locked:
            return
        self.storage.drain()
        self.unopened.close()
        # What was not opened is as the last broker left it.
        failed = bool(self.unopened.failures) or (bool(self.unopened) and not self.had_clean_shutdown)
        try:
            self.cleaner.close()
        except OSError as error:
            _logger().error("what a cleaning has left half made was not removed: %s", error)
        for log, problem in close_logs(list(self.logs.values()), self.storage):
            failed = True
            _logger().error("%s was not closed: %s", log.topic_partition, problem)
        try:
            self._write_checkpoints(sync=True)
            if not failed:
                self.log_directory.end_use(self.broker_epoch())
        except OSError as error:
            _logger().error("the checkpoints of %s were not written: %s", self.directory, error)
        finally:
            self.log_directory.release()

    def _write_checkpoints(self, *, sync: bool) -> None:
        self.checkpoints.write(self.logs, self.unopened.checkpoints(), sync=sync)

    def _checkpoint(self, changed: Collection[UnifiedLog], *, high_watermarks_only: bool = False) -> bool:
        unopened = self.unopened.checkpoints()
        return self.checkpoints.write_in_background(
            self.logs, unopened, changed, high_watermarks_only=high_watermarks_only
        )
