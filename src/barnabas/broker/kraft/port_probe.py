"""Tries a connection to a port, to learn whether a process listens there."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from barnabas.broker.network.host_addresses import addresses_of
from barnabas.broker.network.silent_peers import connected, is_silence

#: How long a name server may take, in seconds; one that takes longer proves nothing.
_RESOLVING = 1.0


class PortState(NamedTuple):
    """None is true of a host that is not found; `is_silent` is one from which nothing comes back in time."""

    is_open: bool
    is_refused: bool
    is_silent: bool = False


async def probe_port(host: str, port: int, patience: float = 1.0) -> PortState:
    """Connect, and end the connection at once; refused is what all addresses of the host refuse.

    Each address has `patience` seconds.
    """
    try:
        async with asyncio.timeout(_RESOLVING):
            found = await addresses_of(host, port)
        states = [await _probe_address(family, address, patience) for family, address in found]
    except Exception:  # noqa: BLE001 - TimeoutError, or a host that is no name: each probe is answered
        return PortState(is_open=False, is_refused=False)
    is_refused = bool(states) and all(state.is_refused for state in states)
    is_silent = bool(states) and all(state.is_silent for state in states)
    return PortState(any(state.is_open for state in states), is_refused, is_silent)


async def _probe_address(family: int, address: tuple[Any, ...], patience: float) -> PortState:
    try:
        (await connected(family, address, patience)).close()
    except ConnectionRefusedError:
        return PortState(is_open=False, is_refused=True)
    except OSError as problem:
        return PortState(is_open=False, is_refused=False, is_silent=is_silence(problem))
    return PortState(is_open=True, is_refused=False)
