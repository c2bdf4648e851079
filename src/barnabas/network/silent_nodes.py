"""Which nodes have been silent for longer than a broker that lives mostly is, and when to look for them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.network.cluster_connection_states import ClusterConnectionStates
    from barnabas.network.in_flight_requests import InFlightRequests
    from barnabas.protocol.message import Message

#: Seconds without an answer, or without a connection, after which a node counts as silent.
PATIENCE: Final = 1.0

#: Requests that a broker keeps for a while by design, with the field that says for how many milliseconds.
_KEPT_FOR: Final = {
    int(ApiKey.FETCH): "max_wait_ms",
    int(ApiKey.SHARE_FETCH): "max_wait_ms",
    int(ApiKey.JOIN_GROUP): "rebalance_timeout_ms",
}


def kept_for(message: Message) -> float:
    """Return the seconds for which a broker may keep a request by what it says itself."""
    field = _KEPT_FOR.get(message.API_KEY)
    return 0.0 if field is None else max(getattr(message, field) / 1000, 0.0)


class SilentNodes:
    """Nodes that owe an answer, or a connection, for longer than `PATIENCE`. Seconds; `now` is monotonic.

    A node is silent since it was last waited for anew: a slow one that answers one request after the other is not,
    however long the last of them waits. One that a request, or a connection, was waited for until its time-out is
    silent with the next attempt to connect at once, until something comes from it.
    """

    def __init__(self, in_flight: InFlightRequests, states: ClusterConnectionStates, *, is_watched: bool) -> None:
        self._in_flight = in_flight
        self._states = states
        self._is_watched = is_watched
        self._unheard: set[int] = set()
        #: When to `look`: never before one can be silent; never at all where the client cannot ask.
        self.next_look = inf

    def expect(self, now: float) -> None:
        """Take note that something was sent."""
        self.look_at(now + PATIENCE)

    def expect_connection(self, node_id: int, now: float) -> None:
        """Take note that a connection was begun."""
        self.look_at(now + self._patience_to_connect(node_id))

    def timed_out(self, node_id: int) -> None:
        """Take note that the node was left after a time-out."""
        self._unheard.add(node_id)

    def heard(self, node_id: int) -> None:
        """Take note of a sign of life: its system took a connection, or ended one."""
        self._unheard.discard(node_id)

    def look_at(self, when: float) -> None:
        """Have it looked then at the latest."""
        if when < self.next_look and self._is_watched:
            self.next_look = when

    def look(self, now: float) -> list[tuple[int, float]]:
        """Return the silent nodes, each with the time since which it is waited for."""
        silent = []
        self.next_look = inf
        for node_id, since, patience in self._waited_for():
            if since + patience <= now:
                silent.append((node_id, since))
            else:
                self.look_at(since + patience)
        return silent

    def is_silent(self, node_id: int, now: float) -> bool:
        """Whether the node is silent now."""
        first = self._in_flight.first(node_id)
        if first is not None:
            return first.awaited_since + PATIENCE + first.kept_for <= now
        if not self._states.is_connecting(node_id):
            return False
        return self._states.last_attempt(node_id) + self._patience_to_connect(node_id) <= now

    def _waited_for(self) -> Iterator[tuple[int, float, float]]:
        for first in self._in_flight.firsts():
            yield first.request.destination, first.awaited_since, PATIENCE + first.kept_for
        for node_id in self._states.nodes_connecting():
            yield node_id, self._states.last_attempt(node_id), self._patience_to_connect(node_id)

    def _patience_to_connect(self, node_id: int) -> float:
        return 0.0 if node_id in self._unheard else PATIENCE
