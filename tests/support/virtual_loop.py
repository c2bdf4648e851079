"""An event loop on virtual time, and a broker in memory that the clients of barnabas.aio reach in it.

Nothing here touches a socket, a thread or the clock: a test is deterministic, and minutes are over at once.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from barnabas.aio.environment import LoopEnvironment
from barnabas.config.client_config import ClientConfig
from barnabas.network.selectable import Authentication, Buffer, Disconnection, Selectable
from barnabas.protocol.framing import FrameReader
from barnabas.records import read_batches
from tests.support.core_broker import CallingTransport, CoreBroker, batch, create, fetch, produce

T = TypeVar("T")

LATENCY = 0.001
"""Seconds that bytes travel, one way."""


class _Jump:
    """Instead of waiting, the time to wait has passed."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("Nothing will ever happen in this loop any more, and somebody waits")
        self._loop.now += timeout
        return []

    def close(self) -> None:
        return


class VirtualLoop(asyncio.BaseEventLoop):
    """Runs callbacks in their order; when there is nothing to do, time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0
        self._selector = _Jump(self)

    def time(self) -> float:
        return self.now

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


class VirtualBroker(CoreBroker):
    """A broker that lives in a virtual loop."""

    def __init__(self, loop: VirtualLoop, settings: dict[str, Any] | None = None) -> None:
        self.loop = loop
        self._timer: asyncio.TimerHandle | None = None
        # A record's own time is the real one, which may be far from this loop's.
        super().__init__({"log.message.timestamp.after.max.ms": str(2**63 - 1), **(settings or {})})
        self.links: list[_Link] = []
        self.clients = 0
        #: While True no byte gets through, in either direction.
        self.is_silent = False
        #: While True connections are refused.
        self.is_gone = False

    def catch_up(self) -> None:
        """Bring the broker to the loop's time, and have it woken at its next deadline."""
        self.advance(max(0.0, self.loop.time() - self.now))
        self.node.core.settle(self.instant)
        if self._timer is not None:
            self._timer.cancel()
        deadline = self.node.core.next_deadline()
        if deadline < float("inf"):
            self._timer = self.loop.call_later(max(0.0, deadline - self.loop.time()), self.catch_up)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic."""
        self.connect().request(create(topic, partitions, **configs), 7)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values of all records in a partition, in their order."""
        client = self.connect()
        found: list[bytes | None] = []
        offset = 0
        while True:
            records = client.request(fetch(topic, offset, partition), 11).responses[0].partitions[0].records
            batches = list(read_batches(records or b""))
            if not batches:
                return found
            found += [record.value for batch in batches if not batch.is_control for record in batch]
            offset = batches[-1].next_offset

    def append(self, topic: str, partition: int, *values: bytes) -> None:
        """Append records, in one batch."""
        self.catch_up()
        self.connect().request(produce(topic, batch(*values), partition), 9)
        self.catch_up()

    async def go_away(self, seconds: float) -> None:
        """Be gone for a while."""
        self.is_gone = True
        self.drop_connections()
        await asyncio.sleep(seconds)
        self.is_gone = False

    def drop_connections(self) -> None:
        """End all connections from the broker's side."""
        for link in list(self.links):
            link.break_off()


class _Link:
    """One connection between a port and the broker."""

    def __init__(self, port: VirtualPort, node_id: int) -> None:
        self._port = port
        self._broker = port.broker
        self._node_id = node_id
        self._reader = FrameReader(1 << 30)
        self.is_open = True
        # The client has closed it; what it had sent arrives all the same.
        self.is_left = False
        self._broker.catch_up()
        self._connection = self._broker.node.core.channel.connect(
            CallingTransport(self._take, self.break_off), "10.0.0.1", "PLAINTEXT", self._broker.now
        )
        self._broker.links.append(self)

    def deliver(self, data: bytes) -> None:
        if self.is_open and not self._broker.is_silent:
            self._broker.catch_up()
            self._connection.receive(data, self._broker.instant)
            self._broker.catch_up()

    def _take(self, buffers: Any) -> None:
        if not self._broker.is_silent:
            self._port.later(self._arrive, b"".join(bytes(buffer) for buffer in buffers))

    def _arrive(self, data: bytes) -> None:
        if not self.is_open or self.is_left:
            return
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self._port.arrived(self._node_id, frame)

    def break_off(self) -> None:
        if self.is_open:
            self.close()
            if not self.is_left:
                self._port.broken(self._node_id)

    def leave(self) -> None:
        """Be closed by the client: after what it has sent."""
        self.is_left = True
        self._broker.links.remove(self)
        if self._port.is_sending and not self._broker.loop.is_closed():
            self._port.later(self.close)
        else:
            self.close()

    def close(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        if not self.is_left:
            self._broker.links.remove(self)
        self._broker.node.core.channel.disconnected(self._connection)


class VirtualPort:
    """A `Selectable` whose connections end in a `VirtualBroker`; results are gathered until the next `poll`."""

    def __init__(self, broker: VirtualBroker) -> None:
        self.broker = broker
        self.connected: list[int] = []
        self.authentications: list[Authentication] = []
        self.disconnected: dict[int, Disconnection] = {}
        self.completed_sends: list[int] = []
        self.completed_receives: list[tuple[int, Buffer]] = []
        self.on_ready: Callable[[], object] | None = None
        self.is_closed = False
        self.polls = 0
        self._links: dict[int, _Link] = {}
        self._coming: tuple[list[int], dict[int, Disconnection], list[tuple[int, Buffer]]] = ([], {}, [])
        self._sending: dict[int, bytes] = {}
        self._travelling: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()

    def later(self, function: Callable[..., object], *arguments: Any) -> None:
        # Timers of the same moment have no order of their own, and bytes must not overtake each other.
        self._travelling.append((function, arguments))
        self.broker.loop.call_later(LATENCY, self._arrive_next)

    @property
    def is_sending(self) -> bool:
        """Whether bytes are on their way."""
        return bool(self._travelling)

    def _arrive_next(self) -> None:
        function, arguments = self._travelling.popleft()
        function(*arguments)

    def watch(self, on_ready: Callable[[], object]) -> Callable[[], None]:
        self.on_ready = on_ready
        if any(self._coming):
            self.broker.loop.call_soon(self._ready)
        return self._unwatch

    def _unwatch(self) -> None:
        self.on_ready = None

    def _ready(self) -> None:
        if self.on_ready is not None:
            self.on_ready()

    def connect(self, node_id: int, host: str, port: int, attempt: int) -> None:
        self.later(self._establish, node_id)

    def _establish(self, node_id: int) -> None:
        if self.broker.is_gone:
            self._coming[1][node_id] = Disconnection("Connection refused", "broker:9092", was_connected=False)
            self._ready()
        elif not self.is_closed:
            self._links[node_id] = _Link(self, node_id)
            self._coming[0].append(node_id)
            self._ready()

    def arrived(self, node_id: int, frame: Buffer) -> None:
        self._coming[2].append((node_id, frame))
        self._ready()

    def broken(self, node_id: int) -> None:
        self._links.pop(node_id, None)
        self._coming[1][node_id] = Disconnection("the peer closed the connection", "broker:9092", was_connected=True)
        self._ready()

    def is_channel_ready(self, node_id: int) -> bool:
        return node_id in self._links

    def is_send_in_progress(self, node_id: int) -> bool:
        return node_id in self._sending

    def send(self, node_id: int, buffers: Sequence[Buffer], *, expect_response: bool = True) -> None:
        self._sending[node_id] = b"".join(bytes(buffer) for buffer in buffers)

    def local_port(self, node_id: int) -> int:
        return 0

    def set_max_receive_size(self, node_id: int, size: int) -> None:
        return

    def poll(self, timeout: float, now: float) -> float:
        assert timeout == 0, "an event loop never waits here"
        self.polls += 1
        self.connected, self.disconnected, self.completed_receives = self._coming
        self._coming = ([], {}, [])
        sending, self._sending = self._sending, {}
        self.completed_sends = [node_id for node_id in sending if node_id in self._links]
        for node_id in self.completed_sends:
            self.later(self._links[node_id].deliver, sending[node_id])
        return now

    def wakeup(self) -> None:
        raise AssertionError("LoopPort wakes whoever waits")

    def close(self, node_id: int) -> None:
        link = self._links.pop(node_id, None)
        if link is not None:
            link.leave()

    def close_all(self) -> None:
        self.is_closed = True
        for node_id in list(self._links):
            self.close(node_id)


class VirtualEnvironment(LoopEnvironment):
    """What a client needs to live in a virtual loop."""

    def __init__(self, broker: VirtualBroker) -> None:
        broker.clients += 1
        super().__init__(Random(broker.clients))
        self.broker = broker
        self.ports: list[VirtualPort] = []

    def wall_clock_ms(self) -> int:
        return self.broker.now_ms

    def sockets(self, config: ClientConfig, client_id: str) -> Selectable:
        self.ports.append(VirtualPort(self.broker))
        return self.ports[-1]

    def watch(self, selector: Selectable, on_ready: Callable[[], object]) -> Callable[[], None]:
        assert isinstance(selector, VirtualPort)
        return selector.watch(on_ready)


class Interruptions:
    """Cancels calls at places where they wait: the first, the second, ... of all calls made through it.

    `when` is "waiting", when it has just begun to wait there, or "ready", when what it waits for has just come; for
    several places a dictionary tells of each.
    """

    def __init__(self, at: int | Mapping[int, str], when: str = "waiting") -> None:
        self._places = {at: when} if isinstance(at, int) else at
        self._place = 0
        self.struck = 0

    @property
    def has_struck(self) -> bool:
        """Whether any call was cancelled."""
        return self.struck > 0

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await the coroutine; raises `CancelledError` when it is cancelled here."""
        try:
            return await self._run(coroutine)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            raise

    @types.coroutine
    def _run(self, coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        waiting = coroutine.__await__()
        try:
            awaited = next(waiting)
            while True:
                self._place += 1
                when = self._places.get(self._place)
                if when is not None:
                    self._strike(awaited, when)
                try:
                    value = yield awaited
                except BaseException as error:  # noqa: BLE001  passed on as it is
                    awaited = waiting.throw(error)
                else:
                    awaited = waiting.send(value)
        except StopIteration as end:
            result: T = end.value
            return result

    def _strike(self, awaited: Any, when: str) -> None:
        self.struck += 1
        task = asyncio.current_task()
        assert task is not None
        if when == "ready" and awaited is not None:
            awaited.add_done_callback(lambda _: task.cancel())
        else:
            task.cancel()


def run(scenario: Callable[[VirtualBroker], Coroutine[Any, Any, T]], settings: dict[str, Any] | None = None) -> T:
    """Run a scenario in a loop of its own, with a broker of its own; fails when a callback of the loop failed."""
    loop = VirtualLoop()
    problems: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: problems.append(context))
    try:
        asyncio.set_event_loop(loop)
        broker = VirtualBroker(loop, settings)
        result = loop.run_until_complete(scenario(broker))
        loop.run_until_complete(loop.shutdown_asyncgens())
        assert not problems, problems
        return result
    finally:
        asyncio.set_event_loop(None)
        loop.close()
