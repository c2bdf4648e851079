"""A machine of a cluster: a node's process that asks others, and its ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, cast

from barnabas.broker.network.node_channel import Home, NodeChannel
from barnabas.network.bound_loop import BoundLoop
from barnabas.testing.simulator.machine import Alarm, Machine
from barnabas.testing.simulator.network import SimulatedSelector

if TYPE_CHECKING:
    import asyncio

    from barnabas.broker.requester import Requester
    from barnabas.network.selectable import Selectable
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import World

DATA = "/data"


class MachineLoop(BoundLoop):
    """A machine in the place of an event loop."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        #: Who drives a core asks no more of a loop than this one has.
        self.loop = cast("asyncio.AbstractEventLoop", self)

    def bind(self) -> asyncio.AbstractEventLoop:
        """See `BoundLoop`."""
        return cast("asyncio.AbstractEventLoop", self)

    def clock(self) -> float:
        """See `BoundLoop`."""
        return self._machine.world.now

    def call_soon(self, work: Callable[[], object]) -> Alarm:
        """See `AbstractEventLoop`."""
        return self._machine.call_soon(work)

    def call_soon_threadsafe(self, work: Callable[[], object]) -> None:
        """See `AbstractEventLoop`: a machine has one thread, which is there."""
        work()

    def call_later(self, seconds: float, work: Callable[[], object]) -> Alarm:
        """See `AbstractEventLoop`."""
        return self._machine.call_at(self._machine.world.now + seconds, work)

    def watch(self, selector: Selectable, on_ready: Callable[[], object]) -> Callable[[], None]:
        """See `BoundLoop`."""
        assert isinstance(selector, SimulatedSelector)
        selector.on_news = lambda: self._machine.call_soon(on_ready)

        def unwatch() -> None:
            selector.on_news = None

        return unwatch


class ClusterMachine(Machine):
    """A node of a cluster. `start` begins its process; a subclass forgets the one that has ended in `forget`."""

    def __init__(self, world: World, network: Network, name: str, *aliases: str) -> None:
        super().__init__(world, network, name, *aliases, disk=f"disk of {name}")
        self.random: Random = world.stream(name)
        #: Whether it is the power that ends the process when the disk's `die_after` has come.
        self.dies_by_power = False
        #: What else ends where a process ends in good order.
        self.on_clean_end: list[Callable[[], None]] = []

    @property
    def name(self) -> str:
        """The host under which others know it."""
        return self.process.name

    def start(self) -> None:
        """Begin the process, if there is none."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what belonged to the process that has ended."""
        raise NotImplementedError

    def open_channel(self, requester: Requester, client_id: str, timeout: float) -> NodeChannel:
        """Return a way of a requester to other nodes; requests may take so many seconds."""
        sockets = self.network.selector(self.process)
        sockets.may_wait = False
        home = Home(MachineLoop(self), sockets, self.random, lambda: self.instant, self.warn)
        return NodeChannel(requester, client_id, home, request_timeout=timeout, on_answer=lambda: None)

    def crash(self, why: str) -> None:
        """Kill the process; what it wrote stays with the system."""
        self.world.note(self.name, f"is killed: {why}")
        self.world.counts[f"{self.kind}s killed"] += 1
        self._end(silently=False)
        self.disk.crash()

    def lose_power(self) -> None:
        """End the machine: of what was not flushed any part is gone."""
        torn = self.disk.count_unflushed()
        self.world.note(self.name, f"loses its power; {torn} files were not flushed")
        self.world.counts[f"{self.kind}s without power"] += 1
        self.world.counts["files torn by a power loss"] += torn
        self.machine_is_up = False
        self._end(silently=True)
        self.disk.power_loss()

    def died(self, how: str) -> None:
        """See `Machine`; it is started again soon."""
        if self.dies_by_power:
            self.world.note(self.name, f"dies {how}")
            self.lose_power()
        else:
            self.crash(how)
        self.world.after(0.2 + self.world.random.random() * 3, self.start)

    def _end(self, *, silently: bool) -> None:
        self.forget()
        self.ended(silently=silently)

    #: What this is, for the counts.
    kind = "machine"
