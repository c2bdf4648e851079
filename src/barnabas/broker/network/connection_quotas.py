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
        "count",
    )

    def __init__(self, config: BrokerConfig, quotas: ClientQuotas, most: int = 2**31 - 1):
        self._config = config
        self._most = most
        self._quotas = quotas
        self._per_address: dict[str, int] = {}
        self._per_listener: Counter[str] = Counter()
        self._rates: dict[str, Rate] = {}
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
            windows = self._config.get_int("quota.window.num")
            rate = self._rates[address] = Rate(windows, self._quotas.window_seconds)
        rate.record(1, now)
        wait = rate.throttle(limit, now)
        if wait > 0:
            rate.record(-1, now)
        return min(wait, self._quotas.window_seconds)
