"""`Attempts`: how often one may try to log in, by address and by user."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

#: Names and addresses that are remembered; beyond, those that were tried longest ago are forgotten.
MOST_REMEMBERED = 10_000


class Allowance(NamedTuple):
    """So many attempts at once, then one every so many seconds."""

    at_once: int
    seconds: float


OF_ADDRESS = Allowance(20, 15.0)
OF_USER = Allowance(10, 30.0)


class Attempts:
    """Counts each attempt before it is made, so that many at the same time are no way around; `now` gives seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # By key: when the allowance will be whole again.
        self._whole_at: dict[tuple[str, str], float] = {}

    def take(self, address: str, user: str) -> float:
        """Count an attempt, and return 0; or the seconds to wait until there may be one, and count nothing."""
        now = self._now()
        keys = _keys(address, user)
        wait = max(self._wait(key, allowance, now) for key, allowance in keys)
        if wait <= 0:
            for key, allowance in keys:
                self._add(key, allowance.seconds, now)
        return max(0.0, wait)

    def give_back(self, address: str, user: str) -> None:
        """Count an attempt no more: it succeeded, or was not made."""
        now = self._now()
        for key, allowance in _keys(address, user):
            if key in self._whole_at:
                self._add(key, -allowance.seconds, now)

    def _wait(self, key: tuple[str, str], allowance: Allowance, now: float) -> float:
        return self._whole_at.get(key, now) - now - (allowance.at_once - 1) * allowance.seconds

    def _add(self, key: tuple[str, str], seconds: float, now: float) -> None:
        # Put last again: the first ones are those that were tried longest ago.
        whole_at = max(now, self._whole_at.pop(key, now)) + seconds
        if whole_at > now:
            self._whole_at[key] = whole_at
        while len(self._whole_at) > MOST_REMEMBERED:
            del self._whole_at[next(iter(self._whole_at))]


def _keys(address: str, user: str) -> tuple[tuple[tuple[str, str], Allowance], ...]:
    return ((("address", _network(address)), OF_ADDRESS), (("user", user), OF_USER))


def _network(address: str) -> str:
    """Return what one person has of addresses: of IPv6 a whole /64."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        return str(IPv6Address(int(found) >> 64 << 64)) if found.ipv4_mapped is None else str(found.ipv4_mapped)
    return address
