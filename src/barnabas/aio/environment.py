"""What a client on an event loop needs of the world outside."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from barnabas.aio.loop_driver import LoopDriver
from barnabas.aio.loop_port import LoopPort
from barnabas.client import client_utils
from barnabas.client.consumer import consumer_parts
from barnabas.client.consumer.membership.heartbeat_thread import as_kafka_error
from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from barnabas.client.consumer.membership.core import MembershipCore
    from barnabas.client.metadata import Metadata
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.selectable import Selectable


class Environment(consumer_parts.Environment):
    """One client's event loop, clock and way to the network; each client has one of its own.

    The loop is the one that runs when the client is first used. All time is `loop.time()`, all waiting is the loop's
    (`call_later`, `call_soon`, `add_reader`). A simulator overrides `selector` and `watch`, and brings a loop whose
    time is virtual.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._pid = 0
        self._ports: WeakKeyDictionary[NetworkClient, LoopPort] = WeakKeyDictionary()
        self._drivers: list[LoopDriver] = []

    # What a simulator overrides.

    def selector(self, config: ClientConfig) -> Selectable:
        """A way to the network; its `poll` is only ever called with a timeout of 0."""
        return client_utils.create_selector(config)

    def watch(self, selector: Selectable, on_ready: Callable[[], object]) -> Callable[[], None]:
        """Have `on_ready` called in the loop whenever the selector's `poll` has something to do, until undone.

        Returns what undoes it.
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

    # What is asked of it.

    def bind(self) -> asyncio.AbstractEventLoop:
        """The client's event loop, which must be the running one.

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
        """The loop's time: monotonic seconds."""
        return (self.loop or self.bind()).time()

    def port(self, config: ClientConfig) -> LoopPort:
        """A way to the network that never waits by itself."""
        return LoopPort(self, self.selector(config))

    def network_client(self, config: Any, metadata: Metadata) -> NetworkClient:
        """See `consumer_parts.Environment`."""
        port = self.port(config)
        client = client_utils.create_network_client(
            config, config.client_id, metadata, random=self.random, selector=port
        )
        self._ports[client] = port
        return client

    def port_of(self, client: NetworkClient) -> LoopPort:
        """The port under a client that `network_client` made."""
        return self._ports[client]

    def start(self, core: MembershipCore, group_id: str) -> Callable[[float], Awaitable[object]]:
        """Drive the membership core in the loop, until it is done; the function returned has that awaited."""
        driver = LoopDriver(self, self.port_of(core.network_client), lambda now: turn(now), f"group {group_id}")

        def turn(now: float) -> None:
            try:
                core.run_once(now)
            except Exception as error:  # noqa: BLE001  whatever it is, the application's next call must raise it
                core.fail(as_kafka_error(error))
            if core.is_done:
                driver.stop()
                core.close()

        self._drivers.append(driver)
        driver.start()
        return lambda seconds: driver.until(lambda: core.is_done, seconds)

    def abandon(self) -> None:
        """Drop everything, for a client that nobody closed."""
        for driver in self._drivers:
            driver.stop()
        for client in list(self._ports):
            client.close()


def _forget(loop: asyncio.AbstractEventLoop, fileno: int) -> None:
    if not loop.is_closed():
        loop.remove_reader(fileno)
