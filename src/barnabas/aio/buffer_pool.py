"""buffer.memory for tasks, which wait for it without blocking."""

from __future__ import annotations

import asyncio

from barnabas.client.producer.buffer_pool import BufferPool, Waiter


class MemoryNeededError(Exception):
    """`allocate` found less than `size` bytes free; `acquire` waits for them. Never seen outside of the producer."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class _WaitingTask(Waiter):
    __slots__ = ("woken",)

    def __init__(self, size: int, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(size)
        self.woken: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class LoopBufferPool(BufferPool):
    """The pool of a producer on an event loop, all of whose callers are in the loop's thread."""

    def allocate(self, size: int, max_time_to_block: float) -> None:
        """Take `size` bytes at once, or raise `MemoryNeededError`."""
        if not self.try_allocate(size):
            raise MemoryNeededError(size)

    async def acquire(self, size: int, timeout: float) -> int:
        """Take `size` bytes, in line behind those who wait already, for at most `timeout` seconds; returns `size`.

        Raises as `BufferPool.allocate` does. Who is cancelled takes nothing.
        """
        loop = asyncio.get_running_loop()
        waiter = _WaitingTask(size, loop)
        started = self._clock()
        self.line_up(waiter)
        timer = loop.call_later(max(0.0, timeout), waiter.wake)
        try:
            await waiter.woken
        except BaseException:
            self.withdraw(waiter)
            raise
        finally:
            timer.cancel()
        self.settle(waiter, self._clock() - started, timeout)
        return size
