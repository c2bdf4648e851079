"""Finds brokers whose processes have ended, long before their sessions do: connections end, and ports refuse.

To each broker that matters a connection is held open that carries nothing. When it ends, the port is asked for another
one: refused twice, 50 ms apart, tells that the process is gone. Connected, timed out or unreachable proves nothing, nor
does a port that was not seen open in that life: then the session decides.

To be wrong does no harm beyond an election: what a broker that lives on has written or proposes is refused by epochs,
and it is taken back when it answers.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from barnabas.broker.instant import Instant

#: How far apart the two refusals are, in seconds.
_APART = 0.05
_REFUSALS = 2
#: How long a port is left alone that has proved nothing, or lets connections go at once, in seconds: at most.
_MOST_APART = 5.0
#: A connection that has lasted so long was held by a broker that serves its port, in seconds.
_LASTED = 1.0


class Life(NamedTuple):
    """One life of a broker, by the epoch of its registration, and where it is reached."""

    id: int
    epoch: int
    host: str
    port: int


class Attempt(NamedTuple):
    """A connection that is to be opened and held; `number` tells those of one life apart."""

    life: Life
    number: int


class _Line:
    """What is known of one life."""

    __slots__ = ("attempt", "due", "opened_at", "pause", "refusals", "was_open")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.due = -inf
        self.pause = _APART
        self.refusals = 0
        self.was_open = False
        self.opened_at = -inf


class BrokerLifelines:
    """A service of the dispatcher; it has no socket of its own.

    `connect` begins to open a connection; what comes of it is told by `opened`, `closed` and `failed`. `drop` ends it.
    `ended` is told of a life that is over.
    """

    def __init__(self, ended: Callable[[Life], None]) -> None:
        self._ended = ended
        self._lines: dict[Life, _Line] = {}
        self._number = 0
        self.connect: Callable[[Attempt], None] = lambda attempt: None
        self.drop: Callable[[Attempt], None] = lambda attempt: None

    @property
    def lives(self) -> Collection[Life]:
        """The lives to which connections are held."""
        return self._lines.keys()

    def watch(self, life: Life) -> None:
        """Hold a connection to a broker from now on."""
        self._lines.setdefault(life, _Line())

    def forget(self, life: Life) -> None:
        """End the connection to a broker."""
        line = self._lines.pop(life, None)
        if line is not None and line.attempt is not None:
            self.drop(line.attempt)

    # -- time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When a connection is to be opened."""
        return min((line.due for line in self._lines.values()), default=inf)

    def tick(self, instant: Instant) -> None:
        """Open the connections that are due."""
        for life, line in list(self._lines.items()):
            if line.due <= instant.now:
                line.due = inf
                self._number += 1
                line.attempt = Attempt(life, self._number)
                self.connect(line.attempt)

    # -- what comes of connections -----------------------------------------------------------------------------------

    def opened(self, attempt: Attempt, now: float) -> None:
        """Take note of a connection."""
        line = self._line(attempt)
        if line is not None:
            line.was_open, line.refusals, line.opened_at = True, 0, now

    def closed(self, attempt: Attempt, now: float) -> None:
        """Take note of the end of a connection that was open."""
        line = self._line(attempt)
        if line is not None:
            line.attempt = None
            if now - line.opened_at >= _LASTED:
                line.pause, line.due = _APART, now
            else:
                self._wait(line, now)

    def failed(self, attempt: Attempt, now: float, *, is_refused: bool) -> None:
        """Take note of a connection that was refused, or (False) has come to nothing otherwise."""
        line = self._line(attempt)
        if line is None:
            return
        line.attempt = None
        if not (is_refused and line.was_open):
            line.refusals = 0
            self._wait(line, now)
            return
        line.refusals += 1
        line.due = now + _APART
        if line.refusals >= _REFUSALS:
            del self._lines[attempt.life]
            self._ended(attempt.life)

    def _line(self, attempt: Attempt) -> _Line | None:
        line = self._lines.get(attempt.life)
        return line if line is not None and line.attempt == attempt else None

    @staticmethod
    def _wait(line: _Line, now: float) -> None:
        line.due = now + line.pause
        line.pause = min(2 * line.pause, _MOST_APART)
