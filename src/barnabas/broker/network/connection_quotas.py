"""How many connections there may be, in all, through a listener, from an address, and how fast (KIP-402, KIP-612)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.client_quota_manager import Rate
from barnabas.broker.config import parse_limits

if TYPE_CHECKING:
    from barnabas.broker.client_quota_manager import ClientQuotas
    from barnabas.broker.config import BrokerConfig

_MOST = "max.connections"
_RATE = "max.connection.creation.rate"
#: What Kafka has for no limit.
_UNLIMITED = 2**31 - 1
#: Who would have to wait longer is refused: clients give up before that.
_LONGEST_PAUSE = 30.0
#: So many addresses are remembered with the rate of their connections.
_ADDRESSES = 10_000


class Refusal(NamedTuple):
    """Why a connection is not taken, and after how many seconds it is to be closed, to slow the client down."""

    reason: str
    delay: float


class ConnectionQuotas:
    """Counts the connections of one broker. The limits are read each time: they may change while it runs.

    `most` is how many the process can have, even where the settings allow more.
    """

    __slots__ = (
        "_config",
        "_most",
        "_overrides",
        "_overrides_text",
        "_per_address",
        "_per_listener",
        "_quotas",
        "_rates",
        "_rates_of_listeners",
        "count",
    )

    def __init__(self, config: BrokerConfig, quotas: ClientQuotas, most: int = 2**31 - 1):
        self._config = config
        self._most = most
        self._quotas = quotas
        self._per_address: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()
        self._rates: dict[str, Rate] = {}
        #: By the name of a listener, and "" for all of them together.
        self._rates_of_listeners: dict[str, Rate] = {}
        self._overrides: dict[str, int] = {}
        self._overrides_text = ""
        self.count = 0

    def admit(self, address: str, listener: str, now: float) -> Refusal | None:
        """Count one more connection from `address`, or say why not."""
        here = self._per_address.get(address, 0)
        if here >= self._limit_of(address):
            return Refusal("max.connections.per.ip is reached", 0.0)
        if self.count >= self._config.get_int(_MOST):
            return Refusal("max.connections is reached", 0.0)
        of_listener = self._config.listener_config(listener)
        if of_listener.is_own(_MOST) and self._per_listener[listener] >= of_listener.get_int(_MOST):
            return Refusal(f"listener.name.{listener.lower()}.{_MOST} is reached", 0.0)
        if self.count >= self._most:
            return Refusal(f"this process may have no more than {self._most} connections (see ulimit -n)", 0.0)
        if self._quotas.enabled:
            wait = self._count_new(address, now)
            if wait > 0:
                return Refusal("its connection_creation_rate is exceeded", wait)
        self._per_address[address] = here + 1
        self._per_listener[listener] += 1
        self.count += 1
        return None

    def pause(self, listener: str, now: float) -> float | None:
        """Return for how many seconds an admitted connection is not to be read; None where it is to be closed.

        So all together come no faster than `max.connection.creation.rate` lets them. The limit of the broker does not
        hold for the listener of the brokers, if there are others. In Apache Kafka connections wait in the queue of the
        system for that; here they have been accepted.
        """
        own = self._config.listener_config(listener)
        limits = {}
        if own.is_own(_RATE):
            limits[listener] = own.get_int(_RATE)
        if listener != self._config.inter_broker_listener or len(self._config.listeners) == 1:
            limits[""] = self._config.get_int(_RATE)
        counted, pause = [], 0.0
        for whose, limit in limits.items():
            if limit < _UNLIMITED:
                rate = self._rates_of_listeners.setdefault(whose, self._new_rate())
                rate.record(1, now)
                counted.append(rate)
                pause = max(pause, rate.throttle(max(limit, 1), now))
        if pause <= _LONGEST_PAUSE:
            return pause
        for rate in counted:
            rate.record(-1, now)
        return None

    def release(self, address: str, listener: str) -> None:
        """Note that an admitted connection is over."""
        self.count -= 1
        self._per_listener[listener] -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def _limit_of(self, address: str) -> int:
        text = self._config.get_str("max.connections.per.ip.overrides")
        if text != self._overrides_text:
            self._overrides, self._overrides_text = parse_limits(text), text
        found = self._overrides.get(address)
        return self._config.get_int("max.connections.per.ip") if found is None else found

    def _count_new(self, address: str, now: float) -> float:
        limit = self._quotas.connection_rate(address)
        if limit is None:
            return 0.0
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= _ADDRESSES:
                del self._rates[next(iter(self._rates))]
            rate = self._rates[address] = self._new_rate()
        rate.record(1, now)
        wait = rate.throttle(limit, now)
        if wait > 0:
            rate.record(-1, now)
        return min(wait, self._quotas.window_seconds)

    def _new_rate(self) -> Rate:
        return Rate(self._config.get_int("quota.window.num"), self._quotas.window_seconds)
