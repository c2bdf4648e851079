"""Logs of partitions that the controller assigns: what opening them asks of the disk is done beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Prepares logs, `AT_ONCE` at a time; `on_ready` is called on the loop when some can be opened.

    A log whose preparation has failed counts as ready: opening it meets the failure, and says what it is.
    """

    __slots__ = ("_in_flight", "_is_asked", "_logs", "_ready", "on_ready")

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._in_flight: set[TopicPartition] = set()
        self._ready: set[TopicPartition] = set()
        self._is_asked = False
        self.on_ready: Callable[[], None] = lambda: None

    def take_ready(self, wanted: Sequence[tuple[TopicPartition, bytes]]) -> set[TopicPartition]:
        """Return those of `wanted` (name, topic id) that can be opened now; the next of the others are prepared."""
        names = {name for name, _ in wanted}
        self._is_asked = True
        while not self._in_flight:
            piece = [log for log in wanted if log[0] not in self._ready][:AT_ONCE]
            if not piece:
                break
            self._in_flight = {name for name, _ in piece}
            self._logs.prepare(piece, self._note)
        self._is_asked = False
        found = self._ready & names
        self._ready -= found
        return found

    def forget(self, name: TopicPartition) -> None:
        """Take note that a log is deleted."""
        self._ready.discard(name)

    def _note(self) -> None:
        self._ready |= self._in_flight
        self._in_flight = set()
        if not self._is_asked:
            self.on_ready()
