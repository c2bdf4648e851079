"""The request with which a member leaves its group: sent, lost, said again."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import KafkaError, UnsupportedVersionError

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.client.consumer.membership.coordinator_lookup import CoordinatorLookup
    from barnabas.network.client_request import RequestBuilder
    from barnabas.network.node import Node


class Farewell:
    """Brings a LeaveGroup, or the heartbeat that leaves, to the coordinator. Belongs to the membership core.

    Each is sent once: the coordinator puts a member out when its session is over. Two are sent again: one that an
    unforeseen error kept from the network, and the last one of a core that failed (`repeat`), whose connections are
    closed.
    """

    def __init__(self, client: ConsumerNetworkClient, lookup: CoordinatorLookup) -> None:
        self._client = client
        self._lookup = lookup
        # The last request that is not answered yet, and how many there are.
        self._unanswered: RequestBuilder | None = None
        self._in_flight = 0
        # One that waits for the coordinator to be found.
        self._homeless: RequestBuilder | None = None
        # One that waits for a new connection to a node.
        self._late: tuple[Node, RequestBuilder] | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing more has to be said before the connection is closed."""
        return self._in_flight == 0

    def send(self, node: Node, request: RequestBuilder, now: float) -> None:
        """Send it to the coordinator."""
        self._note(request)
        self._client.send(node, request, now).add_listener(self._on_answered, self._on_lost)

    def send_on_new_connection(self, node: Node, request: RequestBuilder) -> None:
        """Close the connection, since the broker reads nothing behind a request that waits there, and send it then."""
        self._note(request)
        self._client.disconnect(node)
        self._late = node, request

    def repeat(self, request: RequestBuilder | None) -> None:
        """Send this as soon as the coordinator is found; None for what was in flight when connections were closed."""
        if request is not None:
            self._unanswered = request
        self._late = None
        self._homeless = self._unanswered
        self._in_flight = 0 if self._unanswered is None else 1

    def tick(self, now: float) -> None:
        """Send what has waited and can go."""
        if self._homeless is not None and (node := self._lookup.ensure(now)) is not None:
            request, self._homeless = self._homeless, None
            self._client.send(node, request, now).add_listener(self._on_answered, self._on_answered)
        if self._late is not None and not self._client.is_unavailable(self._late[0], now):
            (node, request), self._late = self._late, None
            self._client.send(node, request, now).add_listener(self._on_answered, self._on_lost)

    def time_to_next_tick(self, now: float) -> float:
        """Seconds until `tick` has something to do, answers apart."""
        if self._homeless is not None:
            return 0.0 if self._lookup.coordinator(now) is not None else self._lookup.time_to_retry(now)
        if self._late is not None:
            return self._client.client.connection_delay(self._late[0], now)
        return inf

    def _note(self, request: RequestBuilder) -> None:
        self._in_flight += 1
        self._unanswered = request

    def _on_answered(self, _outcome: object) -> None:
        # With any answer the membership is over.
        self._in_flight -= 1
        self._unanswered = None

    def _on_lost(self, error: KafkaError) -> None:
        if error.retriable or isinstance(error, UnsupportedVersionError):
            self._in_flight -= 1
        else:
            # An unforeseen error kept the request from being sent.
            self._homeless = self._unanswered
