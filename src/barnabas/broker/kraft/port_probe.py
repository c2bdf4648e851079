"""Tries a connection to a port, to learn whether a process listens there."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, NamedTuple

from barnabas.broker.network.host_addresses import addresses_of

#: How long a connection may take, in seconds; one that takes longer proves nothing.
_PATIENCE = 1.0


class PortState(NamedTuple):
    """Neither is true of a port that does not answer in time, or of a host that is not found or reached."""

    is_open: bool
    is_refused: bool


async def probe_port(host: str, port: int) -> PortState:
    """Connect, and end the connection at once; refused is what all addresses of the host refuse."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PATIENCE):
            found = await addresses_of(host, port)
            states = [await _probe_address(loop, family, address) for family, address in found]
    except Exception:  # noqa: BLE001 - TimeoutError, or a host that is no name: each probe is answered
        return PortState(is_open=False, is_refused=False)
    is_refused = bool(states) and all(state.is_refused for state in states)
    return PortState(any(state.is_open for state in states), is_refused)


async def _probe_address(loop: asyncio.AbstractEventLoop, family: int, address: tuple[Any, ...]) -> PortState:
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except ConnectionRefusedError:
            return PortState(is_open=False, is_refused=True)
        except OSError:
            return PortState(is_open=False, is_refused=False)
    return PortState(is_open=True, is_refused=False)
