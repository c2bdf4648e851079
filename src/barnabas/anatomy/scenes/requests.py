"""The requests of one client, from unsent to completed: what the producer's and the consumer's scenes share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Lane, lane

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event


class _Request(NamedTuple):
    core: int
    node: int
    api: str
    correlation: int
    error: str = ""

    def box(self, kind: str) -> Box:
        facts: Facts = {"node": self.node, "correlation": self.correlation}
        if self.error:
            facts["error"] = self.error
        return Box(f"request {self.core}/{self.correlation}", self.api, kind, facts)


class Requests:
    """`unsent`, `inFlightRequests` and `pendingCompletion` of each of a client's NetworkClients."""

    def __init__(self, client: str, *, is_consumer: bool = False) -> None:
        self._client = client
        self._is_consumer = is_consumer
        self._unsent: dict[tuple[int, int], _Request] = {}
        self._in_flight: dict[tuple[int, int], _Request] = {}
        # Those of ConsumerNetworkClient only: the others are told of their answers at once.
        self._awaited: set[tuple[int, int]] = set()
        self._pending: dict[tuple[int, int], _Request] = {}
        self._connected: dict[tuple[int, int], bool] = {}
        self._cores: dict[int, None] = {}

    def apply(self, event: Event) -> bool:
        """Take an event in; False if it is no request or connection of this client."""
        if not isinstance(event, _OF_REQUESTS) or event.client != self._client:
            return False
        self._cores[event.core] = None
        if isinstance(event, events.NodeConnected | events.NodeDisconnected):
            self._connected[event.core, event.node] = isinstance(event, events.NodeConnected)
            return True
        key = event.core, event.correlation
        if isinstance(event, events.RequestCompleted):
            self._awaited.discard(key)
            self._unsent.pop(key, None)
            self._pending.pop(key, None)
            return True
        request = _Request(event.core, event.node, event.api, event.correlation)
        if isinstance(event, events.RequestUnsent):
            self._awaited.add(key)
            self._unsent[key] = request
        elif isinstance(event, events.RequestInFlight):
            self._unsent.pop(key, None)
            self._in_flight[key] = request
        else:
            self._answered(key, request._replace(error=event.error))
        return True

    def _answered(self, key: tuple[int, int], request: _Request) -> None:
        self._in_flight.pop(key, None)
        if key in self._awaited:
            self._pending[key] = request

    def in_flight(self, node: int, api: str) -> bool:
        """Whether a request of this API is in flight to a node."""
        return any(request.node == node and request.api == api for request in self._in_flight.values())

    def lanes(self) -> Iterator[Lane]:
        """Show each NetworkClient's queues, in the order of a request's way."""
        cores = sorted(self._cores)
        for place, core in enumerate(cores, 1):
            of = {"core": place, "cores": len(cores)}
            if self._is_consumer:
                yield lane("unsent", _boxes(self._unsent, core, "waiting"), **of)
            yield lane("in_flight", _boxes(self._in_flight, core, "moving"), **of)
            if self._is_consumer:
                yield lane("pending_completion", _boxes(self._pending, core, "done"), **of)
        yield lane("nodes", self._nodes(cores))

    def _nodes(self, cores: list[int]) -> Iterator[Box]:
        for (core, node), is_connected in sorted(self._connected.items()):
            kind = "good" if is_connected else "bad"
            yield Box(f"node {core}/{node}", str(node), kind, {"core": cores.index(core) + 1})


def _boxes(requests: dict[tuple[int, int], _Request], core: int, kind: str) -> Iterator[Box]:
    return (request.box("bad" if request.error else kind) for request in requests.values() if request.core == core)


_OF_REQUESTS = (
    events.RequestUnsent
    | events.RequestInFlight
    | events.RequestAnswered
    | events.RequestCompleted
    | events.NodeConnected
    | events.NodeDisconnected
)
