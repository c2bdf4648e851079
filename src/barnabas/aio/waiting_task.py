"""How tasks wait for buffer.memory, without blocking."""

from __future__ import annotations

import asyncio

from barnabas.client.producer.buffer_pool import Waiter
from barnabas.client.steps import Steps
from barnabas.network.loop_driver import wake


class WaitingTask(Waiter):
    """A task that waits, of a producer on an event loop, all of whose callers are in the loop's thread."""

    __slots__ = ("_loop", "_woken")

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> None:
        """See `Waiter`."""
        wake(self._woken)

    def wait(self, timeout: float) -> Steps[None]:
        """See `Waiter`."""
        timer = self._loop.call_later(timeout, self.wake)
        try:
            yield self._woken
        finally:
            timer.cancel()
