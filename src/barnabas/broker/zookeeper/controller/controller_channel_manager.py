"""Requests of the controller to brokers: for each broker a queue, in order, each until answered."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.broker.zookeeper.controller.broker_lifelines import Life
from barnabas.network.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.requester import Requester
    from barnabas.broker.zookeeper.controller.broker_lifelines import BrokerLifelines
    from barnabas.broker.zookeeper.controller.controller_context import LiveBroker
    from barnabas.broker.zookeeper.controller.controller_stats import ControllerStats
    from barnabas.protocol.message import Message

#: How long a broker that was not reached is left alone, in seconds.
_BACKOFF = 0.1


class OpenChannels(Protocol):
    """Opens and closes ways to brokers."""

    def open_to_broker(self, key: object, requester: Requester, name: str) -> None:
        """Give a requester its way, under the name of a client."""

    def close(self, key: object) -> None:
        """Take it away: what is in flight is not answered any more."""

    def wake(self, key: object) -> None:
        """Have the requester asked soon."""


class _Queued(NamedTuple):
    request: Message
    answered: Callable[[Message], None]
    since: float
    is_question: bool


class BrokerRequests:
    """What one broker is told; a `Requester`. Brokers take a request that comes twice for what it is: by its epochs.

    A question changes nothing there: one that was not answered does not hold up what is to be told.

    `failed` is called when an answer was lost by a fault of this program.
    """

    def __init__(self, node: Node, stats: ControllerStats, failed: Callable[[], None] = lambda: None) -> None:
        self.node = node
        self._stats = stats
        self._failed = failed
        self._is_sent = False
        self._queue: deque[_Queued] = deque()
        self._delayed_until = -inf

    def submit(self, request: Message, answered: Callable[[Message], None], *, is_question: bool = False) -> None:
        """Line a request up."""
        self._queue.append(_Queued(request, answered, self._stats.now(), is_question))

    def next_deadline(self) -> float:
        """See `Requester`."""
        return self._delayed_until if self._queue else inf

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        if not self._queue or now < self._delayed_until:
            return None
        if not self._is_sent:
            self._is_sent = True
            self._stats.request_waited(self.node.id, self._queue[0].since)
        return self.node, self._queue[0].request

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._delayed_until = now + _BACKOFF
        if self._queue and self._queue[0].is_question:
            self._queue.rotate(-1)
            self._is_sent = False

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        self._is_sent = False
        try:
            self._queue.popleft().answered(response)
        except Exception:
            # What waits for this answer gets no other one.
            self._failed()
            raise

    @property
    def waiting(self) -> int:
        """How many requests are not answered yet."""
        return len(self._queue)

    @property
    def unanswered(self) -> list[Message]:
        """The requests that are not answered yet; the first may have been taken."""
        return [queued.request for queued in self._queue]


class _Channel(NamedTuple):
    requests: BrokerRequests
    life: Life | None


class ControllerChannelManager:
    """The queues to all registered brokers, and their lifelines; `listener` is the one that brokers are reached by."""

    def __init__(
        self,
        channels: OpenChannels,
        lifelines: BrokerLifelines,
        listener: str,
        report: Callable[[str], None],
        stats: ControllerStats,
        failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._stats, self._failed = stats, failed
        stats.request_queues = lambda: {number: one.requests.waiting for number, one in self._brokers.items()}
        self._channels = channels
        self._lifelines = lifelines
        self._listener = listener
        self._report = report
        self._brokers: dict[int, _Channel] = {}

    def add(self, broker: LiveBroker, *, is_ended: bool = False) -> None:
        """Be ready to tell a broker something; its lifeline is held unless its process has ended."""
        endpoint = broker.listeners.get(self._listener)
        if endpoint is None:
            self._report(f"broker {broker.id} has no listener {self._listener}: the controller cannot reach it")
            return
        node = Node(broker.id, endpoint.host, endpoint.port, broker.rack)
        requests = BrokerRequests(node, self._stats, self._failed)
        life = None if is_ended else Life(broker.id, broker.epoch, endpoint.host, endpoint.port)
        # First the way, which `send` takes it to have.
        self._channels.open_to_broker(requests, requests, "controller")
        self._brokers[broker.id] = _Channel(requests, life)
        if life is not None:
            self._lifelines.watch(life)

    def move(self, broker: LiveBroker) -> None:
        """Tell a broker at another address what is to be told."""
        channel, endpoint = self._brokers.get(broker.id), broker.listeners.get(self._listener)
        if channel is None or endpoint is None or channel.life is None:
            self.remove(broker.id)
            self.add(broker)
            return
        self._lifelines.forget(channel.life)
        life = Life(broker.id, broker.epoch, endpoint.host, endpoint.port)
        self._lifelines.watch(life)
        channel.requests.node = Node(broker.id, endpoint.host, endpoint.port, broker.rack)
        self._brokers[broker.id] = channel._replace(life=life)
        self._channels.wake(channel.requests)

    def remove(self, broker_id: int) -> list[Message]:
        """Tell a broker nothing more, not even what waits; returns what it has not answered."""
        channel = self._brokers.pop(broker_id, None)
        if channel is None:
            return []
        self._channels.close(channel.requests)
        if channel.life is not None:
            self._lifelines.forget(channel.life)
        return channel.requests.unanswered

    def send(self, broker_id: int, request: Message, answered: Callable[[Message], None]) -> None:
        """Tell a broker; one that is not registered is left out."""
        self._submit(broker_id, request, answered, is_question=False)

    def ask(self, broker_id: int, request: Message, answered: Callable[[Message], None]) -> None:
        """Ask a broker, behind what it is to be told; one that is not registered is left out."""
        self._submit(broker_id, request, answered, is_question=True)

    def _submit(
        self, broker_id: int, request: Message, answered: Callable[[Message], None], *, is_question: bool
    ) -> None:
        channel = self._brokers.get(broker_id)
        if channel is not None:
            channel.requests.submit(request, answered, is_question=is_question)
            self._channels.wake(channel.requests)

    def holds(self, life: Life) -> bool:
        """Whether the lifeline of a life is held for what a broker is to be told."""
        channel = self._brokers.get(life.id)
        return channel is not None and channel.life == life

    def close(self) -> None:
        """Tell no broker anything any more."""
        for broker_id in list(self._brokers):
            self.remove(broker_id)
