"""What faults and workloads see of a run; the scenario has it, and knows them, not the other way round."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.testing.simulator.actors import Actor, Application
    from barnabas.testing.simulator.broker import SimulatedBroker
    from barnabas.testing.simulator.clients import ThreadClients
    from barnabas.testing.simulator.ledger import Ledger
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World


class Parts(Protocol):
    """The world of a run, and who is in it."""

    world: World
    network: Network
    ledger: Ledger
    clients: ThreadClients
    applications: list[Application]
    #: Whether every record reaches the disk before it is acknowledged.
    flushes: bool

    @property
    def fault_kinds(self) -> Collection[str]:
        """Which kinds of faults the run has."""

    def add(self, kind: type[Actor], name: str, **arguments: Any) -> None:
        """Let there be an application."""


class BrokerParts(Parts, Protocol):
    """The parts of a run with one broker."""

    broker: SimulatedBroker
