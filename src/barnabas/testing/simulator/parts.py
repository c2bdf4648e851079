"""What faults and workloads see of a run; the scenario has it, and knows them, not the other way round."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from barnabas.broker.log.unified_log import UnifiedLog
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.actors import Actor, Application
    from barnabas.testing.simulator.broker import SimulatedBroker
    from barnabas.testing.simulator.clients import ThreadClients
    from barnabas.testing.simulator.ledger import Ledger
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World


#: Partitions of the topic in which coordinators write.
OFFSETS_PARTITIONS = 2


class Servers(Protocol):
    """What workloads ask of the brokers of a run, one or several."""

    @property
    def lives(self) -> int:
        """How many processes there have been."""

    def era(self, partition: TopicPartition) -> object:
        """Return what changes as soon as another process serves a partition; None while it is not one for certain."""

    def log(self, partition: TopicPartition) -> UnifiedLog:
        """Return the log of a partition where it is led."""

    def end(self, partition: TopicPartition) -> int | None:
        """Return the end of its log where it is led; None while that is not one for certain, or it was not used."""

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id of a topic where all brokers go by it; None while one may go by another, or there is none."""

    def start_again(self) -> None:
        """End a broker that is alone in good order, and start it again; of several each knows what is to stay."""


class Parts(Protocol):
    """The world of a run, and who is in it."""

    world: World
    network: Network
    ledger: Ledger
    clients: ThreadClients
    applications: list[Application]
    #: The replication factor of topics.
    replicas: int
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


class ServedParts(Parts, Protocol):
    """The parts of a run with what workloads ask of its brokers."""

    @property
    def servers(self) -> Servers:
        """All brokers."""
