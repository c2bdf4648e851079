"""A client's requests on their way between processes: at the client, at the brokers, and in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import TYPE_CHECKING

from barnabas.anatomy import events
from barnabas.anatomy.picture import Box, Facts, Lane, Picture, lane, picture
from barnabas.anatomy.scenes.scene import LAST

if TYPE_CHECKING:
    from barnabas.anatomy.events import Event

_OfClient = events.RequestUnsent | events.RequestInFlight | events.RequestAnswered
_OfBroker = events.RequestReceived | events.RequestParked | events.ResponseSent


class Place(IntEnum):
    """Where a request is; it never goes back."""

    UNSENT = 0
    LEFT = 1
    HANDLED = 2
    PARKED = 3
    ANSWERED = 4
    PENDING = 5
    OVER = 6


_PLACES: dict[type[Event], Place] = {
    events.RequestUnsent: Place.UNSENT, events.RequestInFlight: Place.LEFT, events.RequestReceived: Place.HANDLED,
    events.RequestParked: Place.PARKED, events.ResponseSent: Place.ANSWERED,
}  # fmt: skip
_KINDS = {
    Place.UNSENT: "waiting", Place.LEFT: "moving", Place.HANDLED: "open", Place.PARKED: "waiting",
    Place.ANSWERED: "moving", Place.PENDING: "done", Place.OVER: "good",
}  # fmt: skip


class _Request:
    """One request: `core` is 0 where only a broker has told of it, `broker` -1 where only the client has."""

    def __init__(self, number: int, api: str, correlation: int) -> None:
        self.number = number
        self.api = api
        self.correlation = correlation
        self.core = self.port = self.size = 0
        self.broker = -1
        self.answer = -1
        self.error = ""
        self.place = Place.UNSENT
        #: Whether its future is completed by a poll of its own, as ConsumerNetworkClient does.
        self.is_awaited = False

    def box(self) -> Box:
        facts: Facts = {"correlation": self.correlation}
        if self.port:
            facts["port"] = self.port
        if self.broker >= 0:
            facts["broker"] = self.broker
        if self.size:
            facts["size"] = self.size
        if self.answer >= 0:
            facts["answer"] = self.answer
        if self.error:
            facts["error"] = self.error
        kind = "bad" if self.error else _KINDS[self.place]
        return Box(f"request {self.number}", self.api, kind, facts)


class ExchangeScene:
    """The requests of one client, by its client id.

    What client and broker tell is joined by the correlation id and the client's port, which both see. Where a proxy
    stands between them there is no such port, and each side is shown for itself.
    """

    def __init__(self, subject: str) -> None:
        self._client = subject
        self._requests = 0
        self._of_core: dict[tuple[int, int], _Request] = {}
        self._of_port: dict[tuple[int, int], _Request] = {}
        self._over: deque[_Request] = deque(maxlen=LAST)
        # Ports of which the client has told: what a broker tells of them later than the client is of no use any more.
        self._known: set[int] = set()
        self._brokers: set[int] = set()

    @staticmethod
    def subject_of(event: Event) -> str | None:
        """Return the client's id."""
        return event.client if isinstance(event, events.RequestInFlight | events.RequestReceived) else None

    def apply(self, event: Event) -> bool:
        """See `Scene`."""
        if isinstance(event, events.ConnectionEnded):
            return self._end_connection(event)
        if isinstance(event, events.RequestCompleted):
            return event.client == self._client and self._complete(event.core, event.correlation)
        if not isinstance(event, _OfClient | _OfBroker) or event.client != self._client:
            return False
        if isinstance(event, _OfBroker):
            return self._apply_at_broker(event)
        self._apply_at_client(event)
        return True

    def _new(self, event: events.RequestUnsent | events.RequestInFlight | _OfBroker) -> _Request:
        self._requests += 1
        return _Request(self._requests, event.api, event.correlation)

    def _apply_at_client(self, event: _OfClient) -> None:
        key = event.core, event.correlation
        if isinstance(event, events.RequestAnswered):
            self._answer(key, event.error)
            return
        request = self._of_core.get(key)
        if isinstance(event, events.RequestInFlight):
            if request is None and event.port:
                request = self._of_port.get((event.port, event.correlation))
            request = request or self._new(event)
            request.port, request.size = event.port, event.size
            if event.port:
                self._known.add(event.port)
                self._of_port[event.port, event.correlation] = request
        elif request is None:
            request = self._new(event)
            request.is_awaited = True
        request.core = event.core
        self._of_core[key] = request
        request.place = max(request.place, _PLACES[type(event)])

    def _apply_at_broker(self, event: _OfBroker) -> bool:
        self._brokers.add(event.broker)
        key = event.port, event.correlation
        request = self._of_port.get(key)
        if request is None:
            if event.port in self._known:
                return False
            request = self._of_port[key] = self._new(event)
            request.port = event.port
        request.broker = event.broker
        request.place = max(request.place, _PLACES[type(event)])
        if isinstance(event, events.RequestReceived):
            request.size = event.size
        elif isinstance(event, events.ResponseSent):
            request.answer = event.size
            if event.port not in self._known:
                self._finish(request)
        return True

    def _answer(self, key: tuple[int, int], error: str) -> None:
        request = self._of_core.get(key)
        if request is None:
            return
        request.error = error
        if request.is_awaited:
            request.place = Place.PENDING
        else:
            self._finish(request)

    def _complete(self, core: int, correlation: int) -> bool:
        request = self._of_core.get((core, correlation))
        if request is not None:
            self._finish(request)
        return request is not None

    def _finish(self, request: _Request) -> None:
        request.place = Place.OVER
        self._of_core.pop((request.core, request.correlation), None)
        self._of_port.pop((request.port, request.correlation), None)
        self._over.appendleft(request)

    def _end_connection(self, event: events.ConnectionEnded) -> bool:
        """Drop what was on the way there: a client that has closed the connection itself tells nothing of it."""
        # The port may be that of another connection from now on.
        self._known.discard(event.port)
        lost = [one for one in self._of_port.values() if one.port == event.port]
        for request in lost:
            if request.place < Place.ANSWERED:
                request.error = "the connection has ended"
            self._finish(request)
        return bool(lost)

    def picture(self) -> Picture:
        """See `Scene`."""
        live = list({id(one): one for one in [*self._of_core.values(), *self._of_port.values()]}.values())

        def at(place: Place, broker: int | None = None) -> Iterator[Box]:
            return (one.box() for one in live if one.place == place and broker in (None, one.broker))

        return picture(
            (
                lane("exchange_unsent", at(Place.UNSENT)),
                lane("exchange_left", at(Place.LEFT)),
                *(
                    shown
                    for broker in sorted(self._brokers)
                    for shown in (
                        lane("exchange_handled", at(Place.HANDLED, broker), broker=broker),
                        lane("exchange_parked", at(Place.PARKED, broker), broker=broker),
                    )
                ),
                lane("exchange_answered", at(Place.ANSWERED)),
                lane("exchange_pending", at(Place.PENDING)),
                self._ended(),
            )
        )

    def _ended(self) -> Lane:
        return lane("exchange_over", (one.box() for one in self._over))
