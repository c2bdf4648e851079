"""A connection on which an application speaks the protocol by itself, as other people's clients do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.protocol.framing import decode_response, encode_request
from barnabas.testing.simulator.broker import HOST, PORT

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.testing.simulator.network import Network

_NODE = 0


class LostError(Exception):
    """The connection ended, or no answer came in time: what was asked for may have been done, or not."""


class RawConnection:
    """Sends one request after the other, and waits for each answer."""

    def __init__(self, network: Network, client_id: str) -> None:
        self._world = network.world
        self._selector = network.selector()
        self._client_id = client_id
        self._asked = 0

    def call(self, message: Message, version: int, timeout: float = 5.0) -> Any:
        """Return the response. Raises `LostError`."""
        give_up_at = self._world.now + timeout
        selector = self._selector
        if not selector.is_channel_ready(_NODE):
            selector.connect(_NODE, HOST, PORT)
            while not selector.is_channel_ready(_NODE):
                self._poll(give_up_at)
        self._asked += 1
        selector.send(_NODE, [encode_request(message, version, self._asked, self._client_id)])
        while True:
            self._poll(give_up_at)
            for _, frame in selector.completed_receives:
                return decode_response(message.API_KEY, version, frame)[1]

    def _poll(self, give_up_at: float) -> None:
        now = self._world.now
        if now >= give_up_at:
            self._selector.close(_NODE)
            raise LostError("no answer came in time")
        self._selector.poll(give_up_at - now, now)
        lost = self._selector.disconnected.get(_NODE)
        if lost is not None:
            raise LostError(lost.reason)

    def close(self) -> None:
        """End the connection."""
        self._selector.close_all()
