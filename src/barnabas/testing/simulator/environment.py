"""What clients need of the world outside, given by a `World`."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from barnabas.client.environment import Environment

if TYPE_CHECKING:
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.selectable import Selectable
    from barnabas.testing.simulator.network import Network


class SimulatedEnvironment(Environment):
    """One client's time, randomness and network; the thread of its core is one of the world's."""

    def __init__(self, network: Network) -> None:
        super().__init__(Random(network.world.next_seed()))
        self._network = network

    def clock(self) -> float:
        """Read the world's virtual time, in seconds."""
        return self._network.world.now

    def wall_clock_ms(self) -> int:
        """Read the wall clock of the process that the client lives in."""
        return self._network.world.wall_clock_ms()

    def selector(self, config: ClientConfig, client_id: str) -> Selectable:
        """See `Environment.selector`."""
        return self._network.selector()
