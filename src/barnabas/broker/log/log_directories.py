"""Several data directories as one: which of them has a log, which gets the next, and what becomes of one that fails.

Each directory has a `LogManager` of its own, with its lock, checkpoints, cleaner and background work. This class finds
the one that a call concerns. One that fails goes out of service alone, until the broker is started anew: its partitions
are offline, those of the others are served (KIP-112).
"""

from __future__ import annotations

import errno
from collections import ChainMap, Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from barnabas.broker.log.duplicate_logs import DuplicateLogs
from barnabas.broker.log.filesystem import DirectoryLockedError
from barnabas.broker.log.log_health import OFFLINE
from barnabas.broker.log.log_manager import DirectoryState, LogManager
from barnabas.broker.log.log_moves import LogMoves
from barnabas.errors import KafkaStorageError, LogDirNotFoundError, ReplicaNotAvailableError

#: How often a directory with a trouble is written to, in milliseconds, and what for.
PROBE_INTERVAL_MS = 5_000
PROBE_FILE = ".probe"

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.future_log import FutureLog
    from barnabas.broker.log.log_directory import Identify
    from barnabas.broker.log.log_settings import Settings
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.log.unopened_logs import LoadProgress, UnopenedLog
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition


class LogDirectories:
    """The logs in several data directories; the calls are those of `LogManager`."""

    def __init__(self, managers: list[LogManager]) -> None:
        self._managers = managers
        self._problems: dict[LogManager, str] = {}
        self._probes = {manager: DirectoryProbe(manager) for manager in managers}
        self._chosen: dict[TopicPartition, LogManager] = {}
        self._wanted: dict[TopicPartition, LogManager] = {}
        self.moves = LogMoves()
        #: Topics that were there when a directory could not be read: what it holds of them is not known.
        self._unknown: frozenset[bytes] = frozenset()
        self.unopened = UnopenedInAll(managers)
        self.filesystem: FileSystem = managers[0].filesystem
        self.storage: Storage = managers[0].storage
        self.on_directory_failed: Callable[[], None] = lambda: None
        """Called when a directory went out of service."""

    # -- directories -------------------------------------------------------------------------------------------------

    @property
    def directories(self) -> list[DirectoryState]:
        """All directories, in the order of `log.dirs`."""
        return [DirectoryState(manager, self._problems.get(manager)) for manager in self._managers]

    @property
    def _in_service(self) -> list[LogManager]:
        return [manager for manager in self._managers if manager not in self._problems]

    def start(
        self,
        topic_settings: Callable[[str], Settings] | None = None,
        now_ms: int = 0,
        identify: Identify | None = None,
        *,
        open_logs: bool = True,
    ) -> None:
        """See `LogManager.start`. A directory whose disk fails stays out of service; all of them, and this raises."""
        started: list[LogManager] = []
        try:
            for manager in self._managers:
                try:
                    manager.start(topic_settings, now_ms, identify, open_logs=open_logs)
                    started.append(manager)
                except KafkaStorageError as error:
                    if not isinstance(error.__cause__, OSError) or isinstance(error.__cause__, DirectoryLockedError):
                        raise
                    self._note_failure(manager, str(error))
            if not started:
                raise KafkaStorageError("; ".join(self._problems.values()))
        except KafkaStorageError:
            for manager in started:
                manager.log_directory.release()
            raise

    def note_topics(self, topic_ids: Mapping[str, bytes], deleted: Collection[bytes] = ()) -> None:
        """Take note of the topics that are there at the start, by name, and of the ids of those that were deleted.

        A directory out of service may hold logs of them, and one that is back a second log of a partition.
        """
        if self._problems:
            self._unknown = frozenset(topic_ids.values())
        DuplicateLogs(topic_ids, deleted).settle(self._in_service, self.now_ms)

    def _note_failure(self, manager: LogManager, problem: str) -> None:
        self._problems[manager] = problem
        left = len(self._in_service)
        _error(f"the data directory {manager.directory} is out of service until a restart, {left} go on: {problem}")
        self.on_directory_failed()

    def _look_for_failures(self) -> None:
        for manager in self._in_service:
            problem = _lasting_problem(manager) or self._probes[manager].problem
            if problem is not None and len(self._in_service) > 1:
                manager.take_out_of_service(problem)
                self._note_failure(manager, problem)

    # -- logs --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[UnifiedLog]:
        return iter(list(self.logs.values()))

    @property
    def logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        """The logs that are open."""
        return ChainMap(*(manager.logs for manager in self._managers))

    @property
    def offline(self) -> Mapping[str, Collection[int]]:
        """Topic → its partitions that cannot be served."""
        found: dict[str, set[int]] = {}
        for manager in self._managers:
            for topic, partitions in manager.offline.items():
                found.setdefault(topic, set()).update(partitions)
        return found

    @property
    def has_offline(self) -> bool:
        """See `LogManager.has_offline`."""
        return any(manager.has_offline for manager in self._managers)

    def owner(self, name: TopicPartition) -> LogManager | None:
        """Return what has the log of a partition, open or not."""
        for manager in self._managers:
            if manager.holds(name):
                return manager
        return None

    def get_log(self, topic_partition: TopicPartition) -> UnifiedLog | None:
        """See `LogManager.get_log`."""
        owner = self.owner(topic_partition)
        return None if owner is None else owner.get_log(topic_partition)

    def move(self, name: TopicPartition, directory: str) -> None:
        """Begin to bring the log of a partition to a directory (its absolute path); to where it lies ends a move.

        Raises `LogDirNotFoundError`, `KafkaStorageError` for a directory out of service, and `ReplicaNotAvailableError`
        where there is no log yet: it will be made there.
        """
        target = next((found for found in self._managers if found.log_directory.absolute == directory), None)
        if target is None:
            raise LogDirNotFoundError(f"{directory} is no data directory of this broker")
        if target in self._problems:
            raise KafkaStorageError(f"{directory} is out of service: {self._problems[target]}")
        owner = self.owner(name)
        if owner is None:
            self._wanted[name] = target
            raise ReplicaNotAvailableError(f"there is no log of {name} yet; it will be made in {directory}")
        self.moves.begin(name, owner, target)

    def future(self, name: TopicPartition) -> FutureLog | None:
        """Return the copy of a log that is on its way to another directory."""
        return self.moves.future(name)

    def _home_of(self, name: TopicPartition, topic_id: bytes | None) -> LogManager:
        """Return where a new log is to be made: where it was asked for, or where the fewest are."""
        if topic_id in self._unknown:
            where = ", ".join(manager.directory for manager in self._problems)
            raise KafkaStorageError(
                f"the log of {name} may lie in {where}, out of service: bring it back and restart the broker"
            )
        home = self._chosen.get(name) or self._wanted.get(name)
        if home is None or home in self._problems:
            chosen = Counter(self._chosen.values())
            home = min(self._in_service, key=lambda manager: manager.count + chosen[manager])
        self._chosen[name] = home
        return home

    def create_log(
        self, topic_partition: TopicPartition, topic_id: bytes | None = None, config: Settings | None = None
    ) -> UnifiedLog:
        """See `LogManager.create_log`; the directory with the fewest logs gets it."""
        log = self._home_of(topic_partition, topic_id).create_log(topic_partition, topic_id, config)
        self._chosen.pop(topic_partition, None)
        self._wanted.pop(topic_partition, None)
        return log

    def prepare(self, names: Iterable[tuple[TopicPartition, bytes]], done: Callable[[], None]) -> None:
        """See `LogManager.prepare`."""
        parts: dict[LogManager, list[tuple[TopicPartition, bytes]]] = {}
        for name, topic_id in names:
            try:
                home = self.owner(name) or self._home_of(name, topic_id)
            except KafkaStorageError:
                # Who opens the log meets it, too.
                continue
            parts.setdefault(home, []).append((name, topic_id))
        waiting = len(parts)
        if not waiting:
            done()

        def finish() -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                done()

        for home, part in parts.items():
            home.prepare(part, finish)

    def is_prepared(self, name: TopicPartition) -> bool:
        """See `LogManager.is_prepared`."""
        return all(manager.is_prepared(name) for manager in self._managers)

    def notify_ready(self, name: TopicPartition, done: Callable[[], object]) -> bool:
        """See `LogManager.notify_ready`."""
        return any(manager.notify_ready(name, done) for manager in self._managers)

    def size(self, topic_partition: TopicPartition) -> int:
        """See `LogManager.size`."""
        owner = self.owner(topic_partition)
        return 0 if owner is None else owner.size(topic_partition)

    def delete_log(self, topic_partition: TopicPartition) -> None:
        """See `LogManager.delete_log`."""
        self._chosen.pop(topic_partition, None)
        self._wanted.pop(topic_partition, None)
        self.moves.end(topic_partition, "it was deleted")
        for manager in self._managers:
            manager.delete_log(topic_partition)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """See `LogManager.set_aside`."""
        self._owner_of(topic_partition).set_aside(topic_partition)

    def mark_stray(self, topic_partition: TopicPartition) -> str:
        """See `LogManager.mark_stray`."""
        return self._owner_of(topic_partition).mark_stray(topic_partition)

    def _owner_of(self, name: TopicPartition) -> LogManager:
        owner = self.owner(name)
        if owner is None:
            raise KafkaStorageError(f"there is no log of {name}")
        return owner

    def truncate_to(
        self,
        offsets: Mapping[TopicPartition, int],
        now_ms: int,
        tell: Callable[[Mapping[TopicPartition, KafkaStorageError]], None],
        is_wanted: Callable[[TopicPartition], bool] = lambda _name: True,
        *,
        fully: bool = False,
    ) -> None:
        """See `LogManager.truncate_to`. Copies of these logs that are on their way are begun anew."""
        parts, failed = self._by_owner(offsets)
        waiting = len(parts)

        def done(more: Mapping[TopicPartition, KafkaStorageError]) -> None:
            nonlocal waiting
            waiting -= 1
            failed.update(more)
            if waiting <= 0:
                for name in offsets:
                    self.moves.begin_anew(name)
                tell(failed)

        for owner, part in parts.items():
            owner.truncate_to(part, now_ms, done, is_wanted, fully=fully)
        if not parts:
            tell(failed)

    def truncate_now(
        self, offsets: Mapping[TopicPartition, int], now_ms: int, *, fully: bool = False
    ) -> Mapping[TopicPartition, KafkaStorageError]:
        """See `LogManager.truncate_now`."""
        parts, failed = self._by_owner(offsets)
        for owner, part in parts.items():
            failed.update(owner.truncate_now(part, now_ms, fully=fully))
        for name in offsets:
            self.moves.begin_anew(name)
        return failed

    def _by_owner(
        self, offsets: Mapping[TopicPartition, int]
    ) -> tuple[dict[LogManager, dict[TopicPartition, int]], dict[TopicPartition, KafkaStorageError]]:
        parts: dict[LogManager, dict[TopicPartition, int]] = {}
        failed: dict[TopicPartition, KafkaStorageError] = {}
        for name, offset in offsets.items():
            owner = self.owner(name)
            if owner is None:
                failed[name] = KafkaStorageError(f"there is no log of {name}")
            else:
                parts.setdefault(owner, {})[name] = offset
        return parts, failed

    # -- settings ----------------------------------------------------------------------------------------------------

    def update_topic_config(self, topic: str, settings: Settings) -> None:
        """See `LogManager.update_topic_config`."""
        for manager in self._managers:
            manager.update_topic_config(topic, settings)

    def update_defaults(self, defaults: Settings, topic_settings: Callable[[str], Settings]) -> None:
        """See `LogManager.update_defaults`."""
        for manager in self._managers:
            manager.update_defaults(defaults, topic_settings)

    def note_replicated(self, is_replicated: Callable[[TopicPartition], bool]) -> None:
        """See `LogManager.note_replicated`."""
        for manager in self._managers:
            manager.note_replicated(is_replicated)

    def note_broker_epoch(self, broker_epoch: Callable[[], int]) -> None:
        """See `LogManager.note_broker_epoch`."""
        for manager in self._managers:
            manager.note_broker_epoch(broker_epoch)

    def notify_moved(self, on_moved: Callable[[UnifiedLog], None]) -> None:
        """See `LogManager.notify_moved`."""
        for manager in self._managers:
            manager.on_moved = on_moved

    def notify_prepared(self, on_prepared: Callable[[], None]) -> None:
        """See `LogManager.notify_prepared`."""
        for manager in self._managers:
            manager.notify_prepared(on_prepared)

    def notify_opened(self, on_opened: Callable[[UnifiedLog], None], on_all_opened: Callable[[], None]) -> None:
        """See `LogManager.notify_opened`; `on_all_opened` is called when the logs of all directories are open."""

        def opened_one() -> None:
            if not self.unopened and not self.unopened.failures and not self._problems:
                on_all_opened()

        for manager in self._managers:
            manager.notify_opened(on_opened, opened_one)

    # -- in the background, and the end ------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """When it was last told the time."""
        return self._managers[0].now_ms

    def checkpoint_soon(self) -> None:
        """See `LogManager.checkpoint_soon`."""
        for manager in self._in_service:
            manager.checkpoint_soon()

    def step(self, budget: int, now_ms: int) -> bool:
        """See `LogManager.step`."""
        more = False
        for manager in self._in_service:
            more |= manager.step(budget, now_ms)
            self._probes[manager].step(now_ms)
        self._look_for_failures()
        return self.moves.step(now_ms) or more

    def close(self) -> None:
        """See `LogManager.close`. Copies on their way are given up."""
        self.storage.drain()
        self.moves.end_all("the broker ends")
        for manager in self._managers:
            manager.close()


class DirectoryProbe:
    """Tries now and then to write to a directory of which the disk refuses something; twice in vain is a failure.

    A disk that is full is none: topics can be deleted there.
    """

    __slots__ = ("_failures", "_manager", "_next_ms", "problem")

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._next_ms = 0
        self._failures = 0
        self.problem: str | None = None

    def step(self, now_ms: int) -> None:
        """Begin to write, beside the loop, if it is time to."""
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + PROBE_INTERVAL_MS
        if not self._manager.offline and not _has_troubles(self._manager):
            self._failures = 0
            return
        errors: list[OSError] = []
        filesystem, path = self._manager.filesystem, self._manager.log_directory.file(PROBE_FILE)

        def work() -> None:
            try:
                filesystem.replace(path, b"", sync=True)
                filesystem.remove(path)
            except OSError as error:
                errors.append(error)

        def done() -> None:
            failed = bool(errors) and errors[0].errno not in (errno.ENOSPC, errno.EDQUOT)
            self._failures = self._failures + 1 if failed else 0
            if self._failures > 1:
                self.problem = f"it cannot be written: {errors[0]}"

        self._manager.storage.submit(work, done)


class UnopenedInAll:
    """The logs of several directories that are not open yet."""

    def __init__(self, managers: list[LogManager]) -> None:
        self._managers = managers

    def __len__(self) -> int:
        return sum(len(manager.unopened) for manager in self._managers)

    def __contains__(self, name: TopicPartition) -> bool:
        return any(name in manager.unopened for manager in self._managers)

    @property
    def failures(self) -> Mapping[TopicPartition, tuple[UnopenedLog, Exception]]:
        """What could not be opened, and why."""
        return ChainMap(*(manager.unopened.failures for manager in self._managers))

    def report_to(self, on_progress: Callable[[LoadProgress], None]) -> None:
        """See `UnopenedLogs.report_to`."""
        for manager in self._managers:
            manager.unopened.report_to(on_progress)


Logs: TypeAlias = LogManager | LogDirectories


def _has_troubles(manager: LogManager) -> bool:
    """Whether the disk refuses something to a log at present."""
    return any(log.troubles and manager.logs.get(log.topic_partition) is log for log in manager.troubled)


def _lasting_problem(manager: LogManager) -> str | None:
    """Return what keeps a log from service until the broker is started anew (a failed flush)."""
    for log in manager.logs.values() if manager.offline else ():
        if log.is_offline and not log.health.can_be_reopened:
            return log.health.troubles[OFFLINE]
    return None


def _error(message: str) -> None:
    from logging import getLogger

    getLogger(__name__).error(message)
