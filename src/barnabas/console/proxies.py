"""`Proxies`: reverse proxies that are trusted to say for whom they ask, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import Scope

Network = IPv4Network | IPv6Network
#: Of a longer chain only the nearest are looked at.
MOST_PROXIES = 50


def parse_network(text: str) -> Network:
    """Read an address, or a network as 10.1.0.0/16. Raises `ConfigError`."""
    try:
        return ip_network(text)
    except ValueError:
        raise ConfigError(f"--trusted-proxy {text}: write an address, or a network such as 10.1.0.0/16") from None


class Proxies:
    """Knows the trusted ones by their addresses. What anyone else says in these headers is not looked at."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = tuple(networks)

    def seen_through(self, scope: Scope) -> Scope:
        """Return a request as it reached the first trusted proxy: with its client's address and its scheme.

        `X-Forwarded-For` is read from its end, where the nearest proxy has written, up to the first address that is no
        trusted proxy's: what stands before it that one could have written itself.
        """
        client = scope.get("client")
        if not self._networks or client is None or not self._is_trusted(client[0]):
            return scope
        headers = Headers(scope=scope)
        address = client[0]
        for one in reversed(_listed(headers, "x-forwarded-for")[-MOST_PROXIES:]):
            found = _address(one)
            if found is None:
                break
            address = str(found)
            if not self._is_trusted(address):
                break
        scheme = [*_listed(headers, "x-forwarded-proto")[-1:], ""][0].lower()
        return {**scope, "client": (address, 0), "scheme": scheme if scheme in ("http", "https") else scope["scheme"]}

    def _is_trusted(self, address: str) -> bool:
        found = _address(address)
        return found is not None and any(found in network for network in self._networks)


def _listed(headers: Headers, name: str) -> list[str]:
    return [part.strip() for line in headers.getlist(name) for part in line.split(",") if part.strip()]


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address, with a port or without; None for what is none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
