"""Requests of clients that a broker has passed on (EnvelopeUtils, ForwardingManager; KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.controller.deferred import Deferred
from barnabas.broker.envelope import FORWARDABLE, decode_principal
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.messages.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.message import Message
    from barnabas.protocol.messages.envelope_request import EnvelopeRequest
    from barnabas.protocol.messages.request_header import RequestHeader

_SIZE = 4


class ForwardedRequest(NamedTuple):
    """A client's request, and who sent it from where."""

    header: RequestHeader
    principal: str
    client_host: str
    message: Message


def handle_envelope(
    answer: Callable[[ForwardedRequest], Deferred[Message]], envelope: EnvelopeRequest
) -> Deferred[EnvelopeResponse]:
    """Answer the request within an envelope in the name of the client who sent it.

    What cannot be read or passed on is INVALID_REQUEST of the envelope; NOT_CONTROLLER within is told outside, so that
    the broker looks for the new controller and the client hears nothing of it.
    """
    try:
        principal = decode_principal(envelope.request_principal or b"")
        client_host = str(ip_address(bytes(envelope.client_host_address)))
        header, request = decode_request(envelope.request_data)
    except (errors.ProtocolError, errors.InvalidRequestError, ValueError):
        return Deferred.of(EnvelopeResponse(error_code=errors.InvalidRequestError.code))
    if header.request_api_key not in FORWARDABLE:
        return Deferred.of(EnvelopeResponse(error_code=errors.InvalidRequestError.code))
    version = header.request_api_version

    def wrapped(response: Message) -> EnvelopeResponse:
        if says_not_controller(response):
            return EnvelopeResponse(error_code=errors.NotControllerError.code)
        data = b"".join(bytes(part) for part in encode_response(response, version, header.correlation_id))
        return EnvelopeResponse(response_data=data[_SIZE:])

    return answer(ForwardedRequest(header, principal, client_host, request)).map(wrapped)


def says_not_controller(response: Message) -> bool:
    """Whether NOT_CONTROLLER stands for the whole, or for any part."""
    code = errors.NotControllerError.code
    if getattr(response, "error_code", None) == code:
        return True
    parts = next((getattr(response, name) for name in _PARTS if hasattr(response, name)), ())
    return any(getattr(part, "error_code", None) == code for part in parts or ())


_PARTS = ("topics", "responses", "results", "entries", "filter_results")
