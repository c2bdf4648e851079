"""The simulated network: machines by host, connections that are slow, lossy, cut, half open, and the client's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.errors import ProtocolError
from barnabas.network.network_receive import NetworkReceive
from barnabas.network.selectable import Authentication, Buffer, Disconnection

if TYPE_CHECKING:
    from random import Random

    from barnabas.broker.network.client_connection import ClientConnection
    from barnabas.testing.simulator.world import Process, SimulatedThread, World

#: Until the client raises it: what a server may send before it has said what it is.
_FIRST_FRAMES = 512 * 1024
#: How long a kernel waits before it sends again what got lost, the first time.
_RETRANSMIT = 0.2


class Pipe:
    """One direction of a connection: bytes arrive in order, and late."""

    __slots__ = ("_deliver", "_last_arrival", "_network", "blocked_until", "in_flight", "is_broken")

    def __init__(self, network: Network, deliver: Callable[[bytes], None]) -> None:
        self._network = network
        self._deliver = deliver
        self._last_arrival = 0.0
        self.blocked_until = 0.0
        self.is_broken = False
        self.in_flight = 0

    def send(self, data: bytes, delay: float = 0.0) -> None:
        """Put bytes on their way."""
        network = self._network
        world = network.world
        for piece in network.pieces(data):
            arrival = world.now + delay + network.latency()
            if self.blocked_until > arrival:
                arrival = self.blocked_until + network.random.random() * 2 * _RETRANSMIT
            self._last_arrival = max(arrival, self._last_arrival)
            self.in_flight += 1
            world.at(self._last_arrival, self._arrive, piece)

    def end(self, delay: float, ended: Callable[[], None]) -> None:
        """Tell the other end that this one is closed, after all that was sent."""
        arrival = max(self._network.world.now + delay + self._network.latency(), self._last_arrival)
        if max(arrival, self.blocked_until) != inf:
            self._network.world.at(max(arrival, self.blocked_until), ended)

    def block(self, until: float) -> None:
        """Let nothing that is sent from now on arrive before a time."""
        self.blocked_until = max(self.blocked_until, until)

    def _arrive(self, piece: bytes) -> None:
        self.in_flight -= 1
        if not self.is_broken:
            self._network.world.digest_bytes(piece)
            self._deliver(piece)


class SimulatedConnection:
    """A connection from a client's selector to a broker, or another machine that listens.

    The ends learn of its end each at its own time; between, bytes of a connection that its client has given up may
    still reach the broker.
    """

    def __init__(
        self, network: Network, selector: SimulatedSelector, node_id: int, address: str, machine: Host
    ) -> None:
        self.network = network
        self.selector = selector
        self.node_id = node_id
        self.address = address
        self.machine = machine
        self.port = network.next_port()
        self.to_broker = Pipe(network, self._reaches_broker)
        self.to_client = Pipe(network, self._reaches_client)
        self.is_open = False
        self.client_gone = False
        self.broker_end: ClientConnection | None = None
        self.receive = NetworkReceive(_FIRST_FRAMES)

    @property
    def name(self) -> str:
        """For the history."""
        return f"{self.selector.process.name}#{self.selector.number}"

    # --- the client's end

    def open(self) -> None:
        """Begin to connect."""
        network = self.network
        arrival = max(network.world.now + network.latency(), self.to_broker.blocked_until)
        if arrival != inf:
            network.world.at(arrival, self._syn)

    def _syn(self) -> None:
        if self.client_gone:
            return
        broker = self.machine
        if broker.accepts:
            broker.accept(self)
            self.network.world.after(self.network.latency(), self._established)
        elif broker.machine_is_up:
            self.network.world.after(self.network.latency(), self.lost_by_client, "Connection refused")
        # Else there is no answer, and the client's patience ends some time.

    def _established(self) -> None:
        if not self.client_gone:
            self.is_open = True
            self.selector.happened("connected", self, None)

    def close_by_client(self) -> None:
        """Note that the client is done with it; what it sent before still arrives."""
        if self.client_gone:
            return
        self.client_gone = True
        self.network.connections.pop(self, None)
        self.to_broker.end(0.0, self._broker_loses)

    def lost_by_client(self, reason: str) -> None:
        """Note that the client learns that the connection is gone."""
        if not self.client_gone:
            self.client_gone = True
            self.network.connections.pop(self, None)
            self.forget_sent()
            self.selector.happened("lost", self, reason)

    def vanish(self) -> None:
        """Note that the client's machine has lost its power: the other end hears nothing."""
        self.client_gone = True
        self.network.connections.pop(self, None)
        self.to_broker.is_broken = True

    def forget_sent(self) -> None:
        """Note that the client gives the connection up; its kernel may forget what has not arrived yet."""
        if self.selector.process.resets_connections:
            self.to_broker.is_broken = True

    def _reaches_client(self, data: bytes) -> None:
        if not self.client_gone:
            self.selector.happened("data", self, data)

    # --- the broker's end

    def _reaches_broker(self, data: bytes) -> None:
        broker = self.machine
        if self.broker_end is not None:
            if self.client_gone:
                self.network.world.counts["bytes of closed connections"] += len(data)
            broker.receive(self, data)
        elif broker.machine_is_up:
            self.network.world.after(self.network.latency(), self.lost_by_client, "Connection reset by peer")
        else:
            broker.when_up_again(self._reset_late)

    def _reset_late(self) -> None:
        delay = self.network.random.random() * 5 * _RETRANSMIT
        self.network.world.after(delay, self.lost_by_client, "Connection reset by peer")

    def _broker_loses(self) -> None:
        if self.broker_end is not None:
            self.machine.lose(self)

    def close_by_broker(self, delay: float) -> None:
        """Note that the broker has closed its end; what it wrote before arrives."""
        self.broker_end = None
        self.to_client.end(delay, self._client_learns_of_close)

    def _client_learns_of_close(self) -> None:
        self.lost_by_client("the peer closed the connection")

    def forget_broker(self, *, silently: bool) -> None:
        """Note that the broker's process is gone; its kernel tells the client, unless the power is gone as well."""
        self.broker_end = None
        if silently:
            self.to_client.is_broken = True
        else:
            self.to_client.end(0.0, self._reset_by_kernel)

    def _reset_by_kernel(self) -> None:
        self.lost_by_client("Connection reset by peer")

    # --- faults

    def cut(self) -> None:
        """Something in between drops the connection: both ends learn of it, and what is in progress may be lost."""
        random = self.network.random
        self.to_broker.is_broken = random.random() < 0.5
        self.to_client.is_broken = random.random() < 0.5
        self.to_broker.end(random.random() * 0.05, self._broker_loses)
        self.network.world.after(self.network.latency(), self.lost_by_client, "Connection reset by peer")

    def block(self, seconds: float, which: str) -> None:
        """Let nothing through for so long, in one direction or both; the ends are not told."""
        if seconds <= 0:
            return
        until = self.network.world.now + seconds
        if which != "to client":
            self.to_broker.block(until)
        if which != "to broker":
            self.to_client.block(until)


class Host(Protocol):
    """What the network has to do with a machine, see `Machine`."""

    process: Process
    machine_is_up: bool

    @property
    def accepts(self) -> bool:
        """Whether a server listens on the port."""

    @property
    def has_faulty_disk(self) -> bool:
        """Whether operations of its disk may fail at the moment."""

    def accept(self, connection: SimulatedConnection) -> None:
        """Note that a client has connected."""

    def receive(self, connection: SimulatedConnection, data: bytes) -> None:
        """Bytes have come."""

    def lose(self, connection: SimulatedConnection) -> None:
        """Note that a connection has come to its end."""

    def when_up_again(self, told: Callable[[], object]) -> None:
        """Be told when the machine is up."""


class Network:
    """All machines and connections, and how bad the network is."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.stream("network")
        self.machines: list[Host] = []
        #: Which machines a name stands for; one of several is drawn for each connection.
        self.names: dict[str, list[Host]] = {}
        #: Until when nothing gets from one process to another.
        self._cut_off: dict[tuple[Process, Process], float] = {}
        self.connections: dict[SimulatedConnection, None] = {}
        self.base_latency = 0.0005
        self.jitter = 0.001
        self.loss = 0.0
        self.splits = False
        self._selectors = 0
        self._ports = 0

    def next_port(self) -> int:
        """Return the port of the client's end of a connection that is made; no two are alike."""
        self._ports += 1
        return self._ports

    def latency(self) -> float:
        """How long the next bytes take, in seconds."""
        random = self.random.random
        delay = self.base_latency + random() * self.jitter
        if self.loss:
            pause = _RETRANSMIT
            while random() < self.loss:
                self.world.counts["lost packets"] += 1
                delay += pause
                pause *= 2
        return delay

    def pieces(self, data: bytes) -> Sequence[bytes]:
        """Return the parts in which bytes arrive."""
        if not self.splits or len(data) < 2 or self.random.random() < 0.7:
            return (data,)
        at = self.random.randrange(1, len(data))
        return data[:at], data[at:]

    # --- machines

    def add(self, machine: Host, *names: str) -> None:
        """Let a machine be reached under its host, and under other names."""
        self.machines.append(machine)
        for name in (machine.process.name, *names):
            self.names.setdefault(name, []).append(machine)

    def machine(self, host: str) -> Host:
        """Return the machine that a connection to a host goes to."""
        found = self.names[host]
        return found[0] if len(found) == 1 else self.random.choice(found)

    @property
    def has_faulty_disk(self) -> bool:
        """Whether operations of a disk may fail at the moment, or have taken a log out of service."""
        return any(machine.has_faulty_disk for machine in self.machines)

    def any_machine(self, random: Random) -> Host:
        """Return one of the machines, drawn by lot."""
        return self.machines[0] if len(self.machines) == 1 else random.choice(self.machines)

    def partition(self, source: Process, target: Process, seconds: float, *, both: bool = True) -> None:
        """Let nothing pass from one process to another for so long, and the other way too unless `both` is False."""
        until = self.world.now + seconds
        self._cut_off[source, target] = until
        if both:
            self._cut_off[target, source] = until
        for connection in list(self.connections):
            ends = connection.selector.process, connection.machine.process
            if ends in ((source, target), (target, source)):
                self._hold(connection)

    def _hold(self, connection: SimulatedConnection) -> None:
        """Hold back what a connection carries as long as its ends are cut off from each other."""
        client, server = connection.selector.process, connection.machine.process
        connection.block(self.cut_off(client, server), "to broker")
        connection.block(self.cut_off(server, client), "to client")

    def cut_off(self, source: Process, target: Process) -> float:
        """Return for how many seconds more nothing gets from one process to another; 0 or less: it does."""
        return self._cut_off.get((source, target), 0.0) - self.world.now

    def heal(self) -> None:
        """Let no process be cut off from another."""
        self._cut_off.clear()

    def open(self, connection: SimulatedConnection) -> None:
        """Begin to connect."""
        self.connections[connection] = None
        self._hold(connection)
        connection.open()

    def probe(self, source: Process, host: str, told: Callable[[bool, bool], None], patience: float) -> None:
        """Try a connection to a port: tells whether it is open, and whether it was refused; neither is silence."""
        machine = self.machine(host)
        there, back = self.cut_off(source, machine.process), self.cut_off(machine.process, source)

        def arrive() -> None:
            if machine.machine_is_up and max(there, back) <= 0:
                is_open = machine.accepts
                self.world.after(self.latency(), told, is_open, not is_open)
            else:
                self.world.after(patience, told, False, False)

        self.world.after(self.latency(), arrive)

    # --- clients

    def selector(self, process: Process | None = None) -> SimulatedSelector:
        """Return the `Selector` of a client of a process, by default that of the thread that asks."""
        if process is None:
            thread = self.world.current()
            assert thread is not None
            process = thread.process
        self._selectors += 1
        made = SimulatedSelector(self, process, self._selectors)
        process.selectors.append(made)
        return made

    def kill(self, process: Process) -> None:
        """End a client's process; its kernel closes the connections."""
        process.is_dead = True
        for selector in process.selectors:
            selector.close_all()


class SimulatedSelector:
    """A client's connections; see `Selectable`."""

    def __init__(self, network: Network, process: Process, number: int) -> None:
        self.network = network
        self.process = process
        self.number = number
        self.connected: list[int] = []
        self.authentications: list[Authentication] = []
        self.disconnected: dict[int, Disconnection] = {}
        self.completed_sends: list[int] = []
        self.completed_receives: list[tuple[int, Buffer]] = []
        self._connections: dict[int, SimulatedConnection] = {}
        self._sending: dict[int, tuple[bytes, bool]] = {}
        self._news: list[tuple[str, SimulatedConnection, Any]] = []
        self._is_woken = False
        self._polling: SimulatedThread | None = None
        #: Whether `poll` may let others run; in an event loop only the loop waits.
        self.may_wait = True
        #: Called when something has come from the network.
        self.on_news: Callable[[], object] | None = None

    @property
    def has_news(self) -> bool:
        """Whether something has come that `poll` has not told of."""
        return bool(self._news)

    def connect(self, node_id: int, host: str, port: int, attempt: int = 0) -> None:
        """See `Selectable.connect`."""
        machine = self.network.machine(host)
        connection = SimulatedConnection(self.network, self, node_id, f"{host}:{port}", machine)
        self._connections[node_id] = connection
        self.network.open(connection)

    def is_channel_ready(self, node_id: int) -> bool:
        """See `Selectable.is_channel_ready`."""
        connection = self._connections.get(node_id)
        return connection is not None and connection.is_open

    def is_acknowledged(self, node_id: int) -> bool:
        """Whether the machine at the other end of an open connection answers when it is asked for a sign of life.

        One that knows nothing of the connection any more resets it.
        """
        connection, now = self._connections[node_id], self.network.world.now
        client, server = self.process, connection.machine.process
        if not connection.machine.machine_is_up:
            return False
        if max(self.network.cut_off(client, server), self.network.cut_off(server, client)) > 0:
            return False
        if max(connection.to_broker.blocked_until, connection.to_client.blocked_until) > now:
            return False
        if connection.broker_end is None:
            self.network.world.after(self.network.latency(), connection.lost_by_client, "Connection reset by peer")
        return True

    def is_send_in_progress(self, node_id: int) -> bool:
        """See `Selectable.is_send_in_progress`."""
        return node_id in self._sending

    def local_port(self, node_id: int) -> int:
        """See `Selectable.local_port`."""
        connection = self._connections.get(node_id)
        return 0 if connection is None else connection.port

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        """See `Selectable.set_max_receive_size`."""
        connection = self._connections.get(node_id)
        if connection is not None:
            connection.receive.max_size = size

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        """See `Selectable.send`."""
        assert self.is_channel_ready(node_id), "sent where there is no connection"
        assert node_id not in self._sending, "sent before the last one was gone"
        self._sending[node_id] = b"".join(buffers), expect_response

    def poll(self, timeout: float, now: float) -> float:
        """See `Selectable.poll`."""
        world = self.network.world
        self.connected = []
        self.disconnected = {}
        self.completed_sends = []
        self.completed_receives = []
        is_last_word = self._transmit()
        if not self.may_wait:
            pass
        elif timeout <= 0 or self._news or self._is_woken or is_last_word:
            # Work takes time, too: so that others run, and no thread can turn for ever in no time.
            world.sleep(0.00001 + world.random.random() * 0.00005)
        else:
            deadline = world.now + timeout
            self._polling = world.current()
            while not self._news and not self._is_woken and world.now < deadline:
                world.park(deadline)
            self._polling = None
        self._is_woken = False
        news, self._news = self._news, []
        for kind, connection, content in news:
            if self._connections.get(connection.node_id) is connection:
                self._deliver(kind, connection, content)
        return world.now

    def _transmit(self) -> bool:
        sending, self._sending = self._sending, {}
        is_last_word = False
        for node_id, (data, expect_response) in sending.items():
            connection = self._connections.get(node_id)
            if connection is not None:
                connection.to_broker.send(data)
                self.completed_sends.append(node_id)
                is_last_word |= not expect_response
        return is_last_word

    def _deliver(self, kind: str, connection: SimulatedConnection, content: Any) -> None:
        node_id = connection.node_id
        if kind == "connected":
            self.connected.append(node_id)
        elif kind == "lost":
            self._drop(node_id, str(content))
        else:
            try:
                self._read(connection, memoryview(content))
            except ProtocolError as problem:
                connection.close_by_client()
                self._drop(node_id, str(problem))

    def _read(self, connection: SimulatedConnection, data: memoryview) -> None:
        receive = connection.receive
        while len(data):
            buffer = receive.buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            for frame in receive.received(count):
                self.completed_receives.append((connection.node_id, frame))

    def _drop(self, node_id: int, reason: str) -> None:
        connection = self._connections.pop(node_id)
        self._sending.pop(node_id, None)
        self.disconnected[node_id] = Disconnection(reason, connection.address, was_connected=connection.is_open)

    def happened(self, kind: str, connection: SimulatedConnection, content: Any) -> None:
        """Something came from the network."""
        self._news.append((kind, connection, content))
        if self.process.is_dead:
            return
        if self.on_news is not None:
            self.on_news()
        if self._polling is not None:
            self.network.world.unpark(self._polling)

    def wakeup(self) -> None:
        """See `Selectable.wakeup`."""
        self._is_woken = True
        if self._polling is not None:
            self.network.world.unpark(self._polling)

    def close(self, node_id: int) -> None:
        """See `Selectable.close`."""
        connection = self._connections.pop(node_id, None)
        self._sending.pop(node_id, None)
        if connection is not None:
            connection.forget_sent()
            connection.close_by_client()

    def vanish(self) -> None:
        """Note that the machine has lost its power."""
        for connection in self._connections.values():
            connection.vanish()
        self._connections.clear()
        self._sending.clear()

    def close_all(self) -> None:
        """See `Selectable.close_all`."""
        for connection in self._connections.values():
            connection.close_by_client()
        self._connections.clear()
        self._sending.clear()
