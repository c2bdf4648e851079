"""`Environment`: what a client needs of the world outside."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from barnabas import clock
from barnabas.client import client_utils
from barnabas.client.core_thread import CoreThread

if TYPE_CHECKING:
    from barnabas.client.core_thread import Core
    from barnabas.client.metadata import Metadata
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.network_client import NetworkClient
    from barnabas.network.selectable import Selectable


class Environment:
    """Time, randomness, the way to the network, and what drives a core; here those of the operating system.

    Every client takes one as `environment=`. `barnabas.aio.LoopEnvironment` is that of an event loop, a simulator
    brings its own. Nothing in a client reads a clock, makes random numbers or opens sockets by another way.
    """

    def __init__(self, random: Random | None = None) -> None:
        self.random = Random() if random is None else random
        if type(self).clock is Environment.clock:
            # A call less for every reading: a trip of one record takes four.
            self.clock = time.monotonic  # type: ignore[method-assign]

    def clock(self) -> float:
        """Read the monotonic clock, in seconds."""
        return time.monotonic()

    def wall_clock_ms(self) -> int:
        """Read the wall clock, in epoch milliseconds, as records are stamped with them."""
        return clock.wall_clock_ms()

    @property
    def has_system_time(self) -> bool:
        """Whether `wall_clock_ms` is the operating system's, so that compiled code may read it without a call."""
        return type(self).wall_clock_ms is Environment.wall_clock_ms

    def selector(self, config: ClientConfig, client_id: str) -> Selectable:
        """Make the way to the network of one core.

        Raises `ConfigError` when the settings for TLS or SASL are wrong.
        """
        return client_utils.create_selector(config, client_id)

    def network_client(
        self,
        config: ClientConfig,
        client_id: str,
        metadata: Metadata,
        max_in_flight_requests_per_connection: int = client_utils.DEFAULT_MAX_IN_FLIGHT,
    ) -> NetworkClient:
        """Make the `NetworkClient` of one core, which keeps `metadata` fresh.

        Raises `ConfigError` when `bootstrap.servers` cannot be read, or the settings for TLS or SASL are wrong.
        """
        # Before there are sockets, which would be left open.
        client_utils.bootstrap(metadata, config)
        return client_utils.create_network_client(
            config,
            client_id,
            metadata,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            random=self.random,
            selector=self.selector(config, client_id),
        )

    def run(self, core: Core, name: str) -> Callable[[float], object]:
        """Have a core driven until it is done, here by a thread of this name.

        Returns a function that waits until the core is done, for at most so many seconds. On an event loop what that
        function returns has to be awaited.
        """
        thread = CoreThread(core, self.clock, name)
        thread.start()
        return thread.join
