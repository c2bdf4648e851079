"""What a data directory needs beside its traffic, in small steps: flushing, retention, deletion, checkpoints.

Apache Kafka's LogManager has a scheduler thread for each of these; here each is a generator that yields after every
unit of work (a file, a log), so that a caller with a budget runs them between requests and a simulator in its own
time. A flush hands the files to the storage port and goes on when the disk has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from barnabas.broker.faults import OnFault, raise_fault
from barnabas.broker.log import producer_state_manager
from barnabas.broker.log.due_logs import DueLogs
from barnabas.broker.log.log_config import LONG_MAX
from barnabas.broker.log.log_retention import delete_old_segments, next_expiry
from barnabas.broker.storage_threads import THREADS
from barnabas.errors import CorruptRecordError, KafkaStorageError

if TYPE_CHECKING:
    from barnabas.broker.log.filesystem import FileSystem, Sync
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition

WORKED = True
WAITING = False

Task = Iterator[bool]

# setting -> default in milliseconds (Apache Kafka 4.3's)
INTERVALS = {
    "log.initial.task.delay.ms": 30_000,
    "log.retention.check.interval.ms": 300_000,
    "log.flush.offset.checkpoint.interval.ms": 60_000,
    "log.flush.start.offset.checkpoint.interval.ms": 60_000,
    "producer.id.expiration.check.interval.ms": 600_000,
    "replica.high.watermark.checkpoint.interval.ms": 5_000,
}
FLUSH_CHECK_INTERVAL_MS = 1_000
PRODUCER_BOUND_INTERVAL_MS = 5_000
#: When a deletion that the disk has refused is tried again, in milliseconds.
_DELETE_AGAIN_MS = 60_000
_TASKS = ("flush", "checkpoint", "high watermarks", "retention", "expiration", "producers")


class BackgroundWork:
    """The queue of work for all logs of one directory. A failure of the disk is logged and costs one log, not all."""

    __slots__ = (
        "_deletions",
        "_due",
        "_expiring",
        "_filesystem",
        "_flushes_in_flight",
        "_intervals",
        "_logs",
        "_on_touched",
        "_producers",
        "_retained",
        "_rolled",
        "_storage",
        "_task",
        "_touched",
        "_undeleted",
        "_unseen",
        "_write_checkpoints",
        "on_fault",
    )

    def __init__(
        self,
        filesystem: FileSystem,
        storage: Storage,
        logs: Callable[[], Mapping[TopicPartition, UnifiedLog]],
        write_checkpoints: Callable[..., bool],
        settings: dict[str, object],
        on_touched: Callable[[Collection[UnifiedLog]], None] = lambda _logs: None,
    ) -> None:
        self._filesystem = filesystem
        self._storage = storage
        self._logs = logs
        self._write_checkpoints = write_checkpoints
        self._intervals = {name: int(str(settings.get(name, default))) for name, default in INTERVALS.items()}
        self._rolled: dict[UnifiedLog, None] = {}
        self._deletions: list[tuple[int, str]] = []
        self._undeleted: set[str] = set()
        self._due: dict[str, int] = {}
        self._task: Task | None = None
        self._flushes_in_flight = 0
        #: Gets what is raised by a fault of this program, and where.
        self.on_fault: OnFault = raise_fault
        self._on_touched = on_touched
        self._touched: list[UnifiedLog] = []
        #: For each task the logs that were touched since it has looked at them.
        self._unseen: dict[str, dict[UnifiedLog, None]] = {name: {} for name in _TASKS}
        self._retained, self._expiring = DueLogs(), DueLogs()
        self._producers: dict[TopicPartition, int] = {}

    def touched(self, log: UnifiedLog) -> None:
        """Note that something has changed in a log, which has not told so since the last step."""
        self._touched.append(log)

    def _take_touched(self) -> None:
        if self._touched:
            touched, self._touched = dict.fromkeys(self._touched), []
            for log in touched:
                log.local_log.is_touched = False
            for unseen in self._unseen.values():
                unseen.update(touched)
            self._on_touched(touched)

    def _take_unseen(self, name: str, due: Collection[TopicPartition] = ()) -> Iterator[UnifiedLog]:
        """Give the logs that a task has to look at: touched, or `due` now; only those that are still there."""
        unseen, self._unseen[name] = self._unseen[name], {}
        logs = self._logs()
        unseen.update((logs[key], None) for key in due if key in logs)
        return (log for log in unseen if self._logs().get(log.topic_partition) is log)

    def rolled(self, log: UnifiedLog) -> None:
        """Note that a log has begun a new segment: the one before is to be flushed."""
        self._rolled[log] = None

    def delete_later(self, path: str, due_ms: int) -> None:
        """Delete a file, or a directory of files, when its time has come."""
        heappush(self._deletions, (due_ms, path))

    def checkpoint_soon(self) -> None:
        """Write the checkpoints with the next step."""
        self._due["checkpoint"] = 0

    def step(self, budget: int, now_ms: int) -> bool:
        """Do up to `budget` units of what is due; whether more is due at once."""
        self._take_touched()
        self._flush_rolled(now_ms)
        for _ in range(budget):
            if self._task is None:
                self._task = self._next_task(now_ms)
                if self._task is None:
                    return self._can_flush
            try:
                if next(self._task) is WAITING:
                    return False
            except StopIteration:
                self._task = None
        return True

    @property
    def _can_flush(self) -> bool:
        return bool(self._rolled) and self._flushes_in_flight < THREADS

    def _next_task(self, now_ms: int) -> Task | None:
        if self._deletions and self._deletions[0][0] <= now_ms:
            return self._delete(heappop(self._deletions)[1], now_ms)
        return self._periodic_task(now_ms)

    def _periodic_task(self, now_ms: int) -> Task | None:
        checkpoints = min(
            self._intervals["log.flush.offset.checkpoint.interval.ms"],
            self._intervals["log.flush.start.offset.checkpoint.interval.ms"],
        )
        tasks: tuple[tuple[str, int, Callable[[int], Task]], ...] = (
            ("flush", FLUSH_CHECK_INTERVAL_MS, self._flush_old),
            ("checkpoint", checkpoints, self._checkpoint),
            (
                "high watermarks",
                self._intervals["replica.high.watermark.checkpoint.interval.ms"],
                self._checkpoint_high_watermarks,
            ),
            ("retention", self._intervals["log.retention.check.interval.ms"], self._apply_retention),
            ("expiration", self._intervals["producer.id.expiration.check.interval.ms"], self._expire_producers),
            ("producers", PRODUCER_BOUND_INTERVAL_MS, self._bound_producers),
        )
        for name, interval, task in tasks:
            due = self._due.setdefault(name, now_ms + min(interval, self._intervals["log.initial.task.delay.ms"]))
            # A wall clock that was set back must not keep a task from its turn.
            if not now_ms < due <= now_ms + max(interval, self._intervals["log.initial.task.delay.ms"]):
                self._due[name] = now_ms + interval
                return task(now_ms)
        return None

    def _checkpoint(self, _now_ms: int) -> Task:
        yield WORKED
        changed = list(self._take_unseen("checkpoint"))
        if not self._write_checkpoints(changed):
            self._unseen["checkpoint"].update(dict.fromkeys(changed))

    def _checkpoint_high_watermarks(self, _now_ms: int) -> Task:
        yield WORKED
        changed = list(self._take_unseen("high watermarks"))
        if not self._write_checkpoints(changed, high_watermarks_only=True):
            self._unseen["high watermarks"].update(dict.fromkeys(changed))

    def _expire_producers(self, now_ms: int) -> Task:
        for log in self._take_unseen("expiration", self._expiring.take(now_ms)):
            if log.producer_state.producers:
                try:
                    log.producer_state.remove_expired(now_ms)
                    self._expiring.put(log.topic_partition, log.producer_state.next_expiry())
                except Exception as problem:  # noqa: BLE001 - a fault in one log must not keep the others
                    self._failed("expiration", log, problem)
                yield WORKED

    def _bound_producers(self, _now_ms: int) -> Task:
        # A client can invent producer ids in every partition; the partition with the most pays for it.
        counts, most = self._producers, producer_state_manager.MAX_PRODUCERS_OF_ALL_LOGS
        changed = {log.topic_partition: len(log.producer_state.producers) for log in self._take_unseen("producers")}
        for name, count in changed.items():
            counts.pop(name, None) if not count else counts.update({name: count})
        if not changed or sum(counts.values()) <= most:
            return
        states = [log.producer_state for log in self._logs().values()]
        self._producers = {name: len(log.producer_state.producers) for name, log in self._logs().items()}
        excess = sum(len(state.producers) for state in states) - most
        yield WORKED
        while excess > 0:
            largest = max(states, key=lambda state: len(state.producers) - len(state.ongoing_txns))
            forgotten = largest.forget_older_half()
            if not forgotten:
                return
            excess -= forgotten
            yield WORKED

    def _flush_old(self, now_ms: int) -> Task:
        for log in self._take_unseen("flush"):
            try:
                if log.config.flush_ms == LONG_MAX or not log.local_log.unflushed_messages:
                    # The count begins with the next record.
                    log.last_flushed_ms = None
                    continue
                if log.flush_is_due(now_ms):
                    yield from self._flush(log, log.log_end_offset, now_ms)
                self._unseen["flush"][log] = None
            except Exception as problem:  # noqa: BLE001 - as above
                self._failed("flush", log, problem)

    def _failed(self, task: str, log: UnifiedLog, problem: Exception) -> None:
        """Report a fault in the work for one log, and look at it again with the next turn of the task."""
        self._unseen[task][log] = None
        self.on_fault(f"{task} of a log", problem)

    def _flush_rolled(self, now_ms: int) -> None:
        """Begin to flush what lies before new segments, as many logs as there are threads that wait for the disk.

        Nothing else waits for these: where segments are begun faster than the disk flushes, retention still goes on.
        """
        for _ in range(THREADS - self._flushes_in_flight):
            if not self._rolled:
                return
            log = next(iter(self._rolled))
            del self._rolled[log]
            self._begin_flush(log, log.local_log.segments.active.base_offset, now_ms)

    def _begin_flush(self, log: UnifiedLog, up_to: int, now_ms: int) -> Sync | None:
        try:
            sync = log.prepare_flush(up_to)
        except KafkaStorageError:
            return None
        self._flushes_in_flight += 1

        def done() -> None:
            self._flushes_in_flight -= 1
            log.end_flush(up_to, sync.error, now_ms)

        self._storage.submit(sync.run, done)
        return sync

    def _flush(self, log: UnifiedLog, up_to: int, now_ms: int) -> Task:
        sync = self._begin_flush(log, up_to, now_ms)
        while sync is not None and not sync.done:
            yield WAITING
        yield WORKED

    def _apply_retention(self, now_ms: int) -> Task:
        for log in self._take_unseen("retention", self._retained.take(now_ms)):
            try:
                for path in delete_old_segments(log, now_ms):
                    self.delete_later(path, now_ms + log.config.file_delete_delay_ms)
                self._retained.put(log.topic_partition, next_expiry(log))
                if log.being_cleaned:
                    self._unseen["retention"][log] = None
            except (KafkaStorageError, OSError):
                self._unseen["retention"][log] = None
                continue
            except CorruptRecordError as error:
                self._unseen["retention"][log] = None
                from logging import getLogger

                getLogger(__name__).error("%s: retention stops at a damaged segment: %s", log.directory, error)
            except Exception as problem:  # noqa: BLE001 - as above
                self._failed("retention", log, problem)
            yield WORKED

    def _delete(self, path: str, now_ms: int) -> Task:
        try:
            if self._filesystem.is_directory(path):
                for entry in self._filesystem.list_directory(path):
                    self._filesystem.remove(f"{path}/{entry.name}")
                    yield WORKED
                self._filesystem.remove_directory(path)
            else:
                self._filesystem.remove(path)
            self._undeleted.discard(path)
        except OSError as error:
            self.delete_later(path, now_ms + _DELETE_AGAIN_MS)
            if path not in self._undeleted:
                from logging import getLogger

                self._undeleted.add(path)
                getLogger(__name__).error("%s cannot be deleted; it is tried again: %s", path, error)
        yield WORKED
