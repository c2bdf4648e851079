"""An event loop in the world, and the clients of `barnabas.aio` in it, for actors that are written without `await`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from barnabas.aio import AdminClient, Consumer, Producer, ShareConsumer
from barnabas.aio.environment import LoopEnvironment
from barnabas.testing.simulator.network import SimulatedSelector

if TYPE_CHECKING:
    from barnabas.client.admin.admin_client import AdminClient as ThreadAdminClient
    from barnabas.client.consumer.consumer import Consumer as ThreadConsumer
    from barnabas.client.consumer.share.share_consumer import ShareConsumer as ThreadShareConsumer
    from barnabas.client.producer.producer import Producer as ThreadProducer
    from barnabas.config.client_config import ClientConfig
    from barnabas.network.selectable import Selectable
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import SimulatedThread, World


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop of the thread that made it; where it waits, others run."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._waiting: SimulatedThread | None = None
        self._is_woken = False
        self._selector = self

    def time(self) -> float:
        """Virtual seconds."""
        return self._world.now

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until something is to be done; what that is stands in the loop's own queue."""
        world = self._world
        # Python knows one running loop for each thread, and all simulated threads are one to it.
        asyncio._set_running_loop(None)
        if timeout is not None and timeout <= 0:
            world.sleep(0.00001 + world.random.random() * 0.00003)
        else:
            deadline = inf if timeout is None else world.now + timeout
            self._waiting = world.current()
            while not self._is_woken and world.now < deadline:
                world.park(deadline)
            self._waiting = None
        self._is_woken = False
        asyncio._set_running_loop(self)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        self._is_woken = True
        if self._waiting is not None:
            self._world.unpark(self._waiting)


class SimulatedLoopEnvironment(LoopEnvironment):
    """What clients on an event loop need of the world."""

    def __init__(self, network: Network) -> None:
        super().__init__(Random(network.world.next_seed()))
        self._network = network

    def wall_clock_ms(self) -> int:
        """See `SimulatedEnvironment.wall_clock_ms`."""
        return self._network.world.wall_clock_ms()

    def sockets(self, config: ClientConfig, client_id: str) -> Selectable:
        """See `LoopEnvironment.sockets`."""
        selector = self._network.selector()
        selector.may_wait = False
        return selector

    def watch(self, selector: Selectable, on_ready: Callable[[], object]) -> Callable[[], None]:
        """See `LoopEnvironment.watch`."""
        assert isinstance(selector, SimulatedSelector)
        loop = self.bind()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_ready)

        selector.on_news = tell
        if selector.has_news:
            tell()

        def unwatch() -> None:
            selector.on_news = None

        return unwatch


class LoopClient:
    """A client of `barnabas.aio` for an actor that calls it as it would call the one for threads.

    Where a method is a coroutine function, the loop runs until it is done.
    """

    def __init__(
        self, loop: SimulatedLoop, client: AdminClient | Consumer | Producer[Any, Any] | ShareConsumer[Any, Any]
    ) -> None:
        self._loop = loop
        self._client = client

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *arguments, **keywords: self._loop.run_until_complete(found(*arguments, **keywords))


def coroutine(client: object, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return a method of a client of `LoopClients` as it is, for code that runs in the loop."""
    assert isinstance(client, LoopClient)
    found: Callable[..., Coroutine[Any, Any, Any]] = getattr(client._client, name)
    return found


class LoopClients:
    """The clients of `barnabas.aio` in one loop, which runs as long as the actor waits for one of them, or pauses."""

    in_loop = True

    def __init__(self, world: World, network: Network) -> None:
        self._network = network
        self._loop = SimulatedLoop(world)

    def _make(self, kind: Callable[..., Any], settings: dict[str, Any]) -> Any:
        """Return what is called as the client for threads is."""

        async def make() -> Any:
            return kind(environment=SimulatedLoopEnvironment(self._network), **settings)

        return LoopClient(self._loop, self._loop.run_until_complete(make()))

    def producer(self, **settings: Any) -> ThreadProducer[Any, Any]:
        """See `Clients`."""
        made: ThreadProducer[Any, Any] = self._make(Producer, settings)
        return made

    def consumer(self, **settings: Any) -> ThreadConsumer:
        """See `Clients`."""
        made: ThreadConsumer = self._make(Consumer, settings)
        return made

    def share_consumer(self, **settings: Any) -> ThreadShareConsumer[Any, Any]:
        """See `Clients`."""
        made: ThreadShareConsumer[Any, Any] = self._make(ShareConsumer, settings)
        return made

    def admin(self, **settings: Any) -> ThreadAdminClient:
        """See `Clients`."""
        made: ThreadAdminClient = self._make(AdminClient, settings)
        return made

    def pause(self, seconds: float) -> None:
        """See `Clients`; what the clients have to do they do meanwhile."""
        self._loop.run_until_complete(asyncio.sleep(seconds))

    def close(self) -> None:
        """See `Clients`."""
        self._loop.close()
