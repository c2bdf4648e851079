"""The port of what asks other nodes: a state machine that a channel drives (Requester)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.broker.instant import Instant
    from barnabas.network.node import Node
    from barnabas.protocol.message import Message


class Requester(Protocol):
    """A state machine that asks other nodes, one request at a time; it is told what comes of each."""

    def next_request(self, now: float) -> tuple[Node, Message] | None:
        """Return the next request and where it goes; None while nothing is due. Not asked while one is in flight."""

    def receive(self, response: Message, now: Instant) -> None:
        """Take in the response."""

    def disconnected(self, now: float) -> None:
        """Take note that no response will come: the node cannot be reached, is gone, or does not answer in time."""

    def next_deadline(self) -> float:
        """When `next_request` may give something that it does not give now."""
