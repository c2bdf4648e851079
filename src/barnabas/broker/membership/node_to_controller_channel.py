"""Requests to the active controller, one after the other, until each is answered (NodeToControllerChannelManager)."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message


def _never() -> None:
    return


class ControllerRequest(NamedTuple):
    """What is asked for: `make` makes the message each time that it is sent, `done` gets the response.

    `give_up` is called in its place when `give_up_at` (monotonic seconds) has come without one, or `done` has raised:
    who waits is told then, and a second answer is ignored.
    """

    make: Callable[[], Message]
    done: Callable[[Message, Instant], None]
    give_up_at: float = inf
    give_up: Callable[[], None] = _never


class ControllerRequests:
    """A queue of requests to whichever controller is active; a `Requester`.

    A request is sent again when the controller was not reached, or is not the active one any more; so it may be carried
    out twice, and it is for who asks to make that harmless. `wake` is called when there is something to send.
    """

    def __init__(self, controller: Callable[[], Node | None], *, backoff: float = 0.05) -> None:
        self._controller = controller
        self._backoff = backoff
        self._queue: deque[ControllerRequest] = deque()
        self._delayed_until = -inf
        self.wake: Callable[[], None] = _never

    def submit(self, request: ControllerRequest) -> None:
        """Line a request up."""
        self._queue.append(request)
        self.wake()

    def next_deadline(self) -> float:
        """See `Requester`."""
        give_up_at = min((request.give_up_at for request in self._queue), default=inf)
        return min(give_up_at, self._delayed_until) if self._controller() is not None and self._queue else give_up_at

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        for request in [request for request in self._queue if request.give_up_at <= now]:
            self._queue.remove(request)
            request.give_up()
        controller = self._controller()
        if not self._queue or controller is None or now < self._delayed_until:
            return None
        return controller, self._queue[0].make()

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._delayed_until = now + self._backoff

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        code = getattr(response, "error_code", errors.NONE)
        if code:
            self._delayed_until = now.now + self._backoff
        if code == errors.NotControllerError.code:
            return
        request = self._queue.popleft()
        try:
            request.done(response, now)
        except Exception:
            request.give_up()
            raise
