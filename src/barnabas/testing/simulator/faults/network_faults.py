"""What goes wrong between clients and broker."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.testing.simulator.faults.group import FaultGroup
from barnabas.testing.simulator.parts import Parts


class NetworkFaults(FaultGroup[Parts]):
    """What goes wrong between clients and broker."""

    def kinds(self) -> dict[str, Callable[[], None]]:
        """See `FaultGroup`."""
        return {
            "cut": self._cut,
            "block": self._block,
            "partition": self._partition,
            "bad network": self._bad_network,
        }

    def _cut(self) -> None:
        connections = list(self._parts.network.connections)
        for connection in connections:
            if self._random.random() < 0.5:
                self._world.counts["connections cut"] += 1
                connection.cut()
        self._noted("connections are cut")

    def _block(self) -> None:
        connections = list(self._parts.network.connections)
        if connections:
            chosen = self._random.choice(connections)
            which = self._random.choice(("to broker", "to client", "both"))
            seconds = self._random.choice((1.0, 5.0, 30.0))
            self._noted(f"a connection of {chosen.name} is half open ({which}) for {seconds} s")
            self._world.counts["connections half open"] += 1
            chosen.block(seconds, which)

    def _partition(self) -> None:
        self._cut_off(self._application(), self._random.uniform(0.5, 12))

    def _bad_network(self) -> None:
        network, random = self._parts.network, self._random
        network.base_latency, network.jitter = random.choice(((0.001, 0.02), (0.02, 0.2), (0.1, 1.0)))
        network.loss = random.choice((0.0, 0.02, 0.1))
        self._noted(f"the network is slow: {network.base_latency}+{network.jitter} s, {network.loss:.0%} lost")
        self._world.counts["times of a bad network"] += 1
        self._world.after(random.uniform(1, 5), self._good_network)

    def _good_network(self) -> None:
        network = self._parts.network
        network.base_latency, network.jitter, network.loss = 0.0005, 0.001, 0.0

    def heal(self) -> None:
        """See `FaultGroup`."""
        self._good_network()
        self._parts.network.splits = False
