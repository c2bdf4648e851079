"""Drives a core in an event loop, as a thread of its own would elsewhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.network.bound_loop import BoundLoop
    from barnabas.network.loop_port import LoopPort

log = logging.getLogger("barnabas.aio")

# Seconds to pause after a turn that failed unexpectedly, so that a bug cannot spin.
PAUSE_AFTER_FAILURE = 0.1


class LoopDriver:
    """Calls `turn(now)` when the network has something to do, when the core is woken, and when its time has come.

    A turn never waits. After each one those who wait for something that turns bring about look again (`until`). It
    belongs to the loop's thread and keeps no reference to the client, so that a forgotten one can be collected.
    """

    def __init__(self, loop: BoundLoop, port: LoopPort, turn: Callable[[float], object], name: str) -> None:
        self._home = loop
        self._port = port
        self._turn = turn
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next: asyncio.Handle | None = None
        self._is_due = False
        self._waiters: dict[asyncio.Future[None], Callable[[], bool]] = {}
        self.is_stopped = False

    @property
    def is_started(self) -> bool:
        """Whether `start` was called."""
        return self._loop is not None

    def now(self) -> float:
        """Return the time that turns are told."""
        return self._home.clock()

    def start(self) -> None:
        """Begin, in the running loop."""
        self._loop = self._home.bind()
        self._port.on_ready = self._make_turn
        self._port.on_wakeup = self.wake
        self._port.watch()
        self.wake()

    def stop(self) -> None:
        """Make no more turns; calls that wait look a last time."""
        if self.is_stopped:
            return
        self.is_stopped = True
        self._port.unwatch()
        self._port.on_ready = self._port.on_wakeup = None
        if self._next is not None:
            self._next.cancel()
            self._next = None
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            wake(waiter)

    def wake(self) -> None:
        """Make a turn soon."""
        if not self._is_due and not self.is_stopped:
            self._schedule(0.0)

    def _schedule(self, seconds: float) -> None:
        assert self._loop is not None
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._is_due = seconds <= 0.0
        if self._is_due:
            self._next = self._loop.call_soon(self._make_turn)
        elif seconds < inf:
            self._next = self._loop.call_later(seconds, self._make_turn)

    def _make_turn(self) -> None:
        if self.is_stopped:
            return
        # What wakes the core during the turn is seen by seconds_to_wait.
        self._is_due = True
        try:
            self._turn(self._home.clock())
            seconds = self._port.seconds_to_wait()
        except Exception:
            log.exception("%s: unexpected error, going on", self._name)
            seconds = PAUSE_AFTER_FAILURE
        if not self.is_stopped:
            self._schedule(seconds)
        if self._waiters:
            self.look_again()

    # Waiting for what turns bring about.

    def look_again(self) -> None:
        """Have all calls that wait look whether they need to wait on."""
        for waiter, is_done in list(self._waiters.items()):
            if is_done():
                del self._waiters[waiter]
                wake(waiter)

    async def until(self, is_done: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until `is_done()`, which is asked after each turn, for at most `timeout` seconds; tells whether it is.

        Returns at once when the driver is stopped.
        """
        if is_done() or self.is_stopped:
            return is_done()
        loop = self._home.bind()
        waiter: asyncio.Future[None] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, wake, waiter)
        self._waiters[waiter] = is_done
        try:
            await waiter
        finally:
            self._waiters.pop(waiter, None)
            if timer is not None:
                timer.cancel()
        return is_done()


def wake(waiter: asyncio.Future[None]) -> None:
    """Let the task go on that waits, if it still does."""
    if not waiter.done():
        waiter.set_result(None)
