"""Opens the logs that the start has listed, some in each step of the background work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.faults import run_all
from barnabas.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.broker.log.unopened_logs import UnopenedLogs
    from barnabas.protocol.topic_partition import TopicPartition

#: How much is read to open logs before other work gets its turn, in bytes: a few milliseconds; and how many logs.
OPEN_BYTES = 4 << 20
OPEN_LOGS = 16


class LogOpener:
    """Opens logs whose files were read into the system's cache; those of the next ones are read beside the loop.

    `prepare(names and topic ids, done)` begins to read, `has_read(name)` tells that it is done, `advance(name, budget)`
    opens a log as far as so many bytes go, and returns how many it has read.
    """

    __slots__ = (
        "_advance",
        "_budget",
        "_has_read",
        "_is_preparing",
        "_prepare",
        "_unopened",
        "on_failed",
        "on_prepared",
    )

    def __init__(
        self,
        unopened: UnopenedLogs,
        prepare: Callable[[Iterable[tuple[TopicPartition, bytes]], Callable[[], None]], None],
        advance: Callable[[TopicPartition, int], int],
        has_read: Callable[[TopicPartition], bool],
    ) -> None:
        self._unopened = unopened
        self._prepare = prepare
        self._advance = advance
        self._has_read = has_read
        self._is_preparing = False
        self._budget = 0
        self.on_failed: Callable[[TopicPartition, Exception], None] = lambda _name, _error: None
        self.on_prepared: Callable[[], None] = lambda: None
        """Called when `step` can open logs for which it had to wait."""

    def step(self) -> bool:
        """Open some logs; whether there are more that need not wait for the disk."""
        self._budget = OPEN_BYTES
        run_all((*(partial(self._open, name) for name in self._unopened.next_ones(OPEN_LOGS)), self._prepare_next))
        return any(self._can_open(name) for name in self._unopened.next_ones(OPEN_LOGS))

    def _open(self, name: TopicPartition) -> None:
        while self._budget > 0 and self._can_open(name):
            try:
                self._budget -= self._advance(name, self._budget)
            except (OSError, KafkaError) as error:
                self.on_failed(name, error)

    def _can_open(self, name: TopicPartition) -> bool:
        unopened = self._unopened
        if unopened.is_waiting(name):
            return False
        return unopened.has_begun(name) or (name in unopened and self._has_read(name))

    def _prepare_next(self) -> None:
        unopened = self._unopened
        names = [
            name for name in unopened.next_ones(OPEN_LOGS) if not unopened.has_begun(name) and not self._has_read(name)
        ]
        if names and not self._is_preparing:
            self._is_preparing = True
            try:
                self._prepare([(name, b"") for name in names], self._note_prepared)
            except Exception:
                self._is_preparing = False
                raise

    def _note_prepared(self) -> None:
        self._is_preparing = False
        self.on_prepared()
