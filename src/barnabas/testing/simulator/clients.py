"""The clients that actors use: here those for threads, in `event_loop.py` those of `barnabas.aio`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from barnabas.client.admin.admin_client import AdminClient
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.share.share_consumer import ShareConsumer
from barnabas.client.producer.producer import Producer
from barnabas.testing.simulator.environment import SimulatedEnvironment

if TYPE_CHECKING:
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World


class Clients(Protocol):
    """Makes the clients of one process, all of which are called as those for threads are."""

    #: Whether what a client calls back is called in an event loop, where nothing may wait.
    in_loop: bool

    def producer(self, **settings: Any) -> Producer[Any, Any]:
        """Return a `Producer`."""

    def consumer(self, **settings: Any) -> Consumer:
        """Return a `Consumer`."""

    def share_consumer(self, **settings: Any) -> ShareConsumer[Any, Any]:
        """Return a `ShareConsumer`."""

    def admin(self, **settings: Any) -> AdminClient:
        """Return an `AdminClient`."""

    def pause(self, seconds: float) -> None:
        """Do nothing for a while."""

    def close(self) -> None:
        """Be done, after all clients were closed."""


class ThreadClients:
    """The clients for threads, as they are."""

    in_loop = False

    def __init__(self, world: World, network: Network) -> None:
        self.pause = world.sleep
        self._network = network

    def producer(self, **settings: Any) -> Producer[Any, Any]:
        """See `Clients`."""
        return Producer(environment=SimulatedEnvironment(self._network), **settings)

    def consumer(self, **settings: Any) -> Consumer:
        """See `Clients`."""
        return Consumer(environment=SimulatedEnvironment(self._network), **settings)

    def share_consumer(self, **settings: Any) -> ShareConsumer[Any, Any]:
        """See `Clients`."""
        return ShareConsumer(environment=SimulatedEnvironment(self._network), **settings)

    def admin(self, **settings: Any) -> AdminClient:
        """See `Clients`."""
        return AdminClient(environment=SimulatedEnvironment(self._network), **settings)

    def close(self) -> None:
        """See `Clients`."""
