"""The requests that were sent and are not answered yet, by node."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Collection

    from barnabas.network.client_request import ClientRequest


class InFlightRequest:
    """A sent request: its `version` and when it went out. An internal one is the NetworkClient's own.

    `kept_for` is for how many seconds the broker may keep it by design; `awaited_since` is when its answer became the
    next one that the node owes. A Metadata request that `is_given_up` was sent to another node, too.
    """

    __slots__ = ("awaited_since", "is_given_up", "is_internal", "kept_for", "request", "sent_at", "version")

    def __init__(
        self, request: ClientRequest, version: int, is_internal: bool, sent_at: float, kept_for: float = 0.0
    ) -> None:
        self.request = request
        self.version = version
        self.is_internal = is_internal
        self.sent_at = sent_at
        self.kept_for = kept_for
        self.awaited_since = sent_at
        self.is_given_up = False


class InFlightRequests:
    """A queue for each node: requests join at the end and are answered from the front, in the order they were sent."""

    __slots__ = ("_queues", "max_per_connection")

    def __init__(self, max_per_connection: int) -> None:
        self.max_per_connection = max_per_connection
        self._queues: dict[int, deque[InFlightRequest]] = {}

    def add(self, in_flight: InFlightRequest) -> None:
        """Take note of a request that is about to be sent."""
        queue = self._queues.get(in_flight.request.destination)
        if queue is None:
            queue = self._queues[in_flight.request.destination] = deque()
        queue.append(in_flight)

    def complete_next(self, node_id: int, now: float) -> InFlightRequest:
        """Remove the oldest request of a node: the one that a response answers."""
        queue = self._queue(node_id)
        answered = queue.popleft()
        if queue:
            queue[0].awaited_since = now
        return answered

    def complete_last_sent(self, node_id: int) -> InFlightRequest:
        """Remove the newest request of a node: the one whose sending has just been completed."""
        return self._queue(node_id).pop()

    def last_sent(self, node_id: int) -> InFlightRequest:
        """Return the newest request of a node."""
        return self._queue(node_id)[-1]

    def first(self, node_id: int) -> InFlightRequest | None:
        """Return the oldest request of a node, if there is one."""
        queue = self._queues.get(node_id)
        return queue[0] if queue else None

    def firsts(self) -> list[InFlightRequest]:
        """Return the oldest request of each node that has one."""
        return [queue[0] for queue in self._queues.values() if queue]

    def of_node(self, node_id: int) -> Collection[InFlightRequest]:
        """Return the requests of a node, oldest first."""
        return self._queues.get(node_id, ())

    def _queue(self, node_id: int) -> deque[InFlightRequest]:
        queue = self._queues.get(node_id)
        if not queue:
            raise IllegalStateError(f"there are no in-flight requests for node {node_id}")
        return queue

    def has_room(self, node_id: int) -> bool:
        """Whether one more request may be in flight to a node."""
        queue = self._queues.get(node_id)
        return queue is None or len(queue) < self.max_per_connection

    def count(self, node_id: int | None = None) -> int:
        """How many requests are in flight, to a node or to all."""
        if node_id is None:
            # Counted anew: an interruption between a queue and a counter beside it would leave the two apart.
            return sum(map(len, self._queues.values()))
        return len(self._queues.get(node_id, ()))

    def clear_all(self, node_id: int) -> list[InFlightRequest]:
        """Remove all requests of a node, oldest first."""
        queue = self._queues.pop(node_id, None)
        if queue is None:
            return []
        return list(queue)

    def drain(self) -> list[InFlightRequest]:
        """Remove all requests of all nodes."""
        return [in_flight for node_id in list(self._queues) for in_flight in self.clear_all(node_id)]

    def nodes_with_timed_out_requests(self, now: float) -> list[int]:
        """Return the nodes with a request that has waited for its answer longer than its timeout."""
        # Loops, not comprehensions: a client asks with every turn, and mostly one request is there.
        overdue = []
        for node_id, queue in self._queues.items():
            for in_flight in queue:
                if in_flight.sent_at + in_flight.request.timeout <= now:
                    overdue.append(node_id)
                    break
        return overdue

    def time_to_next_timeout(self, now: float) -> float:
        """Seconds until the first request in flight times out; infinite when there is none."""
        earliest = inf
        for queue in self._queues.values():
            for in_flight in queue:
                times_out_at = in_flight.sent_at + in_flight.request.timeout
                if times_out_at < earliest:
                    earliest = times_out_at
        return earliest - now
