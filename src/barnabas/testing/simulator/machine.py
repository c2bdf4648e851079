"""A simulated machine: a disk, a clock, and a process that works on what came in, one turn after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import ProcessDiedError
from barnabas.broker.network.transport import Buffers
from barnabas.testing.simulator.disk import SimulatedDisk, SimulatedStorage
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.broker.request_dispatcher import RequestDispatcher
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.testing.simulator.network import Network, SimulatedConnection
    from barnabas.testing.simulator.world import World


class Alarm:
    """Work that a process has planned; `cancel` undoes that."""

    __slots__ = ("is_cancelled", "work")

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not do it."""
        self.is_cancelled = True


class Machine:
    """One machine of the network, under its name. `core` answers connections while there is one.

    A subclass starts the process (`begin`, then `core`), is told of its death in the middle of a change of the disk
    (`died`), and of each turn (`turned`).
    """

    def __init__(self, world: World, network: Network, name: str, *aliases: str, disk: str = "disk") -> None:
        self.world = world
        self.network = network
        self.process = Process(name)
        network.add(self, *aliases)
        self.disk = SimulatedDisk(world, self._died_beside_the_loop, disk)
        self._storage = SimulatedStorage(self.disk, self._want_turn)
        self.core: RequestDispatcher | None = None
        self.is_running = False
        self.machine_is_up = True
        self.lives = 0
        #: The process dies when the next request of this API reaches it, before it is worked on.
        self.dies_at: ApiKey | None = None
        self._connections: dict[SimulatedConnection, ClientConnection] = {}
        self._inbox: deque[tuple[SimulatedConnection, bytes | None]] = deque()
        # What came for connections that are not read at the moment.
        self._unread: dict[SimulatedConnection, list[bytes]] = {}
        self._soon: deque[Alarm] = deque()
        self._busy_until = 0.0
        self._turn_at = inf
        self._timer_at = inf
        self._waiting_for_machine: list[Callable[[], object]] = []

    # --- life

    @property
    def accepts(self) -> bool:
        """Whether a server listens on the port."""
        return self.core is not None

    @property
    def has_faulty_disk(self) -> bool:
        """Whether operations of its disk may fail at the moment, or have taken a log out of service."""
        return self.disk.is_faulty

    @property
    def instant(self) -> Instant:
        """Both clocks of the process."""
        return Instant(self.world.now, self.world.now_ms(self.process))

    def begin(self) -> None:
        """Let the next process be there."""
        self.machine_is_up = self.is_running = True
        self.lives += 1
        self.disk.now_ms = self.world.now_ms(self.process)
        self._storage = SimulatedStorage(self.disk, self._want_turn)

    def booted(self) -> None:
        """Go on after the start, which has kept the process busy."""
        self._busy_until = self.world.now + self.disk.take_stall()
        self._keep_time()
        waiting, self._waiting_for_machine = self._waiting_for_machine, []
        for told in waiting:
            told()

    def ended(self, *, silently: bool) -> None:
        """Let the process be gone; unless `silently` the kernel tells those who were connected."""
        self.dies_at = None
        self.core = None
        self.is_running = False
        connections, self._connections = self._connections, {}
        self._inbox.clear()
        self._unread.clear()
        self._soon.clear()
        self._turn_at = self._timer_at = inf
        for connection in connections:
            connection.forget_broker(silently=silently)
        selectors, self.process.selectors = self.process.selectors, []
        for selector in selectors:
            if silently:
                selector.vanish()
            else:
                selector.close_all()

    def when_up_again(self, told: Callable[[], object]) -> None:
        """Be told when the machine is up."""
        self._waiting_for_machine.append(told)

    def died(self, how: str) -> None:
        """Take note that the process has ended in the middle of a change of the disk."""
        raise NotImplementedError

    def turned(self, *, changed: bool) -> bool:
        """Take note of a turn, and whether it changed the disk; False if the process has ended with it."""
        return True

    def warn(self, line: str) -> None:
        """Write what the process tells its operator into the history."""
        self.world.note(self.process.name, line)
        if "please report this" in line:
            self.world.violate(f"{self.process.name} failed: {line}")

    def _died_beside_the_loop(self, death: ProcessDiedError) -> None:
        self.world.counts["crashes in the middle of a storage thread's work"] += 1
        self.died(f"in a storage thread, in the middle of: {death}")

    # --- connections

    def accept(self, connection: SimulatedConnection) -> None:
        """Note that a client has connected."""
        assert self.core is not None

        transport = _ServerEnd(self, connection)
        end = self.core.channel.connect(transport, "10.0.0.1", self.listener, self.world.now, connection.port)
        connection.broker_end = end
        self._connections[connection] = end
        self._keep_time()

    #: The listener that connections come to.
    listener = "PLAINTEXT"

    def send(self, connection: SimulatedConnection, buffers: Buffers) -> None:
        """Send a response, when the disk has done what it stands for."""
        data = b"".join(buffers)
        connection.to_client.send(data, self.disk.stall + max(0.0, self._busy_until - self.world.now))

    def hang_up(self, connection: SimulatedConnection) -> None:
        """End a connection."""
        end = self._connections.pop(connection, None)
        connection.close_by_broker(self.disk.stall)
        if end is not None and self.core is not None:
            self.core.channel.disconnected(end)

    def read_again(self, connection: SimulatedConnection) -> None:
        """Work on the bytes that a connection did not want before."""
        unread = self._unread.pop(connection, [])
        self._inbox.extendleft((connection, data) for data in reversed(unread))
        self._want_turn()

    def receive(self, connection: SimulatedConnection, data: bytes) -> None:
        """Bytes have come; they are worked on in the next turn."""
        self._inbox.append((connection, data))
        self._want_turn()

    def lose(self, connection: SimulatedConnection) -> None:
        """Note that a connection has come to its end."""
        self._inbox.append((connection, None))
        self._want_turn()

    # --- work

    def call_soon(self, work: Callable[[], object]) -> Alarm:
        """Have the process do something in its next turn, unless it has ended by then."""
        alarm = Alarm(work)
        self._soon.append(alarm)
        self._want_turn()
        return alarm

    def call_at(self, when: float, work: Callable[[], object]) -> Alarm:
        """Have the process do something at a time, unless it has ended by then."""
        alarm = Alarm(work)
        self.world.at(when, self._rings, alarm, self.lives)
        return alarm

    def _rings(self, alarm: Alarm, life: int) -> None:
        if life == self.lives and self.is_running and not alarm.is_cancelled:
            self._soon.append(alarm)
            self._want_turn()

    def _want_turn(self, at: float = 0.0) -> None:
        at = max(at, self._busy_until, self.process.frozen_until, self.world.now)
        if at < self._turn_at:
            self._turn_at = at
            self.world.at(at, self._turn, self.lives)

    def _keep_time(self) -> None:
        if self.core is None:
            return
        deadline = self.core.next_deadline()
        if deadline < self._timer_at:
            self._timer_at = deadline
            self.world.at(deadline, self._timer, self.lives)

    def _timer(self, life: int) -> None:
        if life == self.lives and self.is_running:
            self._timer_at = inf
            self._want_turn()

    def _turn(self, life: int) -> None:
        if life != self.lives or not self.is_running or self._turn_at > self.world.now:
            return
        self._turn_at = inf
        world = self.world
        if max(self._busy_until, self.process.frozen_until) > world.now:
            self._want_turn()
            return
        changes = self.disk.changes
        try:
            self._work()
        except ProcessDiedError as death:
            world.counts["crashes in the middle of a change of the disk"] += 1
            self.died(f"in the middle of: {death}")
            return
        if not self.is_running or not self.turned(changed=self.disk.changes != changes):
            return
        self._busy_until = world.now + self.disk.take_stall()
        self._keep_time()
        if self._inbox or self._soon:
            self._want_turn()

    def _work(self) -> None:
        instant = self.instant
        self.disk.now_ms = instant.now_ms
        if self.core is not None:
            self.core.channel.instant = instant
        self._storage.deliver()
        for _ in range(len(self._soon)):
            alarm = self._soon.popleft() if self._soon else None
            if alarm is not None and not alarm.is_cancelled:
                alarm.work()
        core = self.core
        if core is None:
            return
        for _ in range(len(self._inbox)):
            self._take(core, *self._inbox.popleft(), instant)
        if core.next_deadline() <= instant.now:
            core.tick(instant)
        elif core.needs_settling:
            core.settle(instant)

    def _take(
        self, core: RequestDispatcher, connection: SimulatedConnection, data: bytes | None, instant: Instant
    ) -> None:
        end = self._connections.get(connection)
        if end is None:
            return
        if data is None:
            self._unread.pop(connection, None)
            del self._connections[connection]
            connection.broker_end = None
            core.channel.disconnected(end)
        elif connection in self._unread:
            self._unread[connection].append(data)
        elif self.dies_at is not None and _begins_with(data, self.dies_at):
            raise ProcessDiedError(f"a request that has come: {self.dies_at.name}")
        else:
            self._feed(connection, end, data, instant)

    def _feed(self, connection: SimulatedConnection, end: ClientConnection, data: bytes, instant: Instant) -> None:
        view = memoryview(data)
        while len(view) and not end.closed:
            if not end.wants_input:
                end.reading_paused = True
                self._unread[connection] = [bytes(view)]
                return
            space = end.buffer.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            view = view[count:]
            end.received(count, instant)


def _begins_with(data: bytes, api: ApiKey) -> bool:
    """Whether a request of an API begins with these bytes; one that comes in pieces may pass."""
    return data[4:6] == api.to_bytes(2, "big")


class _ServerEnd:
    """The machine's socket of a simulated connection."""

    def __init__(self, machine: Machine, connection: SimulatedConnection) -> None:
        self._machine = machine
        self._connection = connection

    def write(self, buffers: Buffers) -> None:
        """See `Transport`."""
        self._machine.send(self._connection, buffers)

    def close(self) -> None:
        """See `Transport`."""
        self._machine.hang_up(self._connection)

    def abort(self) -> None:
        """See `Transport`."""
        self._machine.hang_up(self._connection)

    def resume_reading(self) -> None:
        """See `Transport`."""
        self._machine.read_again(self._connection)
