"""Requests of the controller to brokers: for each broker a queue, in order, each until answered."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.network.node import Node

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.requester import Requester
    from barnabas.broker.zookeeper.controller.controller_context import LiveBroker
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


class BrokerRequests:
    """What one broker is told; a `Requester`. Brokers take a request that comes twice for what it is: by its epochs."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queue: deque[_Queued] = deque()
        self._delayed_until = -inf

    def submit(self, request: Message, answered: Callable[[Message], None]) -> None:
        """Line a request up."""
        self._queue.append(_Queued(request, answered))

    def next_deadline(self) -> float:
        """See `Requester`."""
        return self._delayed_until if self._queue else inf

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        if not self._queue or now < self._delayed_until:
            return None
        return self._node, self._queue[0].request

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._delayed_until = now + _BACKOFF

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        self._queue.popleft().answered(response)


class ControllerChannelManager:
    """The queues to all registered brokers; `listener` is the one that brokers are reached by."""

    def __init__(self, channels: OpenChannels, listener: str, report: Callable[[str], None]) -> None:
        self._channels = channels
        self._listener = listener
        self._report = report
        self._brokers: dict[int, BrokerRequests] = {}

    def add(self, broker: LiveBroker) -> None:
        """Be ready to tell a broker something."""
        endpoint = broker.listeners.get(self._listener)
        if endpoint is None:
            self._report(f"broker {broker.id} has no listener {self._listener}: the controller cannot reach it")
            return
        requests = BrokerRequests(Node(broker.id, endpoint.host, endpoint.port, broker.rack))
        self._brokers[broker.id] = requests
        self._channels.open_to_broker(requests, requests, "controller")

    def remove(self, broker_id: int) -> None:
        """Tell a broker nothing more, not even what waits."""
        requests = self._brokers.pop(broker_id, None)
        if requests is not None:
            self._channels.close(requests)

    def send(self, broker_id: int, request: Message, answered: Callable[[Message], None]) -> None:
        """Tell a broker; one that is not registered is left out."""
        requests = self._brokers.get(broker_id)
        if requests is not None:
            requests.submit(request, answered)
            self._channels.wake(requests)

    def close(self) -> None:
        """Tell no broker anything any more."""
        for broker_id in list(self._brokers):
            self.remove(broker_id)
