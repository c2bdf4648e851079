"""Finds brokers that have ended, long before their sessions: connections end, ports refuse, machines are silent.

To each broker that matters a connection is held open that carries nothing. When it ends, the port is asked for another
one: refused twice, 50 ms apart, tells that the process is gone. Where nothing is acknowledged on it for a quarter of a
session, the port is asked, too: two attempts in a row that come to nothing tell that the machine is gone or cut off,
unless it is this one (`SilentMachines`). A port that was not seen open in that life proves nothing: then the session
decides.

To be wrong does no harm beyond an election: what a broker that lives on has written or proposes is refused by epochs,
and it is taken back when it answers.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.silent_machines import Silence, SilentMachines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

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
    """A connection that is to be opened, in `patience` seconds, and held; `number` tells those of one life apart."""

    life: Life
    number: int
    patience: float = 1.0


class _Line:
    """What is known of one life."""

    __slots__ = (
        "asked_at",
        "attempt",
        "due",
        "held",
        "is_opening",
        "is_witness",
        "opened_at",
        "pause",
        "refusals",
        "was_open",
    )

    def __init__(self, *, is_witness: bool = False, was_open: bool = False) -> None:
        self.attempt: Attempt | None = None
        self.is_opening = False
        #: The connection from before, while another one is being opened.
        self.held: Attempt | None = None
        #: Whether it is asked only to learn that not this machine is cut off.
        self.is_witness = is_witness
        self.asked_at = -inf
        self.due = -inf
        self.pause = _APART
        self.refusals = 0
        self.was_open = was_open
        self.opened_at = -inf


class BrokerLifelines:
    """A service of the dispatcher; it has no socket of its own.

    `connect` begins to open a connection; what comes of it is told by `opened`, `closed`, `silent` and `failed`. `drop`
    ends it. `ended` is told of a life that is over, and `gone`, which is the same unless it is set, of one whose
    machine is silent. `witnesses` gives some that may be asked whether this machine, which broker `me` is on, is cut
    off. Without `silence` machines may be silent until their sessions end.
    """

    def __init__(self, ended: Callable[[Life], None], silence: Silence | None = None, me: int = -1) -> None:
        self._ended = self.gone = ended
        self.silence = silence
        self._me = me
        self._machines: SilentMachines[Life] = SilentMachines()
        self.witnesses: Callable[[], Iterable[Life]] = lambda: ()
        self._lines: dict[Life, _Line] = {}
        #: By id the last life of a broker whose port was seen open, which is worth as much when it is watched again.
        self._seen: dict[int, Life] = {}
        self._number = 0
        self.connect: Callable[[Attempt], None] = lambda attempt: None
        self.drop: Callable[[Attempt], None] = lambda attempt: None

    @property
    def lives(self) -> Collection[Life]:
        """The lives to which connections are held."""
        return [life for life, line in self._lines.items() if not line.is_witness]

    def watch(self, life: Life) -> None:
        """Hold a connection to a broker from now on."""
        line = self._lines.get(life)
        if line is None:
            self._lines[life] = _Line(was_open=self._seen.get(life.id) == life)
        elif line.is_witness:
            # What was heard from it counts on.
            line.is_witness = False
            line.due = line.due if line.is_opening else -inf

    def forget(self, life: Life) -> None:
        """End the connection to a broker."""
        self._end(life)
        self._dismiss_witnesses()

    def _end(self, life: Life) -> None:
        line = self._lines.pop(life, None)
        self._machines.forget(life)
        for attempt in () if line is None else (line.attempt, line.held):
            if attempt is not None:
                self.drop(attempt)

    # -- time --------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When a connection is to be opened."""
        return min((line.due for line in self._lines.values()), default=inf)

    def tick(self, instant: Instant) -> None:
        """Open the connections that are due."""
        for life, line in list(self._lines.items()):
            if line.due <= instant.now:
                if self.silence is not None and instant.now > line.due + self.silence.longest:
                    # This process stood still: what it heard before does not tell that it is not cut off now.
                    self._machines.forget(life)
                line.due, line.asked_at, line.is_opening = inf, instant.now, True
                self._number += 1
                if self._machines.is_silent(life):
                    self._machines.asks(life, self._others(life))
                line.held, line.attempt = line.attempt, Attempt(life, self._number, Silence.patience_of(self.silence))
                self.connect(line.attempt)

    # -- what comes of connections -----------------------------------------------------------------------------------

    def opened(self, attempt: Attempt, now: float) -> None:
        """Take note of a connection."""
        line = self._line(attempt)
        if line is None:
            return
        line.was_open, line.refusals, line.opened_at, line.is_opening = True, 0, now, False
        self._seen[attempt.life.id] = attempt.life
        self._machines.heard(attempt.life, now)
        if line.held is not None:
            self.drop(line.held)
            line.held = None
        if line.is_witness:
            self.drop(attempt)
            line.attempt = None
        else:
            self._dismiss_witnesses()

    def closed(self, attempt: Attempt, now: float) -> None:
        """Take note of the end of a connection that was open."""
        line = self._lost(attempt)
        if line is not None:
            if now - line.opened_at >= _LASTED:
                line.pause, line.due = _APART, now
            else:
                self._wait(line, now)

    def silent(self, attempt: Attempt, now: float) -> None:
        """Take note that a connection was given up, on which nothing was acknowledged for too long."""
        line = self._lost(attempt)
        if line is not None:
            line.pause, line.due = _APART, now

    def failed(self, attempt: Attempt, now: float, *, is_refused: bool, is_silent: bool = False) -> None:
        """Take note of a connection that was refused, or has come to nothing otherwise.

        `is_silent` tells that the host was found, and nothing came back from there.
        """
        line = self._line(attempt)
        if line is None:
            return
        # What is acknowledged on another connection counts, and not that there is no room for one more.
        line.attempt, line.held, line.is_opening = line.held, None, False
        if is_refused:
            self._machines.heard(attempt.life, now)
        if line.attempt is not None:
            return
        if is_silent and line.was_open and self.silence is not None:
            self._came_to_nothing(attempt.life, line, now, self.silence)
            return
        if not (is_refused and line.was_open):
            line.refusals = 0
            self._wait(line, now)
            return
        line.refusals += 1
        line.due = now + _APART
        if line.refusals >= _REFUSALS:
            self.forget(attempt.life)
            self._ended(attempt.life)

    # -- silence -----------------------------------------------------------------------------------------------------

    def _came_to_nothing(self, life: Life, line: _Line, now: float, silence: Silence) -> None:
        pause = self._machines.came_to_nothing(life, now)
        if not line.is_witness and life.id != self._me and self._machines.is_gone(life):
            self.forget(life)
            self.gone(life)
            return
        for witness in self.witnesses():
            if all(one.id != witness.id for one in self._lines):
                self._lines[witness] = _Line(is_witness=True)
        for other in self._others(life):
            if not self._lines[other].is_opening and not self._machines.is_silent(other):
                self._lines[other].due = now
        line.due = max(now, line.asked_at + silence.patience) + pause

    def _others(self, life: Life) -> list[Life]:
        """Return who tells whether this machine is cut off."""
        return [other for other in self._lines if other != life and other.id != self._me]

    def _dismiss_witnesses(self) -> None:
        """Ask them no more, once no machine is silent."""
        if any(self._machines.is_silent(life) and not line.is_witness for life, line in self._lines.items()):
            return
        for life in [life for life, line in self._lines.items() if line.is_witness]:
            self._end(life)

    def _lost(self, attempt: Attempt) -> _Line | None:
        """Return the line that has no connection any more; None where another one is being opened already."""
        line = self._lines.get(attempt.life)
        if line is not None and line.held == attempt:
            line.held = None
        elif line is not None and line.attempt == attempt:
            line.attempt, line.is_opening = None, False
            return line
        return None

    def _line(self, attempt: Attempt) -> _Line | None:
        line = self._lines.get(attempt.life)
        return line if line is not None and line.attempt == attempt else None

    @staticmethod
    def _wait(line: _Line, now: float) -> None:
        line.due = now + line.pause
        line.pause = min(2 * line.pause, _MOST_APART)
