"""The logs of a data directory that are not opened yet, or whose recovery is in progress.

A log is opened when a request needs it, and otherwise in the background, so a broker answers at once, however many
logs it has and however a crash has left them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.faults import insist, run_all
from barnabas.broker.log.disk_steps import done_at_once
from barnabas.broker.log.log_loader import LogCheckpoints, LogLoader
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.log.disk_steps import Steps, Work
    from barnabas.broker.log.filesystem import FileSystem
    from barnabas.broker.log.log_config import LogConfig
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.broker.storage_threads import Storage
    from barnabas.protocol.topic_partition import TopicPartition


class UnopenedLog(NamedTuple):
    """Where a log lies, and what the checkpoints say of it; None for a log that the last broker did not know.

    One that `has_failed` since the start is served only when it can be written, see `prove_writing`.
    """

    directory: str
    clean: bool
    recovery_point: int | None
    log_start_offset: int | None
    has_failed: bool = False


class LoadProgress:
    """How far the opening of all logs is: `opened` of `logs`, `current` at work, `bytes_read` to recover."""

    __slots__ = ("bytes_read", "current", "logs", "opened")

    def __init__(self, logs: int) -> None:
        self.logs = logs
        self.opened = 0
        self.current = ""
        self.bytes_read = 0


class UnopenedLogs:
    """What remains to be opened, those with the coordinators' records first.

    `config_of(topic)` gives a log's settings when it is opened, `expiration_ms()` how long its producers are
    remembered, `high_watermark_of(name)` where a replicated log's high watermark was last seen. `on_progress` is called
    after every log and for every few megabytes that are read.
    """

    def __init__(
        self,
        filesystem: FileSystem,
        config_of: Callable[[str], LogConfig],
        expiration_ms: Callable[[], int],
        high_watermark_of: Callable[[TopicPartition], int | None],
        storage: Storage,
        *,
        has_copies: bool = False,
    ) -> None:
        self._has_copies = has_copies
        self.on_progress: Callable[[LoadProgress], None] = lambda _progress: None
        self.failures: dict[TopicPartition, tuple[UnopenedLog, Exception]] = {}
        """What could not be opened, and why. `retry` lines up what the disk has kept from it."""
        self._filesystem = filesystem
        self._config_of = config_of
        self._expiration_ms = expiration_ms
        self._high_watermark_of = high_watermark_of
        self._waiting: dict[TopicPartition, UnopenedLog] = {}
        self._in_progress: dict[TopicPartition, tuple[LogLoader, Steps[UnifiedLog]]] = {}
        self._storage = storage
        #: Logs that are open, and not in use before `note_opened`.
        self._opened: dict[TopicPartition, UnifiedLog] = {}
        #: Logs that go on when work beside the loop is done, and what is called then.
        self._beside: dict[TopicPartition, list[Callable[[], object]]] = {}
        self.on_ready: Callable[[], None] = lambda: None
        """Called on the loop when a log can go on that had to wait for the disk."""
        self._progress = LoadProgress(0)

    def report_to(self, on_progress: Callable[[LoadProgress], None]) -> None:
        """Call `on_progress` as the logs are opened."""
        self.on_progress = on_progress

    def fail_all(self, error: KafkaError) -> list[TopicPartition]:
        """Give up all that is not open, for its disk has failed; gives their names."""
        names = list(self._waiting)
        for name in names:
            self.failures[name] = self._waiting.pop(name), error
            self._abandon(name)
        return names

    def add(self, logs: dict[TopicPartition, UnopenedLog]) -> None:
        """Line up logs."""
        for name in sorted(logs, key=lambda name: (not name.topic.startswith("__"), name)):
            self._waiting[name] = logs[name]
        self._progress.logs += len(logs)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._waiting

    def checkpoints(self) -> dict[TopicPartition, UnopenedLog]:
        """Return what the checkpoints say, and must go on saying, of all that is not open."""
        return self._waiting | {name: log for name, (log, _) in self.failures.items()}

    def directory_of(self, name: TopicPartition) -> str | None:
        """Where a log lies that is not open; None if there is none of that name."""
        found = self._waiting.get(name) or self.failures.get(name, (None,))[0]
        return None if found is None else found.directory

    def next_ones(self, count: int) -> Iterator[TopicPartition]:
        """Return the next logs to go on with, those that are in progress first."""
        waiting = (name for name in self._waiting if name not in self._in_progress)
        return iter([*islice(chain(self._in_progress, waiting), count)])

    def has_begun(self, name: TopicPartition) -> bool:
        """Whether the opening of a log is in progress."""
        return name in self._in_progress

    def is_waiting(self, name: TopicPartition) -> bool:
        """Whether the opening of a log goes on only when the disk has answered."""
        return name in self._beside

    def notify_ready(self, name: TopicPartition, done: Callable[[], object]) -> bool:
        """Have `done` called on the loop when the opening of a log can go on; False if it does not wait."""
        if name not in self._beside:
            return False
        self._beside[name].append(done)
        return True

    def advance(self, name: TopicPartition, budget: int, now_ms: int) -> tuple[UnifiedLog | None, int]:
        """Read up to about `budget` bytes of a log; gives it when it is open, and how many bytes were read.

        It counts as not open before `note_opened`, and is given again.
        Less is read, perhaps nothing, where it has to wait for the disk (`is_waiting`). Raises `OSError` or
        `KafkaError`, and the log is then among the `failures`.
        """
        if name in self._opened:
            return self._opened[name], 0
        progress = self._progress
        progress.current = str(name)
        read = 0
        try:
            steps = self._steps(name, now_ms)
            while read < budget and name not in self._beside:
                step = next(steps)
                if isinstance(step, int):
                    read += step
                    progress.bytes_read += step
                    self.on_progress(progress)
                else:
                    self._do_beside(name, step)
        except StopIteration as done:
            if done.value is None:
                # A fault of this program came between: the log is opened once more.
                self._abandon(name)
            else:
                self._opened[name] = done.value
            return done.value, read
        except (OSError, KafkaError) as error:
            self.failures[name] = self._waiting[name], error
            self._abandon(name)
            del self._waiting[name]
            raise
        except Exception:
            # A fault of this program: what is half done is begun anew.
            self._abandon(name)
            raise
        return None, read

    def last_epoch_and_end(self, name: TopicPartition, now_ms: int) -> tuple[int, int]:
        """Return the last leader epoch of a log (-1: none) and its end offset, as recovery leaves it.

        All of it is read here and now, and it is not open afterwards. Raises `OSError` and `KafkaError`.
        """
        try:
            log = done_at_once(self._steps(name, now_ms))
            return log.leader_epochs.latest_epoch, log.log_end_offset
        finally:
            self._abandon(name)

    def note_opened(self, name: TopicPartition) -> None:
        """Take note that a log that `advance` has given is in use."""
        self._abandon(name)
        if self._waiting.pop(name, None) is not None:
            self._progress.opened += 1
            self.on_progress(self._progress)

    def _do_beside(self, name: TopicPartition, work: Work) -> None:
        waiting = self._beside[name] = []
        self._storage.submit(work, partial(insist, partial(self._landed, name, waiting)))

    def _landed(self, name: TopicPartition, waiting: list[Callable[[], object]]) -> None:
        # The log may have been given up meanwhile, and even be opened anew; who waits goes on in any case.
        is_same = self._beside.get(name) is waiting
        if is_same:
            del self._beside[name]
        told, waiting[:] = [*waiting], []
        run_all((*told, *([self.on_ready] if is_same else ())))

    def retry(self, is_due: Callable[[TopicPartition], bool]) -> None:
        """Line up again what a failure of the disk has kept from being opened, where it is time to."""
        for name, (log, error) in list(self.failures.items()):
            if isinstance(error, OSError) and is_due(name):
                del self.failures[name]
                self._waiting[name] = log

    def remove(self, name: TopicPartition) -> str | None:
        """Give a log up; its directory, no file of which is open any more. None if there is none of that name."""
        if name in self.failures:
            return self.failures.pop(name)[0].directory
        if name not in self._waiting:
            return None
        self._abandon(name)
        return self._waiting.pop(name).directory

    def close(self) -> None:
        """Give back the files of what is in progress."""
        for name in list(self._in_progress):
            self._abandon(name)

    def _abandon(self, name: TopicPartition) -> None:
        self._beside.pop(name, None)
        is_open = self._opened.pop(name, None) is not None
        in_progress = self._in_progress.pop(name, None)
        if in_progress is not None and not is_open:
            loader, steps = in_progress
            steps.close()
            loader.abandon()

    def _steps(self, name: TopicPartition, now_ms: int) -> Steps[UnifiedLog]:
        found = self._in_progress.get(name)
        if found is None:
            log = self._waiting[name]
            loader = LogLoader(
                self._filesystem,
                log.directory,
                name,
                self._config_of(name.topic),
                LogCheckpoints(
                    log.clean,
                    log.recovery_point or 0,
                    log.log_start_offset or 0,
                    self._high_watermark_of(name),
                    has_failed=log.has_failed,
                    has_copies=self._has_copies,
                ),
                self._expiration_ms(),
            )
            found = self._in_progress[name] = loader, loader.steps(now_ms)
        return found[1]
