"""`Recorder`: keeps the newest events of a process."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

#: Some 20 MB of events.
DEFAULT_CAPACITY = 100_000


class Recorder:
    """The newest events with their times (seconds of `clock`), and how many older ones are lost.

    Any thread may call `record`: a deque's append is atomic. `batches` gives objects a number while they live.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, capacity: int = DEFAULT_CAPACITY) -> None:
        #: Where the times come from; a simulator puts its own here.
        self.clock = clock
        self._events: deque[tuple[float, Event]] = deque(maxlen=capacity)
        self._count = 0
        self._numbers: dict[int, int] = {}
        self._last_number = 0

    def record(self, event: Event) -> None:
        """Keep an event."""
        self._events.append((self.clock(), event))
        self._count += 1

    def number_of(self, subject: object) -> int:
        """Return the number of an object that has no name, such as a batch, given at the first call."""
        number = self._numbers.get(id(subject))
        if number is None:
            self._last_number += 1
            number = self._numbers[id(subject)] = self._last_number
        return number

    def forget(self, subject: object) -> int:
        """Return the object's number for the last time: another one may take its place in memory."""
        number = self.number_of(subject)
        del self._numbers[id(subject)]
        return number

    @property
    def lost(self) -> int:
        """How many of the oldest events were not kept."""
        return self._count - len(self._events)

    def events(self) -> list[tuple[float, Event]]:
        """Return what is kept, the oldest first."""
        return list(self._events)

    def drain(self) -> list[tuple[float, Event]]:
        """Take what is kept out, the oldest first."""
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        self._count -= len(taken)
        return taken
