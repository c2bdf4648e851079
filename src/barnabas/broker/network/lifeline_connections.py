"""Connections to brokers that carry nothing, on an event loop: how they begin and end tells whether a process lives."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from barnabas.broker.network.host_addresses import addresses_of
from barnabas.broker.network.silent_peers import connected, is_silence, keep_alive, silent_for
from barnabas.broker.network.socket_server import read_clocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.zookeeper.controller.broker_lifelines import Attempt, BrokerLifelines

#: How long a name server may take, in seconds; one that takes longer proves nothing.
_RESOLVING = 1.0
#: Signs of life come each second at most, so silence is none before this, in seconds.
_LEAST_SILENCE = 1.25
#: How precisely the system tells how long nothing was acknowledged, in seconds.
_PRECISION = 0.005


class LifelineConnections:
    """Opens and holds what `BrokerLifelines` asks for; `after` is called when it was told something."""

    def __init__(self, lifelines: BrokerLifelines, after: Callable[[], None]) -> None:
        self._lifelines = lifelines
        self._after = after
        self._longest = None if lifelines.silence is None else max(_LEAST_SILENCE, lifelines.silence.longest)
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
            sock = await _connected(attempt)
        except Exception as problem:  # noqa: BLE001 - TimeoutError, what is no port or no name: an attempt has an end
            is_refused = isinstance(problem, ConnectionRefusedError)
            is_silent = isinstance(problem, OSError) and is_silence(problem)
            self._lifelines.failed(attempt, read_clocks().now, is_refused=is_refused, is_silent=is_silent)
            self._after()
            return
        with sock:
            self._lifelines.opened(attempt, read_clocks().now)
            is_silent = await _until_closed(sock, self._longest)
        end = self._lifelines.silent if is_silent else self._lifelines.closed
        end(attempt, read_clocks().now)
        self._after()


async def _connected(attempt: Attempt) -> socket.socket:
    """Connect to one of a host's addresses; each has the time of the attempt.

    Raises `ConnectionRefusedError` where all of them refuse, and what `is_silence` tells where nothing came back from
    any of them.
    """
    async with asyncio.timeout(_RESOLVING):
        found = await addresses_of(attempt.life.host, attempt.life.port)
    problems: list[OSError] = []
    for family, address in found:
        try:
            return await connected(family, address, attempt.patience)
        except OSError as problem:
            problems.append(problem)
    if len({(isinstance(one, ConnectionRefusedError), is_silence(one)) for one in problems}) == 1:
        raise problems[0]
    raise OSError(f"{attempt.life.host} is reached at none of its addresses")


async def _until_closed(sock: socket.socket, longest: float | None) -> bool:
    """Wait for the end of a connection; whether it is that nothing was acknowledged for `longest` seconds."""
    loop = asyncio.get_running_loop()
    if longest is not None:
        keep_alive(sock, longest)
    until_look = longest
    while True:
        try:
            async with asyncio.timeout(until_look):
                if not await loop.sock_recv(sock, 256):
                    return False
        except OSError as problem:
            if problem.errno is not None or longest is None:
                return is_silence(problem)
            # The time to look is over.
            left = longest - silent_for(sock)
            if left <= 0:
                return True
            until_look = left + _PRECISION
