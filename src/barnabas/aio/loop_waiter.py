"""Waits for a core that is not driven between the application's calls."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING

from barnabas.network.loop_driver import wake

if TYPE_CHECKING:
    from barnabas.network.bound_loop import BoundLoop
    from barnabas.network.loop_port import LoopPort

# Seconds that calls which find all they need may follow each other without the loop having a turn.
FAIRNESS = 0.005


class LoopWaiter:
    """Where the calls of a consumer or an admin client wait for their core's network, any number at a time.

    Outside of calls nothing is read: what has arrived stays in the sockets.
    """

    def __init__(self, loop: BoundLoop, port: LoopPort) -> None:
        self._home = loop
        self._port = port
        self._waiters: set[asyncio.Future[None]] = set()
        self._last_wait = -inf
        port.on_ready = self._ready
        port.on_wakeup = self.wake_all
        # What one call receives may be what another one waits for.
        port.on_news = self.wake_all

    def _ready(self) -> None:
        if not self._waiters:
            # Watching on would report the same bytes in every turn of the loop.
            self._port.unwatch()
        self.wake_all()

    def wake_all(self) -> None:
        """Let all calls look at the core again."""
        for waiter in self._waiters:
            wake(waiter)

    async def wait(self) -> None:
        """Wait until the core is to be driven again."""
        loop = self._home.bind()
        seconds = self._port.seconds_to_wait()
        if seconds <= 0.0:
            await asyncio.sleep(0)
            self._last_wait = loop.time()
            return
        waiter: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, wake, waiter) if seconds < inf else None
        self._waiters.add(waiter)
        self._port.watch()
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if timer is not None:
                timer.cancel()
            self._last_wait = loop.time()

    async def be_fair(self) -> None:
        """Give the loop a turn if a while has passed without one."""
        loop = self._home.bind()
        if loop.time() - self._last_wait > FAIRNESS:
            await asyncio.sleep(0)
            self._last_wait = loop.time()
