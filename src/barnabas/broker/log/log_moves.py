"""Logs on their way from one data directory to another: how fast, and when each may be swapped (KIP-113, KIP-858)."""

from __future__ import annotations

from logging import getLogger
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.log.future_log import FutureLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.log.log_manager import LogManager
    from barnabas.protocol.topic_partition import TopicPartition


class CopyRate(Protocol):
    """How fast logs are copied; times are in seconds."""

    def left(self, now: float) -> float:
        """Return how many bytes may be copied at once, negative where too many were."""

    def record(self, size: int, now: float) -> None:
        """Count bytes that were copied."""


class LogMoves:
    """The copies of logs that are on their way; at most one for each partition.

    `rate` holds all of them together (`replica.alter.log.dirs.io.max.bytes.per.second`). `may_swap(name, target)` is
    asked, again and again, once a copy has all: in a cluster the controller has to know the new place first (KIP-858).
    `on_given_up` is called with what stays where it is.
    """

    def __init__(self) -> None:
        self._moves: dict[TopicPartition, FutureLog] = {}
        self.rate: CopyRate | None = None
        self.may_swap: Callable[[TopicPartition, LogManager], bool] = lambda _name, _target: True
        self.on_given_up: Callable[[TopicPartition], None] = lambda _name: None

    def begin(self, name: TopicPartition, owner: LogManager, target: LogManager) -> None:
        """Bring a log to another directory, or end its move where it lies there. Raises `KafkaStorageError`."""
        moving = self._moves.get(name)
        if moving is not None and moving.target is target:
            return
        self.end(name, "it was cancelled")
        if owner is not target:
            owner.get_log(name)
            self._moves[name] = FutureLog(name, owner, target, lambda: self.may_swap(name, target))

    def end(self, name: TopicPartition, reason: str) -> None:
        """Give a copy up, if there is one."""
        moving = self._moves.pop(name, None)
        if moving is not None:
            moving.give_up(reason)
            self.on_given_up(name)

    def end_all(self, reason: str) -> None:
        """Give all copies up: the broker ends."""
        for moving in self._moves.values():
            moving.give_up(reason)

    def future(self, name: TopicPartition) -> FutureLog | None:
        """Return the copy of a log, if there is one."""
        return self._moves.get(name)

    def begin_anew(self, name: TopicPartition) -> None:
        """Copy a log anew that is on its way: it is truncated."""
        moving = self._moves.get(name)
        if moving is not None:
            moving.begin_anew()

    def step(self, now_ms: int) -> bool:
        """Copy a piece of each; whether there is more to do at once."""
        more, rate, now = False, self.rate, now_ms / 1000
        for name, moving in list(self._moves.items()):
            before = moving.copied
            most = None if rate is None else rate.left(now)
            more |= moving.step(now_ms, most)
            if rate is not None:
                rate.record(moving.copied - before, now)
            if moving.is_over:
                del self._moves[name]
                if moving.problem is not None:
                    getLogger(__name__).error(
                        "%s is not brought to %s: %s", name, moving.target.directory, moving.problem
                    )
                    self.on_given_up(name)
                else:
                    getLogger(__name__).warning("%s lies in %s now", name, moving.target.directory)
        return more
