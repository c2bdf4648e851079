"""Finds the group's coordinator, and forgets it when it turns out to be gone."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final

from barnabas.client.consumer.membership.group_requests import find_coordinator
from barnabas.errors import (
    NONE,
    CoordinatorNotAvailableError,
    DisconnectError,
    GroupAuthorizationError,
    KafkaError,
    NotCoordinatorError,
    for_code,
)
from barnabas.network.node import Node

if TYPE_CHECKING:
    from barnabas.client.consumer.consumer_network_client import ConsumerNetworkClient
    from barnabas.network.client_request import ClientResponse

_COORDINATOR_MOVED: Final = frozenset({CoordinatorNotAvailableError.code, NotCoordinatorError.code})


class CoordinatorLookup:
    """Knows which broker is the coordinator of the group. Belongs to the membership core."""

    def __init__(self, client: ConsumerNetworkClient, group_id: str, backoff: Callable[[int], float]) -> None:
        self._client = client
        self._group_id = group_id
        self._backoff = backoff
        self._coordinator: Node | None = None
        self._in_flight = False
        self._attempts = 0
        self._retry_at = 0.0
        self.on_found: Callable[[float], None] = lambda now: None
        self.on_fatal: Callable[[KafkaError], None] = lambda error: None
        client.on_torn.append(self.begin_anew)

    def begin_anew(self) -> None:
        """Forget the coordinator, and the look-up in flight."""
        self._coordinator = None
        self._in_flight = False
        self._retry_at = 0.0

    def coordinator(self, now: float) -> Node | None:
        """Return the coordinator, if it is known and can be reached."""
        node = self._coordinator
        if node is not None and self._client.is_unavailable(node, now):
            self.mark_unknown()
            return None
        return node

    def ensure(self, now: float) -> Node | None:
        """Return the coordinator; while it is not known, None, and the look-up is in progress."""
        node = self.coordinator(now)
        if node is None and not self._in_flight and now >= self._retry_at:
            self._look_up(now)
        return node

    def time_to_retry(self, now: float) -> float:
        """Seconds until `ensure` has something to do."""
        if self._coordinator is not None or self._in_flight:
            return inf
        return max(0.0, self._retry_at - now)

    def mark_unknown(self, *, disconnect: bool = False) -> None:
        """Forget the coordinator, and with `disconnect` drop everything that is on its way to it."""
        node, self._coordinator = self._coordinator, None
        if node is not None and disconnect:
            self._client.disconnect(node)

    def note_error(self, error: KafkaError) -> None:
        """Forget the coordinator if this error says that it is another broker by now, or gone."""
        if error.code in _COORDINATOR_MOVED:
            self.mark_unknown(disconnect=True)
        elif isinstance(error, DisconnectError):
            self.mark_unknown()

    def _look_up(self, now: float) -> None:
        node = self._client.client.least_loaded_node(now)
        if node is None:
            self._on_failed(now)
            return
        self._in_flight = True
        future = self._client.send(node, find_coordinator(self._group_id), now)
        future.add_listener(self._on_answered, lambda error: self._on_refused(error, self._client.now))

    def _on_answered(self, response: ClientResponse) -> None:
        message = response.message
        found = message.coordinators[0] if message.coordinators else message
        if found.error_code != NONE:
            self._on_refused(self._error_of(found.error_code, found.error_message), response.received_at)
            return
        self._in_flight = False
        self._attempts = 0
        self._coordinator = Node(found.node_id, found.host, found.port)
        self.on_found(response.received_at)

    def _error_of(self, code: int, message: str | None) -> KafkaError:
        if code == GroupAuthorizationError.code:
            return GroupAuthorizationError(f"Not authorized to read in group {self._group_id!r}")
        return for_code(code, message)

    def _on_refused(self, error: KafkaError, now: float) -> None:
        self._on_failed(now)
        if not error.retriable:
            self.on_fatal(error)

    def _on_failed(self, now: float) -> None:
        self._in_flight = False
        self._retry_at = now + self._backoff(self._attempts)
        self._attempts += 1
