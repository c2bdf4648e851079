"""What a client on an event loop needs of the world outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from barnabas.client import client_utils
from barnabas.client.environment import Environment
from barnabas.network.bound_loop import BoundLoop
from barnabas.network.loop_driver import LoopDriver
from barnabas.network.loop_port import LoopPort

if TYPE_CHECKING:
    from barnabas.client.core_thread import Core
    from barnabas.client.metadata import Metadata
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.selectable import Selectable


class LoopEnvironment(BoundLoop, Environment):
    """One client's event loop, clock and way to the network; each client has one of its own.

    A simulator overrides `sockets` and `watch`, and brings a loop whose time is virtual.
    """

    def __init__(self, random: Random | None = None) -> None:
        BoundLoop.__init__(self)
        Environment.__init__(self, random)
        self._ports: WeakKeyDictionary[NetworkClient, LoopPort] = WeakKeyDictionary()
        self._drivers: list[LoopDriver] = []

    def sockets(self, config: ClientConfig, client_id: str) -> Selectable:
        """Make a way to the network whose `poll` is only ever called with a timeout of 0."""
        return client_utils.create_selector(config, client_id)

    def selector(self, config: ClientConfig, client_id: str) -> LoopPort:
        """Make a way to the network that never waits by itself."""
        return LoopPort(self, self.sockets(config, client_id))

    def network_client(
        self,
        config: ClientConfig,
        client_id: str,
        metadata: Metadata,
        max_in_flight_requests_per_connection: int = client_utils.DEFAULT_MAX_IN_FLIGHT,
    ) -> NetworkClient:
        """See `Environment.network_client`; `port_of` finds the port under what it returns."""
        client = super().network_client(config, client_id, metadata, max_in_flight_requests_per_connection)
        assert isinstance(client.selector, LoopPort)
        self._ports[client] = client.selector
        return client

    def port_of(self, client: NetworkClient) -> LoopPort:
        """Find the port under a client that `network_client` made."""
        return self._ports[client]

    def run(self, core: Core, name: str) -> Callable[[float], Awaitable[object]]:
        """Have a core driven in the loop until it is done; the function returned has that awaited."""
        driver = LoopDriver(self, self.port_of(core.network_client), lambda now: turn(now), name)

        def turn(now: float) -> None:
            try:
                core.run_once(now)
            except Exception as error:  # noqa: BLE001  the application's next call must raise it
                core.fail(error)
                driver.wake()
            if core.is_done:
                driver.stop()
                core.close()

        async def until_done(seconds: float) -> None:
            if not await driver.until(lambda: core.is_done, seconds) and not driver.is_stopped:
                # Its time is over: what it has to say goes with this turn.
                turn(driver.now())

        self._drivers.append(driver)
        driver.start()
        return until_done

    def abandon(self) -> None:
        """Drop everything, for a client that was not closed."""
        for driver in self._drivers:
            driver.stop()
        for client in list(self._ports):
            client.close()
