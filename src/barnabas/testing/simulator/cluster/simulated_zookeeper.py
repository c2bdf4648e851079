"""ZooKeeper in the simulated network: sessions that are late, lose their connections, and expire."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.metadata.partition_registration import PartitionRegistration
from barnabas.broker.zookeeper import znodes
from barnabas.broker.zookeeper.controller.controller_znodes import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    decode_controller,
    decode_epoch,
)
from barnabas.broker.zookeeper.operations import (
    ConnectionLostError,
    Create,
    Created,
    Delete,
    Multi,
    SetData,
    ZooKeeperError,
)
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.testing.simulator.cluster.zookeeper_model import ModelZooKeeper
from barnabas.testing.simulator.world import Process

if TYPE_CHECKING:
    from barnabas.broker.zookeeper.operations import Operation, Result, SessionListener
    from barnabas.testing.simulator.machine import Machine
    from barnabas.testing.simulator.network import Network

#: How soon a client that has lost its server tries again, in seconds at most.
_AGAIN = 1.0
#: The end of the path of what is decided of a partition, and a session that none of the brokers has.
_STATE, _OPERATOR = "/state", 0
#: With what the path of a broker's registration begins.
_BROKER = f"{znodes.BROKER_IDS}/"


class SimulatedZooKeeper:
    """An ensemble that never ends; nodes reach it or not (`process` is what links are cut from)."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.world = network.world
        self.process = Process("zookeeper")
        self.model = ModelZooKeeper()
        #: Which life of a broker has registered in which broker epoch.
        self.registered_lives: dict[int, int] = {}
        self._heard_at: dict[int, float] = {}
        self._connections: dict[int, Connection] = {}

    # -- what sessions send ------------------------------------------------------------------------------------------

    def connect(self, client: SimulatedSession, connection: Connection) -> None:
        """Let a client go on in its session, or in another one if that is over."""
        if client.id in self.model.sessions:
            self.model.forget_watches(client.id)
            number = client.id
        else:
            number = self.model.begin(client)
            self.world.after(client.timeout, self._look, number)
        connection.session = number
        self._connections[number] = connection
        self._heard_at[number] = self.world.now
        connection.to_client.send(lambda: client.connected(connection, number))

    def ping(self, client: SimulatedSession, connection: Connection) -> None:
        """Hear of a client; one whose session is over is hung up on."""
        if connection.session not in self.model.sessions:
            self._hang_up(client, connection)
            return
        self._heard_at[connection.session] = self.world.now
        connection.to_client.send(lambda: client.heard(connection))

    def take(
        self, client: SimulatedSession, connection: Connection, operation: Operation, done: Callable[[Result], None]
    ) -> None:
        """Carry an operation out, unless its session is over or has another connection."""
        if connection.session not in self.model.sessions or self._connections[connection.session] is not connection:
            self._hang_up(client, connection)
            return
        self._heard_at[connection.session] = self.world.now
        result = self.model.carry_out(connection.session, operation)
        self._check_states(operation, result)
        if isinstance(operation, Create) and operation.path.startswith(_BROKER) and isinstance(result, Created):
            self.registered_lives[result.created] = client.life
        connection.to_client.send(lambda: client.answered(connection, done, result))

    def _check_states(self, operation: Operation, result: Result) -> None:
        """Demand that only who is controller writes what is decided of partitions: each state tells the epoch."""
        if isinstance(result, ZooKeeperError):
            return
        parts = operation.operations if isinstance(operation, Multi) else (operation,)
        for part in parts:
            if isinstance(part, Create | SetData) and part.path.endswith(_STATE):
                written = znodes.decode_state(part.path, part.data).controller_epoch
                now = decode_epoch(self.model.nodes[CONTROLLER_EPOCH].data)
                if written != now:
                    self.world.violate(f"{part.path} was written in controller epoch {written}, and {now} has begun")

    def depose(self) -> None:
        """Delete the znode that says who is controller, as an operator does."""
        self.model.carry_out(_OPERATOR, Delete(CONTROLLER))

    def end(self, number: int) -> None:
        """End a session whose client closes it."""
        if number in self.model.sessions:
            self.model.end(number)

    # -- the ends of sessions ----------------------------------------------------------------------------------------

    def _look(self, number: int) -> None:
        client = self.model.sessions.get(number)
        if client is None:
            return
        assert isinstance(client, SimulatedSession)
        due = self._heard_at[number] + client.timeout
        if due > self.world.now:
            self.world.at(due, self._look, number)
        else:
            self.expire(number)

    def expire(self, number: int) -> None:
        """End a session: its client learns of it by the next thing that it wants."""
        self.world.note("zookeeper", f"session {number} has expired")
        self.world.counts["sessions expired"] += 1
        self.model.end(number)

    @staticmethod
    def _hang_up(client: SimulatedSession, connection: Connection) -> None:
        connection.to_client.send(lambda: client.lost(connection))

    # -- what stands there -------------------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int | None:
        """Who is controller, if any broker is."""
        found = self.model.nodes.get(CONTROLLER)
        return None if found is None else decode_controller(found.data)

    def topics_to_delete(self) -> set[str]:
        """Return the topics whose deletion was asked for, and is not over."""
        found = self.model.nodes.get(znodes.DELETE_TOPICS)
        return set() if found is None else set(found.children)

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id in a topic's znode; None where there is none."""
        path = znodes.topic_path(topic)
        found = self.model.nodes.get(path)
        return None if found is None else znodes.decode_topic(path, found.data).topic_id

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionRegistration]]:
        """Yield every partition that has a state."""
        nodes = self.model.nodes
        for topic in sorted(nodes[znodes.TOPICS].children) if znodes.TOPICS in nodes else ():
            path = znodes.topic_path(topic)
            assigned = znodes.decode_topic(path, nodes[path].data)
            for index, replicas in sorted(assigned.replicas.items()):
                found = nodes.get(znodes.state_path(topic, index))
                if found is None:
                    yield TopicPartition(topic, index), PartitionRegistration(replicas, (), -1, 0, 0)
                    continue
                state = znodes.decode_state(path, found.data)
                yield (
                    TopicPartition(topic, index),
                    PartitionRegistration(
                        replicas,
                        state.isr,
                        state.leader,
                        state.leader_epoch,
                        found.version,
                        adding_replicas=assigned.adding.get(index, ()),
                        removing_replicas=assigned.removing.get(index, ()),
                    ),
                )


class _Way:
    """One direction of a connection: what is sent arrives in order, and late."""

    def __init__(self, network: Network, source: Process, target: Process) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._queue: deque[Callable[[], None]] = deque()
        self.is_broken = False

    def send(self, what: Callable[[], None]) -> None:
        """Put a message on its way."""
        self._queue.append(what)
        self._network.world.after(self._network.latency(), self._arrive)

    def _arrive(self) -> None:
        network = self._network
        held = network.cut_off(self._source, self._target)
        if held > 0:
            network.world.after(held + network.latency(), self._arrive)
            return
        message = self._queue.popleft()
        if not self.is_broken:
            message()


class Connection:
    """One connection of a session to the ensemble."""

    def __init__(self, network: Network, client: Process, server: Process) -> None:
        self.to_server = _Way(network, client, server)
        self.to_client = _Way(network, server, client)
        #: The session that it is for, as the server knows it.
        self.session = 0


class SimulatedSession:
    """Implements `ZooKeeperSession` for one life of a machine; all it tells is told in the machine's turns."""

    problem = ""

    def __init__(self, zookeeper: SimulatedZooKeeper, machine: Machine, timeout: float) -> None:
        self._zookeeper = zookeeper
        self._machine = machine
        self.life = machine.lives
        self._world = machine.world
        self.timeout = timeout
        self.id = 0
        #: The connection of now; None while there is none.
        self.connection: Connection | None = None
        self._listener: SessionListener | None = None
        self._is_connected = self._is_closed = False
        self._heard_at = 0.0
        self._unsent: list[tuple[Operation, Callable[[Result], None]]] = []
        self._in_flight: deque[tuple[str, Callable[[Result], None]]] = deque()

    # -- ZooKeeperSession --------------------------------------------------------------------------------------------

    def start(self, listener: SessionListener) -> None:
        """See `ZooKeeperSession`."""
        self._listener = listener
        self._connect()

    def submit(self, operation: Operation, done: Callable[[Result], None]) -> None:
        """See `ZooKeeperSession`."""
        connection = self.connection
        if connection is None or not self._is_connected:
            self._unsent.append((operation, done))
            return
        self._in_flight.append((getattr(operation, "path", ""), done))
        connection.to_server.send(lambda: self._zookeeper.take(self, connection, operation, done))

    def close(self) -> None:
        """See `ZooKeeperSession`."""
        self._is_closed = True
        if self.connection is not None:
            number = self.id
            self.connection.to_server.send(lambda: self._zookeeper.end(number))

    # -- connections -------------------------------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        machine = self._machine
        return self._is_closed or machine.lives != self.life or not machine.is_running

    def _connect(self) -> None:
        if self._is_over:
            return
        connection = Connection(self._zookeeper.network, self._machine.process, self._zookeeper.process)
        self.connection, self._heard_at = connection, self._world.now
        connection.to_server.send(lambda: self._zookeeper.connect(self, connection))
        self._beat(connection)

    def _beat(self, connection: Connection) -> None:
        """Ping, as kazoo's own thread does, and give a connection up of which nothing is heard."""
        if self._is_over or self.connection is not connection:
            return
        frozen = self._machine.process.frozen_until - self._world.now
        if frozen > 0:
            self._heard_at = self._world.now + frozen
            self._world.after(frozen, self._beat, connection)
            return
        if self._world.now - self._heard_at > self.timeout * 2 / 3:
            connection.to_server.is_broken = self._world.random.random() < 0.5
            self._lost(connection)
            return
        if self._is_connected:
            connection.to_server.send(lambda: self._zookeeper.ping(self, connection))
        self._world.after(self.timeout / 4, self._beat, connection)

    def _tell(self, connection: Connection, what: Callable[[], None]) -> None:
        """Do something in the machine's next turn, if the connection is still the one of now."""
        if not self._is_over and self.connection is connection:
            self._heard_at = self._world.now
            self._machine.call_soon(lambda: what() if self.connection is connection else None)

    def connected(self, connection: Connection, number: int) -> None:
        """Take note that the server has let this client in."""

        def go_on() -> None:
            assert self._listener is not None
            self.id, self._is_connected = number, True
            self._listener.connected(number)
            unsent, self._unsent = self._unsent, []
            for operation, done in unsent:
                self.submit(operation, done)

        self._tell(connection, go_on)

    def heard(self, connection: Connection) -> None:
        """Take note of a word of the server."""
        if self.connection is connection:
            self._heard_at = self._world.now

    def answered(self, connection: Connection, done: Callable[[Result], None], result: Result) -> None:
        """Take note of an answer."""

        def go_on() -> None:
            self._in_flight.popleft()
            done(result)

        self._tell(connection, go_on)

    def fire(self, path: str) -> None:
        """See `Watcher`."""
        connection = self.connection
        if connection is not None:
            connection.to_client.send(lambda: self._tell(connection, lambda: self._changed(path)))

    def _changed(self, path: str) -> None:
        assert self._listener is not None
        self._listener.changed(path)

    def lost(self, connection: Connection) -> None:
        """Take note that the server has hung up."""
        if not self._is_over and self.connection is connection:
            self._lost(connection)

    def _lost(self, connection: Connection) -> None:
        self._world.counts["connections to ZooKeeper lost"] += 1

        def go_on() -> None:
            assert self._listener is not None
            was_connected, self._is_connected, self.connection = self._is_connected, False, None
            lost, self._in_flight = self._in_flight, deque()
            if was_connected:
                self._listener.disconnected()
            for path, done in lost:
                done(ConnectionLostError(path, "the connection ended before the answer came"))
            self._world.after(self._world.random.random() * _AGAIN, self._connect)

        self._machine.call_soon(lambda: go_on() if self.connection is connection else None)
