"""A fetcher's requests on their way to its leader, whose address the metadata tell (BrokerBlockingSender)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.instant import Instant
    from barnabas.broker.replication.replica_fetcher import ReplicaFetcher
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message


class LeaderRequests:
    """A fetcher with its leader as a `Requester`; nothing is asked while the leader's address is not known."""

    __slots__ = ("_fetcher", "_leader")

    def __init__(self, fetcher: ReplicaFetcher, leader: Callable[[], Node | None]) -> None:
        self._fetcher = fetcher
        self._leader = leader

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """See `Requester`."""
        leader = self._leader()
        request = None if leader is None else self._fetcher.next_request(now)
        return None if leader is None or request is None else (leader, request)

    def receive(self, response: Message, now: Instant) -> None:
        """See `Requester`."""
        self._fetcher.receive(response, now)

    def disconnected(self, now: float) -> None:
        """See `Requester`."""
        self._fetcher.disconnected(now)

    def next_deadline(self) -> float:
        """See `Requester`."""
        return inf if self._leader() is None else self._fetcher.next_deadline()
