"""Connections to brokers that carry nothing, on an event loop: how they begin and end tells whether a process lives."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from barnabas.broker.network.host_addresses import addresses_of
from barnabas.broker.network.socket_server import read_clocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, BrokerLifelines

#: How long a connection may take, in seconds; one that takes longer proves nothing.
_PATIENCE = 1.0


class LifelineConnections:
    """Opens and holds what `BrokerLifelines` asks for; `after` is called when it was told something."""

    def __init__(self, lifelines: BrokerLifelines, after: Callable[[], None]) -> None:
        self._lifelines = lifelines
        self._after = after
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        lifelines.connect, lifelines.drop = self._connect, self._drop

    def close(self) -> None:
        """End all connections."""
        for attempt in list(self._tasks):
            self._drop(attempt)

    def _connect(self, attempt: Attempt) -> None:
        task = self._tasks[attempt] = asyncio.get_running_loop().create_task(self._hold(attempt))
        task.add_done_callback(lambda _: self._tasks.pop(attempt, None))

    def _drop(self, attempt: Attempt) -> None:
        task = self._tasks.pop(attempt, None)
        if task is not None:
            task.cancel()

    async def _hold(self, attempt: Attempt) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                sock = await _connected(attempt.life.host, attempt.life.port)
        except Exception as problem:  # noqa: BLE001 - TimeoutError, what is no port or no name: an attempt has an end
            is_refused = isinstance(problem, ConnectionRefusedError)
            self._lifelines.failed(attempt, read_clocks().now, is_refused=is_refused)
            self._after()
            return
        with sock:
            self._lifelines.opened(attempt, read_clocks().now)
            await _until_closed(sock)
        self._lifelines.closed(attempt, read_clocks().now)
        self._after()


async def _connected(host: str, port: int) -> socket.socket:
    """Connect to one of a host's addresses. Raises `ConnectionRefusedError` where all of them refuse."""
    loop = asyncio.get_running_loop()
    problems: list[OSError] = []
    for family, address in await addresses_of(host, port):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as problem:
            sock.close()
            problems.append(problem)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    others = [problem for problem in problems if not isinstance(problem, ConnectionRefusedError)]
    raise (others or problems or [OSError(f"{host} has no address")])[0]


async def _until_closed(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while await loop.sock_recv(sock, 256):
            pass
    except OSError:
        pass
