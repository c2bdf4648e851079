"""A connection on which an application speaks the protocol by itself, as other people's clients do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas import errors
from barnabas.protocol.framing import decode_response, encode_request
from barnabas.protocol.kinds import CoordinatorType
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.testing.simulator.broker import HOST, PORT

if TYPE_CHECKING:
    from barnabas.protocol.message import Message
    from barnabas.testing.simulator.network import Network

_NODE = 0
_FIND_VERSION = 4
_NOT_HERE = (errors.NotCoordinatorError.code, errors.CoordinatorNotAvailableError.code)


class LostError(Exception):
    """The connection ended, or no answer came in time: what was asked for may have been done, or not."""


class RawConnection:
    """Sends one request after the other, and waits for each answer.

    Of several brokers it asks the coordinator of a group.
    """

    def __init__(self, network: Network, client_id: str, group: str) -> None:
        self._world = network.world
        self._selector = network.selector()
        self._client_id = client_id
        self._group = group
        self._asked = 0
        self._is_alone = len(network.names[HOST]) == 1
        self._is_found = False

    def call(self, message: Message, version: int, timeout: float = 5.0) -> Any:
        """Return the response. Raises `LostError`."""
        give_up_at = self._world.now + timeout
        if not self._is_alone and not (self._is_found and self._selector.is_channel_ready(_NODE)):
            self._find(give_up_at)
        answer = self._call(message, version, give_up_at)
        if getattr(answer, "error_code", errors.NONE) in _NOT_HERE:
            self._is_found = False
        return answer

    def _find(self, give_up_at: float) -> None:
        """Connect to the group's coordinator."""
        self._is_found = False
        self._selector.close(_NODE)
        request = FindCoordinatorRequest(key_type=CoordinatorType.GROUP, coordinator_keys=[self._group])
        found = self._call(request, _FIND_VERSION, give_up_at).coordinators[0]
        self._selector.close(_NODE)
        if found.error_code:
            raise LostError(f"no coordinator is known: {errors.for_code(found.error_code)}")
        self._connect(found.host, found.port, give_up_at)
        self._is_found = True

    def _connect(self, host: str, port: int, give_up_at: float) -> None:
        self._selector.connect(_NODE, host, port)
        while not self._selector.is_channel_ready(_NODE):
            self._poll(give_up_at)

    def _call(self, message: Message, version: int, give_up_at: float) -> Any:
        selector = self._selector
        if not selector.is_channel_ready(_NODE):
            self._connect(HOST, PORT, give_up_at)
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
