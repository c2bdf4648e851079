"""An event loop in the world, and the clients of `barnabas.aio` in it, for actors that are written without `await`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from barnabas.aio import Consumer
from barnabas.aio.environment import Environment
from barnabas.testing.simulator.world import INFINITY

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_records import ConsumerRecords
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
            deadline = INFINITY if timeout is None else world.now + timeout
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


class SimulatedEnvironment(Environment):
    """What clients on an event loop need of the world."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def selector(self, config: Any) -> Selectable:
        """See `Environment.selector`."""
        selector = self._network.selector()
        selector.may_wait = False
        return selector

    def watch(self, selector: Any, on_ready: Callable[[], object]) -> Callable[[], None]:
        """See `Environment.watch`."""
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


class LoopConsumer:
    """A `barnabas.aio.Consumer` for an actor that calls it as it would call the other one.

    The loop runs as long as the actor waits for it, be it in `poll` or in `pause`.
    """

    def __init__(self, world: World, network: Network, **settings: Any) -> None:
        self.loop = SimulatedLoop(world)
        self._consumer = self._run(self._make(network, settings))
        self.subscribe = self._consumer.subscribe
        self.commit_async = self._consumer.commit_async
        self.assignment = self._consumer.assignment
        self.group_metadata = self._consumer.group_metadata

    @staticmethod
    async def _make(network: Network, settings: dict[str, Any]) -> Consumer:
        return Consumer(environment=SimulatedEnvironment(network), **settings)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def poll(self, timeout: float) -> ConsumerRecords:
        """See `Consumer.poll`."""
        records: ConsumerRecords = self._run(self._consumer.poll(timeout))
        return records

    def commit(self, offsets: Any, timeout: float) -> None:
        """See `Consumer.commit`."""
        self._run(self._consumer.commit(offsets, timeout))

    def committed(self, partitions: Iterable[Any], timeout: float) -> Any:
        """See `Consumer.committed`."""
        return self._run(self._consumer.committed(partitions, timeout))

    def pause(self, seconds: float) -> None:
        """Do something else for a while, as a coroutine does it."""
        self._run(asyncio.sleep(seconds))

    def close(self, timeout: float) -> None:
        """See `Consumer.close`."""
        try:
            self._run(self._consumer.close(timeout))
        finally:
            self.loop.close()
