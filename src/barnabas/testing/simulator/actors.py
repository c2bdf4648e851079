"""Applications of a run, and the processes in which they live: what all of them have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.testing.simulator.broker import HOST, PORT
from barnabas.testing.simulator.clients import Clients, ThreadClients
from barnabas.testing.simulator.event_loop import LoopClients
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from random import Random

    from barnabas.errors import KafkaError
    from barnabas.testing.simulator.ledger import Ledger
    from barnabas.testing.simulator.network import Network
    from barnabas.testing.simulator.world import SimulatedThread, World

BOOTSTRAP = f"{HOST}:{PORT}"


class Actor:
    """One life of an application: a process that does its work with real clients, and tells the ledger.

    A subclass does that in `live`, which returns when `is_stopping`. `name` is the application's, `life` its own.
    """

    #: How many of the lives use the clients of `barnabas.aio`, by `self.clients`.
    IN_LOOP: ClassVar[float] = 0.0

    def __init__(self, application: Application, number: int) -> None:
        self.application = application
        self.name = application.name
        self.life = f"{self.name}.{number}"
        self.world = application.world
        self.network = application.network
        self.ledger = application.ledger
        self.random: Random = self.world.stream(self.life)
        self.process = Process(self.life)
        self.clients: Clients = ThreadClients(self.world, self.network)
        #: Whether this process has seen that another one has taken its place, and ends.
        self.gives_way = False
        self.thread: SimulatedThread = self.world.spawn(self.life, self.process, self._run)

    def _run(self) -> None:
        if self.random.random() < self.IN_LOOP:
            self.world.counts["lives in an event loop"] += 1
            self.clients = LoopClients(self.world, self.network)
        self.live(self.life)
        self.clients.close()

    def live(self, life: str) -> None:
        """Do the work until told to stop."""
        raise NotImplementedError

    @property
    def is_stopping(self) -> bool:
        """Whether the work is to come to its end."""
        return self.application.is_stopping or self.gives_way

    @property
    def is_superseded(self) -> bool:
        """Whether this process was taken for dead, and another one started in its place."""
        return self.application.lives[-1] is not self

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, in one way or another."""
        return self.process.is_dead or self.thread.done

    def note(self, what: str) -> None:
        """Write into the history."""
        self.world.note(self.life, what)

    def pause(self, most: float) -> None:
        """Do something else for a while."""
        self.clients.pause(self.random.random() * most)

    def failed(self, what: str, problem: KafkaError) -> None:
        """Write an error into the history that is part of life when there are faults."""
        self.world.counts[f"{what}: {type(problem).__name__}"] += 1
        self.note(f"{what}: {type(problem).__name__}: {problem}")


class Application:
    """What goes on when a process dies: as another process, with the same name and arguments."""

    def __init__(
        self, kind: type[Actor], name: str, world: World, network: Network, ledger: Ledger, arguments: dict[str, Any]
    ) -> None:
        self.kind = kind
        self.name = name
        self.world = world
        self.network = network
        self.ledger = ledger
        self.is_stopping = False
        #: Whether it died and is not started again.
        self.is_gone = False
        self.lives: list[Actor] = []
        self.arguments = arguments

    @property
    def process(self) -> Process:
        """The one that was started last."""
        return self.lives[-1].process

    @property
    def is_done(self) -> bool:
        """Whether the application has come to its end; a process that died does not count as one."""
        ended = self.is_gone or (bool(self.lives) and self.lives[-1].thread.done)
        return ended and all(actor.is_over for actor in self.lives)

    @property
    def is_alive(self) -> bool:
        """Whether the process that was started last has something to do."""
        return bool(self.lives) and not self.lives[-1].is_over

    def start(self) -> None:
        """Begin in a new process, whether or not there is still another one; no more once it is gone for good."""
        if self.is_gone:
            return
        self.lives.append(self.kind(self, len(self.lives) + 1, **self.arguments))

    def kill(self) -> None:
        """End the process that was started last, as kill -9 does."""
        self.world.counts["clients killed"] += 1
        self.network.kill(self.process)

    def lose(self) -> None:
        """End all its processes, and start no other one."""
        self.is_gone = True
        for actor in self.lives:
            if not actor.is_over:
                self.network.kill(actor.process)
