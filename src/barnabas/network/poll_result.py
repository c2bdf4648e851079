"""What one `NetworkClient.poll` brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import DisconnectError
from barnabas.network.client_request import ClientResponse
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.errors import KafkaError
    from barnabas.network.in_flight_requests import InFlightRequest
    from barnabas.protocol.message import Message


class PollResult:
    """The time of a poll, and the responses for its callers in the order in which they came."""

    __slots__ = ("now", "responses")

    def __init__(self, now: float) -> None:
        self.now = now
        self.responses: list[ClientResponse] = []

    def answer(self, in_flight: InFlightRequest, message: Message | None) -> None:
        """Add an answer."""
        self.responses.append(
            ClientResponse(in_flight.request, self.now, message=message, api_version=in_flight.version)
        )

    def fail(self, in_flight: InFlightRequest, error: KafkaError, *, timed_out: bool = False) -> None:
        """Add the end of a connection on which an answer was waited for."""
        self.responses.append(
            ClientResponse(
                in_flight.request,
                self.now,
                error=error,
                disconnected=True,
                timed_out=timed_out,
                api_version=in_flight.version,
            )
        )

    def lost(self, in_flight: InFlightRequest, reason: str) -> DisconnectError:
        """Return what to say of a request whose connection ended for this reason."""
        request = in_flight.request
        return DisconnectError(
            f"the connection to node {request.destination} ended before it answered the "
            f"{ApiKey(request.api_key).name} request (sent {self.now - in_flight.sent_at:.3f} s ago): {reason}"
        )
