"""Requests that wait until this broker knows of what they have changed (DelayedCreatePartitions)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import MetadataImage


class _Wait(NamedTuple):
    is_over: Callable[[MetadataImage], bool]
    deadline: float
    done: Callable[[], None]


class TopicWaits:
    """Calls each back when an image has what it waits for, or its deadline has come; a service of the dispatcher."""

    def __init__(self) -> None:
        self._waits: list[_Wait] = []

    def add(self, is_over: Callable[[MetadataImage], bool], deadline: float, done: Callable[[], None]) -> None:
        """Wait; whether it is over is asked at the next image first."""
        self._waits.append(_Wait(is_over, deadline, done))

    def published(self, image: MetadataImage) -> None:
        """Look at another image."""
        self._end(lambda wait: wait.is_over(image))

    def next_deadline(self) -> float:
        """When `tick` is due."""
        return min((wait.deadline for wait in self._waits), default=inf)

    def tick(self, instant: Instant) -> None:
        """Give up what has waited too long."""
        self._end(lambda wait: wait.deadline <= instant.now)

    def _end(self, is_over: Callable[[_Wait], bool]) -> None:
        over = [wait for wait in self._waits if is_over(wait)]
        self._waits = [wait for wait in self._waits if wait not in over]
        for wait in over:
            wait.done()
