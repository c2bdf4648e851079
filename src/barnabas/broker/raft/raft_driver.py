"""Drives a node of the quorum on an event loop: its time, its requests to others, and the responses it owes.

What touches the loop comes in: `open_channel` gives a way to one node (`NodeChannel`), `call_at` is the loop's, and
`storage` has threads that wait for the disk.
"""

from __future__ import annotations

from itertools import count
from math import inf
from typing import TYPE_CHECKING, Protocol

from barnabas.broker.raft.replica import InboundRequest, OutboundRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.raft.kafka_raft_client import KafkaRaftClient
    from barnabas.broker.storage_threads import Storage, Work
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message


class Channel(Protocol):
    """A way to other nodes, for one request at a time (`NodeChannel`)."""

    def start(self) -> None:
        """Begin."""

    def wake(self) -> None:
        """Ask for the next request soon."""

    def close(self) -> None:
        """End all connections."""


class Timer(Protocol):
    """What `call_at` gives."""

    def cancel(self) -> None:
        """Do not call."""


class Destination:
    """The requests to one node; a `Requester`. A newer one takes the place of one that is not sent yet."""

    __slots__ = ("_asked", "_driver", "_next")

    def __init__(self, driver: RaftDriver) -> None:
        self._driver = driver
        self._next: OutboundRequest | None = None
        self._asked: OutboundRequest | None = None

    def put(self, request: OutboundRequest) -> None:
        """Have a request sent."""
        self._next = request

    def next_deadline(self) -> float:
        """See `Requester`."""
        return -inf if self._next is not None else inf

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        self._asked, self._next = self._next, None
        return None if self._asked is None else (self._asked.destination, self._asked.message)

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        self._ended(response)

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._ended(None)

    def _ended(self, response: Message | None) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            self._driver.answered(asked, response)


class _WithTurns:
    """The storage; each piece of work that is done has a turn of the quorum behind it."""

    __slots__ = ("_driver", "_storage")

    def __init__(self, storage: Storage, driver: RaftDriver) -> None:
        self._storage = storage
        self._driver = driver

    def submit(self, work: Work, done: Work) -> None:
        """See `Storage`."""
        self._storage.submit(work, lambda: self._driver.work_done(done))

    def drain(self) -> None:
        """See `Storage`."""
        self._storage.drain()


class RaftDriver:
    """Keeps a `KafkaRaftClient` going.

    What is raised in a turn is the end of this node: `on_failure` is called with it once, and nothing more is done.
    """

    def __init__(
        self,
        raft: KafkaRaftClient,
        open_channel: Callable[[Destination], Channel],
        call_at: Callable[[float, Callable[[], None]], Timer],
        clocks: Callable[[], Instant],
        on_failure: Callable[[Exception], None],
        storage: Storage,
    ) -> None:
        self.raft = raft
        raft.replica.disk.storage = _WithTurns(storage, self)
        self._open_channel = open_channel
        self._call_at = call_at
        self._clocks = clocks
        self._on_failure = on_failure
        self._destinations: dict[int, tuple[Destination, Channel]] = {}
        self._request_ids = count(1)
        self._waiting: dict[int, Callable[[Message], None]] = {}
        self._timer: Timer | None = None
        #: Called after each turn: responses may have gone to who waited, and listeners have other deadlines.
        self.on_turn: Callable[[], None] = lambda: None
        #: Why this node takes no more part.
        self.problem: Exception | None = None
        self._is_closed = self._has_turn = False

    def start(self) -> None:
        """Begin with what the disk says, in the running loop."""
        self._do(lambda: self.raft.initialize(self._clocks()))

    def handle_request(self, message: Message, listener: str, respond: Callable[[Message], None]) -> int:
        """Treat a request, and call `respond` with its response, now or later; the number that `forget` takes."""
        request_id = next(self._request_ids)
        self._waiting[request_id] = respond
        self._do(lambda: self.raft.handle_request(InboundRequest(request_id, message, listener), self._clocks()))
        return request_id

    def forget(self, request_id: int) -> None:
        """Drop the response to a request: its connection is gone."""
        self._waiting.pop(request_id, None)

    def answered(self, request: OutboundRequest, response: Message | None) -> None:
        """Take a response, or that there is none."""
        source = request.destination.id
        self._do(lambda: self.raft.handle_response(source, request.correlation_id, response, self._clocks()))

    def turn(self) -> None:
        """Do what is due: after an append, a snapshot, or a call to resign."""
        self._do(lambda: None)

    def work_done(self, done: Callable[[], None]) -> None:
        """Go on after work of the disk; where it was done at once, the turn that asked for it goes on."""
        if self._has_turn:
            done()
        else:
            self._do(done)

    def close(self) -> None:
        """End all connections; what the disk is at comes to its end, and nothing follows from it."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for _, channel in self._destinations.values():
            channel.close()

    def _do(self, action: Callable[[], None]) -> None:
        if self.problem is not None or self._is_closed:
            return
        self._has_turn = True
        try:
            action()
            now = self._clocks()
            wake = self.raft.poll(now)
            if wake <= now.now:
                wake = self.raft.poll(now)
            self._send()
            self._wake_at(wake)
            self.on_turn()
        except Exception as problem:  # noqa: BLE001 - nothing may follow a fault
            self.problem = problem
            self.close()
            self._on_failure(problem)
        finally:
            self._has_turn = False

    def _send(self) -> None:
        for one in self.raft.take_outbound():
            if isinstance(one, OutboundRequest):
                self._send_to(one)
            else:
                respond = self._waiting.pop(one.request_id, None)
                if respond is not None:
                    respond(one.message)

    def _send_to(self, request: OutboundRequest) -> None:
        found = self._destinations.get(request.destination.id)
        if found is None:
            destination = Destination(self)
            found = self._destinations[request.destination.id] = destination, self._open_channel(destination)
            found[1].start()
        found[0].put(request)
        found[1].wake()

    def _wake_at(self, wake: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake < inf:
            self._timer = self._call_at(wake, self.turn)
