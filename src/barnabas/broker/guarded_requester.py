"""A requester of which a fault of this program costs one request, not the way to its node."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.broker.faults import OnFault
    from barnabas.broker.instant import Instant
    from barnabas.broker.requester import Requester
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message

#: How long a requester is left alone after it has failed, in seconds.
_REST = 0.1


class GuardedRequester:
    """Passes on what a `Requester` is asked and told.

    Where it raises it is told that no response will come (`disconnected`), so that what it waits for is asked for
    again, or given up; it is asked again after a moment. `tell` gets what was being done, and what was raised.
    """

    __slots__ = ("_requester", "_rests_until", "_tell")

    def __init__(self, requester: Requester, tell: OnFault) -> None:
        self._requester = requester
        self._tell = tell
        self._rests_until = -inf

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        if now < self._rests_until:
            return None
        try:
            return self._requester.next_request(now)
        except Exception as problem:  # noqa: BLE001 - of one requester only
            self._failed("making a request", problem, now)
            return None

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        try:
            self._requester.receive(response, now)
        except Exception as problem:  # noqa: BLE001 - as above
            self._failed(f"taking in a {type(response).NAME}", problem, now.now)

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        try:
            self._requester.disconnected(now)
        except Exception as problem:  # noqa: BLE001 - as above
            self._rests_until = now + _REST
            self._report("taking note of a lost request", problem)

    def next_deadline(self) -> float:
        """See `Requester`."""
        try:
            due = self._requester.next_deadline()
        except Exception as problem:  # noqa: BLE001 - as above
            self._report("looking at the time", problem)
            due = -inf
        return max(due, self._rests_until)

    def _failed(self, what: str, problem: Exception, now: float) -> None:
        self._rests_until = now + _REST
        self._report(what, problem)
        self.disconnected(now)

    def _report(self, what: str, problem: Exception) -> None:
        self._tell(f"{what}, in {type(self._requester).__name__}", problem)
