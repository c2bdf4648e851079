"""The broker of a simulation: the real `BrokerNode` on a simulated disk; it dies, and comes back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.log.memory_filesystem import ProcessDiedError
from barnabas.broker.network.transport import Buffers
from barnabas.broker.node import BrokerNode, Disk
from barnabas.errors import KafkaStorageError
from barnabas.testing.simulator.disk import SimulatedDisk, SimulatedStorage, SimulatedStore
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.protocol.topic_partition import TopicPartition
    from barnabas.testing.simulator.network import Network, SimulatedConnection
    from barnabas.testing.simulator.world import World

DATA = "/data"
HOST, PORT = "broker", 9092


class SimulatedBroker:
    """One machine with one broker: a disk, a clock, a process that works on what came in, one turn after the other."""

    def __init__(self, world: World, network: Network, settings: dict[str, Any]) -> None:
        self.world = world
        self.network = network
        network.broker = self
        self.settings = settings
        self.process = Process("broker")
        self.disk = SimulatedDisk(world, self._die_beside_the_loop)
        self.store = SimulatedStore(self.disk, world)
        self._storage = SimulatedStorage(self.disk, self._want_turn)
        self.node: BrokerNode | None = None
        self.machine_is_up = True
        #: Whether it is the power that ends the process when the disk's `die_after` has come.
        self.dies_by_power = False
        #: After how many turns more that change the disk the process ends with its answers unsent, and whether cleanly.
        self.ends_unanswered: tuple[int, bool] | None = None
        self.lives = 0
        #: What had reached the disk when the power was lost, by partition: the offset before which all is safe.
        self.power_losses: list[dict[TopicPartition, int]] = []
        self._connections: dict[SimulatedConnection, ClientConnection] = {}
        self._inbox: deque[tuple[SimulatedConnection, bytes | None]] = deque()
        # What came for connections that are not read at the moment.
        self._unread: dict[SimulatedConnection, list[bytes]] = {}
        self._busy_until = 0.0
        self._turn_at = inf
        self._timer_at = inf
        self._waiting_for_machine: list[Callable[[], object]] = []
        self._partitioned: dict[Process, float] = {}

    # --- life

    @property
    def accepts(self) -> bool:
        """Whether the broker listens on the port."""
        return self.node is not None

    @property
    def has_faulty_disk(self) -> bool:
        """Whether operations of its disk may fail at the moment, or have taken a log out of service."""
        return self.disk.is_faulty or self.has_offline_logs

    def start(self) -> None:
        """Start the process, recovering what the last one left; that may be its end, too."""
        if self.node is not None:
            return
        self.machine_is_up = True
        self.lives += 1
        world = self.world
        self.disk.now_ms = world.now_ms(self.process)
        self._storage = SimulatedStorage(self.disk, self._want_turn)
        node = BrokerNode(
            BrokerConfig(self.settings),
            Disk([DATA], self.disk, self._storage),
            self.store,
            world.stream(f"broker {self.lives}"),
            self._warn,
        )
        try:
            node.start(Instant(world.now, self.disk.now_ms))
        except ProcessDiedError as death:
            world.counts["crashes while starting"] += 1
            self._die(f"while it starts, at {death}")
            return
        except KafkaStorageError as problem:
            if not self.disk.is_faulty and not self.store.errors:
                raise
            # As an operator does who sees the error: it is tried again.
            world.counts["starts that the disk refused"] += 1
            world.note("broker", f"cannot start: {problem}")
            self.disk.crash()
            world.after(0.5 + world.random.random(), self.start)
            return
        node.state.advertised["PLAINTEXT"] = (HOST, PORT)
        self.node = node
        world.note("broker", f"life {self.lives} begins")
        self._busy_until = world.now + self.disk.take_stall()
        self._keep_time()
        waiting, self._waiting_for_machine = self._waiting_for_machine, []
        for told in waiting:
            told()

    @property
    def has_offline_logs(self) -> bool:
        """Whether a failure of the disk has taken logs out of service until the next start."""
        logs = self.node.logs if self.node is not None else None
        return logs is not None and (bool(logs.unopened.failures) or any(log.is_offline for log in logs.logs.values()))

    def stop(self, *, silently: bool = False) -> None:
        """End in good order; `silently` the connections are not told, and what is on its way to clients is lost."""
        node, self.node = self.node, None
        if node is None:
            return
        self.world.note("broker", "stops")
        self.world.counts["clean stops"] += 1
        try:
            node.close(self.world.now_ms(self.process))
        except ProcessDiedError as death:
            self.world.counts["crashes while stopping"] += 1
            self.node = node
            self._die(f"while it stops, at {death}")
            return
        self.disk.crash()
        self._forget_connections(silently=silently)

    def crash(self, why: str, *, silently: bool = False) -> None:
        """Kill the process; what it wrote stays with the system."""
        self.world.note("broker", f"is killed: {why}")
        self.world.counts["crashes"] += 1
        self.node = None
        self.disk.crash()
        self._forget_connections(silently=silently)

    def _die_beside_the_loop(self, death: ProcessDiedError) -> None:
        self.world.counts["crashes in the middle of a storage thread's work"] += 1
        self._die(f"in a storage thread, in the middle of: {death}")

    def _die(self, how: str) -> None:
        """End at a change of the disk, and be started again soon."""
        if self.dies_by_power:
            self.world.note("broker", f"dies {how}")
            self.lose_power()
        else:
            self.crash(how)
        self.world.after(0.2 + self.world.random.random() * 3, self.start)

    def lose_power(self) -> None:
        """End the machine: of what was not flushed any part is gone."""
        world = self.world
        node, self.node = self.node, None
        safe: dict[TopicPartition, int] = {}
        if node is not None:
            safe = {log.topic_partition: log.recovery_point for log in node.logs.logs.values()}
        self.power_losses.append(safe)
        torn = self.disk.count_unflushed()
        world.note("broker", f"loses its power; {torn} files were not flushed")
        world.counts["power losses"] += 1
        world.counts["files torn by a power loss"] += torn
        self.disk.power_loss()
        self.machine_is_up = False
        self._forget_connections(silently=True)

    def _forget_connections(self, *, silently: bool) -> None:
        connections, self._connections = self._connections, {}
        self._inbox.clear()
        self._unread.clear()
        self._turn_at = self._timer_at = inf
        for connection in connections:
            connection.forget_broker(silently=silently)

    def when_up_again(self, told: Callable[[], object]) -> None:
        """Be told when the machine is up."""
        self._waiting_for_machine.append(told)

    def _warn(self, line: str) -> None:
        self.world.note("broker", line)
        if "please report this" in line:
            self.world.violate(f"the broker failed: {line}")

    # --- partitions of the network

    def partition(self, process: Process, seconds: float) -> None:
        """Let nothing pass between the broker and a client for so long."""
        self._partitioned[process] = self.world.now + seconds
        for connection in list(self.network.connections):
            if connection.selector.process is process:
                connection.block(seconds, "both")

    def is_partitioned(self, process: Process) -> bool:
        """Whether a client cannot reach the broker now."""
        return self._partitioned.get(process, 0.0) > self.world.now

    def partition_left(self, process: Process) -> float:
        """For how many seconds more."""
        return self._partitioned[process] - self.world.now

    # --- work

    def accept(self, connection: SimulatedConnection) -> None:
        """Note that a client has connected."""
        assert self.node is not None

        transport = _BrokerEnd(self, connection)
        end = self.node.core.channel.connect(transport, "10.0.0.1", "PLAINTEXT", self.world.now)
        connection.broker_end = end
        self._connections[connection] = end
        self._keep_time()

    def send(self, connection: SimulatedConnection, buffers: Buffers) -> None:
        """Send a response, when the disk has done what it stands for."""
        data = b"".join(buffers)
        connection.to_client.send(data, self.disk.stall + max(0.0, self._busy_until - self.world.now))

    def hang_up(self, connection: SimulatedConnection) -> None:
        """End a connection."""
        end = self._connections.pop(connection, None)
        connection.close_by_broker(self.disk.stall)
        if end is not None and self.node is not None:
            self.node.core.channel.disconnected(end)

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

    def _want_turn(self, at: float = 0.0) -> None:
        at = max(at, self._busy_until, self.process.frozen_until, self.world.now)
        if at < self._turn_at:
            self._turn_at = at
            self.world.at(at, self._turn, self.lives)

    def _keep_time(self) -> None:
        assert self.node is not None
        deadline = self.node.core.next_deadline()
        if deadline < self._timer_at:
            self._timer_at = deadline
            self.world.at(deadline, self._timer, self.lives)

    def _timer(self, life: int) -> None:
        if life == self.lives and self.node is not None:
            self._timer_at = inf
            self._want_turn()

    def _turn(self, life: int) -> None:
        if life != self.lives or self.node is None or self._turn_at > self.world.now:
            return
        self._turn_at = inf
        world = self.world
        if max(self._busy_until, self.process.frozen_until) > world.now:
            self._want_turn()
            return
        changes = self.disk.changes
        try:
            self._work(self.node)
        except ProcessDiedError as death:
            world.counts["crashes in the middle of a change of the disk"] += 1
            self._die(f"in the middle of: {death}")
            return
        if self.disk.changes != changes and self._ends_now():
            return
        self._busy_until = world.now + self.disk.take_stall()
        self._check_owners(self.node)
        self._keep_time()
        if self._inbox:
            self._want_turn()

    def _ends_now(self) -> bool:
        """End with the answers of this turn unsent, if that is to be now."""
        if self.ends_unanswered is None:
            return False
        left, clean = self.ends_unanswered
        if left:
            self.ends_unanswered = left - 1, clean
            return False
        self.ends_unanswered = None
        self.world.counts["ends with answers on their way"] += 1
        if clean:
            self.stop(silently=True)
        else:
            self.crash("with its answers still on their way", silently=True)
        self.world.after(0.1 + self.world.random.random() * 2, self.start)
        return True

    def _work(self, node: BrokerNode) -> None:
        core, instant = node.core, Instant(self.world.now, self.world.now_ms(self.process))
        self.disk.now_ms = instant.now_ms
        core.channel.instant = instant
        self._storage.deliver()
        for _ in range(len(self._inbox)):
            connection, data = self._inbox.popleft()
            end = self._connections.get(connection)
            if end is None:
                continue
            if data is None:
                self._unread.pop(connection, None)
                del self._connections[connection]
                connection.broker_end = None
                core.channel.disconnected(end)
            elif connection in self._unread:
                self._unread[connection].append(data)
            else:
                self._feed(connection, end, data, instant)
        if core.next_deadline() <= instant.now:
            core.tick(instant)
        elif core.needs_settling:
            core.settle(instant)

    def _check_owners(self, node: BrokerNode) -> None:
        """In a group of the consumer protocol a partition belongs to one member, until that one has let go of it."""
        groups = node.loaded_groups
        for group in groups.consumer_groups() if groups is not None else ():
            owners: dict[tuple[bytes, int], str] = {}
            for member in group.members.values():
                for partitions in (member.assigned, member.pending_revocation):
                    for topic_id, indexes in partitions.items():
                        for index in indexes:
                            owner = owners.setdefault((topic_id, index), member.member_id)
                            if owner != member.member_id:
                                self.world.violate(
                                    f"partition {index} of a topic belongs to both {owner} and {member.member_id} in "
                                    f"epoch {group.epoch} of group {group.group_id}"
                                )

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


class _BrokerEnd:
    """The broker's socket of a simulated connection."""

    def __init__(self, broker: SimulatedBroker, connection: SimulatedConnection) -> None:
        self._broker = broker
        self._connection = connection

    def write(self, buffers: Buffers) -> None:
        """See `Transport`."""
        self._broker.send(self._connection, buffers)

    def close(self) -> None:
        """See `Transport`."""
        self._broker.hang_up(self._connection)

    def abort(self) -> None:
        """See `Transport`."""
        self._broker.hang_up(self._connection)

    def resume_reading(self) -> None:
        """See `Transport`."""
        self._broker.read_again(self._connection)
