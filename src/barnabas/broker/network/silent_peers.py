"""What the system knows of a machine at the other end of a connection: that nothing comes back from there."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from math import ceil
from typing import Any

#: What a connection ends with, or an attempt to make one, when nothing comes back.
_SILENCE = (errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.EHOSTDOWN)
#: How often a connection on which nothing is said asks for a sign of life, in whole seconds as TCP has it.
_INTERVAL = 1
#: Of Linux's `struct tcp_info`: how long ago the last acknowledgement came, in ms, and how much of it is read.
_LAST_ACK_RECEIVED, _TCP_INFO_SIZE = slice(56, 60), 60


async def connected(family: int, address: tuple[Any, ...], patience: float) -> socket.socket:
    """Connect to an address. Raises `OSError`, with ETIMEDOUT where nothing has come back in `patience` seconds."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        async with asyncio.timeout(patience):
            await asyncio.get_running_loop().sock_connect(sock, address)
    except TimeoutError as problem:
        sock.close()
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from problem
    except BaseException:
        sock.close()
        raise
    return sock


def is_silence(problem: OSError) -> bool:
    """Whether a connection has failed because nothing comes back from the other machine."""
    return problem.errno in _SILENCE


def keep_alive(sock: socket.socket, longest: float) -> None:
    """Have the system ask for a sign of life each second, and end the connection after `longest` seconds without."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
    if idle is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, idle, _INTERVAL)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _INTERVAL)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, max(1, ceil(longest / _INTERVAL) - 1))


def silent_for(sock: socket.socket) -> float:
    """Return for how many seconds nothing has been acknowledged on a connection that is kept alive.

    0 where the system does not tell; there it ends the connection by itself.
    """
    if sys.platform != "linux":
        return 0.0
    found = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    return int.from_bytes(found[_LAST_ACK_RECEIVED], sys.byteorder) / 1000
