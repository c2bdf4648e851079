"""Logs of partitions that the controller assigns: what opening them asks of the disk is done beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from barnabas.errors import NotLeaderOrFollowerError

if TYPE_CHECKING:
    from barnabas.broker.log.log_directories import Logs
    from barnabas.protocol.topic_partition import TopicPartition

#: So many logs are prepared together, and opened in one turn of the loop.
AT_ONCE = 64


class LogBusyError(NotLeaderOrFollowerError):
    """The log of a partition is being opened, or truncated: a moment later its role can be taken."""


class AssignedLogs:
    """Prepares logs, `AT_ONCE` at a time; `on_ready` is called on the loop with those that can be opened then.

    Who was told that a log is not ready need not ask for it again before that. A log whose preparation has failed
    counts as ready: opening it meets the failure, and says what it is.
    """

    __slots__ = ("_in_flight", "_is_asked", "_logs", "_ready", "_waiting", "on_ready")

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        #: Name → topic id, in the order in which they were asked for.
        self._waiting: dict[TopicPartition, bytes] = {}
        self._in_flight: set[TopicPartition] = set()
        self._ready: set[TopicPartition] = set()
        self._is_asked = False
        self.on_ready: Callable[[Collection[TopicPartition]], None] = lambda _names: None

    def take_ready(self, wanted: Sequence[tuple[TopicPartition, bytes]]) -> set[TopicPartition]:
        """Return those of `wanted` (name, topic id) that can be opened now; the others are prepared in turn."""
        names = set()
        for name, topic_id in wanted:
            names.add(name)
            if name not in self._ready and name not in self._in_flight:
                self._waiting[name] = topic_id
        self._is_asked = True
        while self._waiting and not self._in_flight:
            piece = list(islice(self._waiting.items(), AT_ONCE))
            self._in_flight = {name for name, _ in piece}
            for name in self._in_flight:
                del self._waiting[name]
            self._logs.prepare(piece, self._note)
        self._is_asked = False
        found = self._ready & names
        self._ready -= found
        return found

    def is_preparing(self, name: TopicPartition) -> bool:
        """Whether `on_ready` will be called with a log."""
        return name in self._waiting or name in self._in_flight

    def forget(self, name: TopicPartition) -> None:
        """Take note that a log is deleted."""
        self._ready.discard(name)
        self._waiting.pop(name, None)

    def _note(self) -> None:
        ready, self._in_flight = self._in_flight, set()
        self._ready |= ready
        if not self._is_asked:
            self.on_ready(ready)
