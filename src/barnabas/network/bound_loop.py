"""The event loop that a client belongs to."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.network.selectable import Selectable


class BoundLoop:
    """One client's event loop: the one that runs when the client is first used.

    All time is `loop.time()`, all waiting is the loop's (`call_later`, `call_soon`, `add_reader`).
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._pid = 0

    def bind(self) -> asyncio.AbstractEventLoop:
        """Return the client's event loop, which must be the running one.

        Raises `IllegalStateError` where it is not: outside of coroutines, in another loop, in a forked process.
        """
        running = asyncio._get_running_loop()
        if running is None and self.is_foreign:
            raise IllegalStateError(self._why_not())
        if running is None:
            raise IllegalStateError("There is no running event loop here: use the client in a coroutine")
        if running is self.loop:
            return running
        if self.loop is None:
            self.loop, self._thread, self._pid = running, threading.get_ident(), os.getpid()
            return running
        raise IllegalStateError(self._why_not())

    def _why_not(self) -> str:
        if self._pid != os.getpid():
            return "This client was made before the process forked and belongs to the parent; make a new one"
        if self.loop is not None and self.loop.is_closed():
            return (
                "The event loop that this client belongs to is closed; make the client in the coroutine that is given "
                "to asyncio.run(), and close it there"
            )
        return "This client belongs to another event loop; each loop needs a client of its own"

    @property
    def is_foreign(self) -> bool:
        """Whether the client was used in the process that this one was forked from."""
        return self.loop is not None and self._pid != os.getpid()

    def check_thread(self) -> None:
        """Raise `IllegalStateError` in any thread but the event loop's."""
        if self.loop is not None and (self._thread != threading.get_ident() or self.is_foreign):
            raise IllegalStateError(
                "This client belongs to an event loop in another thread or process; there loop.call_soon_threadsafe() "
                "and asyncio.run_coroutine_threadsafe() reach it. Only wakeup() may be called from anywhere"
            )

    def clock(self) -> float:
        """Read the loop's time: monotonic seconds."""
        return (self.loop or self.bind()).time()

    def run_soon(self, call: Callable[[], object]) -> None:
        """Run a call in the loop, from any thread; here and now where there is no loop, or one that is closed."""
        if self.loop is None or self.loop.is_closed():
            call()
        else:
            self.loop.call_soon_threadsafe(call)

    def watch(self, selector: Selectable, on_ready: Callable[[], object]) -> Callable[[], None]:
        """Have `on_ready` called in the loop whenever the selector's `poll` has something to do, until undone.

        Returns what undoes it. Raises `IllegalStateError` where the loop cannot watch sockets.
        """
        loop = self.bind()
        try:
            fileno: int = selector.fileno()  # type: ignore[attr-defined]  # Selector's; others override this method
            loop.add_reader(fileno, on_ready)
        except (AttributeError, NotImplementedError):
            raise IllegalStateError(
                "barnabas.aio needs epoll or kqueue, and an event loop that can watch them, which "
                f"{type(loop).__name__} on this platform cannot; use the clients for threads"
            ) from None
        return lambda: _forget(loop, fileno)


def _forget(loop: asyncio.AbstractEventLoop, fileno: int) -> None:
    if not loop.is_closed():
        loop.remove_reader(fileno)
