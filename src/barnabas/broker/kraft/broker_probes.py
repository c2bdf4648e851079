"""Finds brokers that have ended, long before their sessions: connections are reset, ports refuse, machines are silent.

A process that was killed resets its connections, and its port refuses new ones; a machine that is gone does neither,
nor does a process that is paused, or a network that drops packets. So when the connection on which a broker's
heartbeats came has ended, its listener is asked for a connection: refused twice, 50 ms apart, with no heartbeat in
between, is the same as a session that has expired, for that life of the broker only. A port counts only if this
controller has seen it open in that life: one that a firewall refuses from here is refused while the broker lives, too.

A listener is asked as well when a heartbeat is overdue, which is after a quarter of a session (`Silence`). Two attempts
in a row that come to nothing tell that the machine is gone or cut off, unless it is this one (`SilentMachines`). Where
connections are made, as to a process that is paused, the session decides.

To be wrong does no harm beyond an election: a broker that lives on has its requests refused by its epochs, and is
unfenced with its next heartbeat.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch
from barnabas.broker.silent_machines import Silence, SilentMachines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.broker.instant import Instant
    from barnabas.broker.metadata.metadata_image import BrokerRegistration, Endpoint

#: How far apart the two refusals are, in seconds; a port that was open is asked again after twice as long each time.
_APART = 0.05
_REFUSALS = 2
#: Asked so often without a refusal, nothing is to be found out: the session ends before that.
_MOST_PROBES = 10


class Probe(NamedTuple):
    """A connection to be tried for `patience` seconds; `number` tells probes of one broker apart."""

    whose: BrokerIdAndEpoch
    number: int
    host: str
    port: int
    patience: float = 1.0


class _Life:
    """One life of a broker that is in service."""

    __slots__ = (
        "asked_at",
        "connection",
        "due",
        "endpoint",
        "in_flight",
        "is_suspect",
        "probes",
        "refusals",
        "seen_at",
        "was_open",
        "whose",
    )

    def __init__(self, whose: BrokerIdAndEpoch, endpoint: Endpoint, now: float) -> None:
        self.whose = whose
        self.endpoint = endpoint
        #: The connection on which its last heartbeat came.
        self.connection: int | None = None
        #: Whether its connection has ended, or this controller has begun to lead, and no heartbeat came since.
        self.is_suspect = False
        self.was_open = False
        self.refusals = self.probes = 0
        #: When its port is asked next: first to see it open.
        self.due = now
        #: The number of the probe whose result counts.
        self.in_flight: int | None = None
        #: When its port was asked last, and when the last sign of life came, or this controller began to wait for one.
        self.asked_at = self.seen_at = now


class BrokerProbes:
    """A service of the controller's node; it has no socket of its own.

    `connect(probe)` tries a connection, and `answered` takes what came of it. `ended(whose)` is told of a life that is
    over, and `gone`, which is the same unless it is set, of one whose machine is silent. `listener` is the one between
    the brokers, by its name; `me` is the node of this controller, whose broker tells nothing of the network. Without
    `silence` machines may be silent until their sessions end.
    """

    def __init__(
        self, listener: str, ended: Callable[[BrokerIdAndEpoch], None], silence: Silence | None = None, me: int = -1
    ) -> None:
        self._listener = listener
        self._ended = self.gone = ended
        self._silence = silence
        self._patience = Silence.patience_of(silence)
        self._me = me
        self._machines: SilentMachines[BrokerIdAndEpoch] = SilentMachines()
        self._lives: dict[int, _Life] = {}
        self._by_connection: dict[int, BrokerIdAndEpoch] = {}
        self._known: Mapping[int, BrokerRegistration] = {}
        self._is_active = False
        self._number = 0
        self.connect: Callable[[Probe], None] = lambda probe: None

    # -- what is known -----------------------------------------------------------------------------------------------

    def follow(self, brokers: Mapping[int, BrokerRegistration], now: float) -> None:
        """Take in who is registered; also while this controller does not lead, for the day on which it does."""
        if brokers is not self._known:
            self._known = brokers
            self._take(brokers, now)

    def lead(self, is_active: bool, now: float) -> None:
        """Take in whether this controller leads: brokers may have ended together with the one before."""
        self._is_active = is_active
        for life in self._lives.values():
            self._machines.forget(life.whose)
            if is_active:
                life.seen_at = now
                self._suspect(life, now)
            else:
                life.is_suspect = False
                life.due = inf if life.was_open else life.due

    def _take(self, brokers: Mapping[int, BrokerRegistration], now: float) -> None:
        lives = {}
        for broker in brokers.values():
            endpoint = broker.listeners.get(self._listener) or next(iter(broker.listeners.values()), None)
            if broker.fenced or endpoint is None:
                continue
            whose = BrokerIdAndEpoch(broker.id, broker.epoch)
            known = self._lives.get(broker.id)
            lives[broker.id] = known if known is not None and known.whose == whose else _Life(whose, endpoint, now)
        for life in self._lives.values():
            if lives.get(life.whose.id) is not life:
                self._machines.forget(life.whose)
        self._lives = lives

    def heard(self, connection: int, whose: BrokerIdAndEpoch, now: float) -> None:
        """Take note of a heartbeat: the broker lives, and what its port has said does not count."""
        self._by_connection[connection] = whose
        life = self._lives.get(whose.id)
        if life is None or life.whose != whose:
            return
        life.connection = connection
        self._saw(life, now)
        if life.is_suspect:
            life.is_suspect = False
            life.refusals = life.probes = 0
            life.in_flight = None
            # One that was never seen open would prove nothing for the rest of this life.
            life.due = inf if life.was_open else now + _APART
        if life.was_open and life.in_flight is None:
            life.due = self._overdue_at(life, now)

    def connection_ended(self, connection: int, now: float) -> None:
        """Take note of the end of a connection, which need not be a broker's."""
        whose = self._by_connection.pop(connection, None)
        if whose is None:
            return
        life = self._lives.get(whose.id)
        if life is not None and life.whose == whose and life.connection in (connection, None) and self._is_active:
            self._suspect(life, now)

    @staticmethod
    def _suspect(life: _Life, now: float) -> None:
        life.is_suspect = True
        life.refusals = life.probes = 0
        life.in_flight = None
        life.due = now

    # -- probes ------------------------------------------------------------------------------------------------------

    def next_deadline(self) -> float:
        """When a port is to be asked."""
        return min((life.due for life in self._lives.values()), default=inf)

    def tick(self, instant: Instant) -> None:
        """Ask the ports that are due."""
        for life in list(self._lives.values()):
            if life.due <= instant.now:
                life.due = inf
                self._number += 1
                life.in_flight = self._number
                life.probes += 1
                life.asked_at = instant.now
                if self._machines.is_silent(life.whose):
                    self._machines.asks(life.whose, [other.whose for other in self._others(life)])
                endpoint = life.endpoint
                self.connect(Probe(life.whose, self._number, endpoint.host, endpoint.port, self._patience))

    def answered(self, probe: Probe, *, is_open: bool, is_refused: bool, now: float, is_silent: bool = False) -> None:
        """Take what came of a probe: a connection, a refusal, or neither of them in time.

        `is_silent` tells that the host was found, and nothing came back from there.
        """
        life = self._lives.get(probe.whose.id)
        if life is None or life.whose != probe.whose or life.in_flight != probe.number:
            return
        life.in_flight = None
        life.was_open |= is_open
        if is_open or is_refused:
            self._saw(life, now)
        overdue_at = self._overdue_at(life, now)
        if is_silent and life.seen_at + self._longest <= now and overdue_at < inf:
            self._came_to_nothing(life, now)
        elif not life.is_suspect:
            life.due = overdue_at if life.was_open else _later(life, now)
        elif not is_refused:
            life.refusals = 0
            life.due = min(_later(life, now), overdue_at)
        elif life.was_open:
            life.refusals += 1
            life.due = now + _APART
            if life.refusals >= _REFUSALS:
                self._end(life)
                self._ended(probe.whose)

    def _end(self, life: _Life) -> None:
        del self._lives[life.whose.id]
        self._machines.forget(life.whose)

    # -- silence -----------------------------------------------------------------------------------------------------

    def _saw(self, life: _Life, now: float) -> None:
        life.seen_at = now
        self._machines.heard(life.whose, now)

    @property
    def _longest(self) -> float:
        return inf if self._silence is None else self._silence.longest

    def _overdue_at(self, life: _Life, now: float) -> float:
        """When its port is to be asked for a sign of life; infinity where that would prove nothing."""
        if self._silence is None or not (life.was_open and self._is_active):
            return inf
        return max(life.seen_at + self._silence.longest, now + self._silence.patience)

    def _came_to_nothing(self, life: _Life, now: float) -> None:
        pause = self._machines.came_to_nothing(life.whose, now)
        if life.whose.id != self._me and self._machines.is_gone(life.whose):
            self._end(life)
            self.gone(life.whose)
            return
        for other in self._others(life):
            if not self._machines.is_silent(other.whose) and other.in_flight is None:
                other.due = now
        life.due = max(now, life.asked_at + self._patience) + pause

    def _others(self, life: _Life) -> list[_Life]:
        """Return who tells whether this machine is cut off."""
        return [one for one in self._lives.values() if one is not life and one.whose.id != self._me]


def _later(life: _Life, now: float) -> float:
    return now + _APART * 2 ** (life.probes - 1) if life.probes < _MOST_PROBES else inf
