"""Finds brokers whose processes have ended, long before their sessions do: connections are reset, ports refuse.

A process that was killed resets its connections, and its port refuses new ones; a machine that is gone does neither,
nor does a process that is paused, or a network that drops packets. So when the connection on which a broker's
heartbeats came has ended, its listener is asked for a connection: refused twice, 50 ms apart, with no heartbeat in
between, is the same as a session that has expired, for that life of the broker only. Anything else proves nothing, and
the session decides. A port counts only if this controller has seen it open in that life: one that a firewall refuses
from here is refused while the broker lives, too.

To be wrong does no harm beyond an election: a broker that lives on has its requests refused by its epochs, and is
unfenced with its next heartbeat.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.controller.broker_heartbeat_manager import BrokerIdAndEpoch

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
    """A connection to be tried; `number` tells probes of one broker apart."""

    whose: BrokerIdAndEpoch
    number: int
    host: str
    port: int


class _Life:
    """One life of a broker that is in service."""

    __slots__ = ("connection", "due", "endpoint", "in_flight", "is_suspect", "probes", "refusals", "was_open", "whose")

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


class BrokerProbes:
    """A service of the controller's node; it has no socket of its own.

    `connect(probe)` tries a connection, and `answered` takes what came of it. `ended(whose)` is told of a life that is
    over. `listener` is the one between the brokers, by its name.
    """

    def __init__(self, listener: str, ended: Callable[[BrokerIdAndEpoch], None]) -> None:
        self._listener = listener
        self._ended = ended
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
            if is_active:
                self._suspect(life, now)
            else:
                life.is_suspect = False

    def _take(self, brokers: Mapping[int, BrokerRegistration], now: float) -> None:
        lives = {}
        for broker in brokers.values():
            endpoint = broker.listeners.get(self._listener) or next(iter(broker.listeners.values()), None)
            if broker.fenced or endpoint is None:
                continue
            whose = BrokerIdAndEpoch(broker.id, broker.epoch)
            known = self._lives.get(broker.id)
            lives[broker.id] = known if known is not None and known.whose == whose else _Life(whose, endpoint, now)
        self._lives = lives

    def heard(self, connection: int, whose: BrokerIdAndEpoch) -> None:
        """Take note of a heartbeat: the broker lives, and what its port has said does not count."""
        self._by_connection[connection] = whose
        life = self._lives.get(whose.id)
        if life is None or life.whose != whose:
            return
        life.connection = connection
        if life.is_suspect:
            life.is_suspect = False
            life.refusals = life.probes = 0
            life.in_flight = None
            life.due = inf

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
                self.connect(Probe(life.whose, self._number, life.endpoint.host, life.endpoint.port))

    def answered(self, probe: Probe, *, is_open: bool, is_refused: bool, now: float) -> None:
        """Take what came of a probe: a connection, a refusal, or (both False) neither in time."""
        life = self._lives.get(probe.whose.id)
        if life is None or life.whose != probe.whose or life.in_flight != probe.number:
            return
        life.in_flight = None
        life.was_open |= is_open
        if not life.is_suspect:
            life.due = inf if life.was_open else _later(life, now)
        elif not is_refused:
            life.refusals = 0
            life.due = _later(life, now)
        elif life.was_open:
            life.refusals += 1
            life.due = now + _APART
            if life.refusals >= _REFUSALS:
                del self._lives[probe.whose.id]
                self._ended(probe.whose)


def _later(life: _Life, now: float) -> float:
    return now + _APART * 2 ** (life.probes - 1) if life.probes < _MOST_PROBES else inf
