"""Requests of clients that a broker has passed on (EnvelopeUtils, ForwardingManager; KIP-590)."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import errors
from barnabas.broker.controller.deferred import Deferred
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.framing import decode_request, encode_response
from barnabas.protocol.messages.default_principal_data import DefaultPrincipalData
from barnabas.protocol.messages.envelope_response import EnvelopeResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.message import Buffer, Message
    from barnabas.protocol.messages.envelope_request import EnvelopeRequest
    from barnabas.protocol.messages.request_header import RequestHeader

_SIZE = 4
_PRINCIPAL_VERSION = 0
#: What a client may ask of a controller by way of a broker; all else a broker answers, or asks in its own name.
FORWARDABLE = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)


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


def decode_principal(data: Buffer) -> str:
    """Read a principal as Kafka's default serde writes it. Raises `InvalidRequestError`, `ProtocolError`."""
    view = memoryview(data)
    if len(view) < 2 or int.from_bytes(view[:2], "big") != _PRINCIPAL_VERSION:
        raise errors.InvalidRequestError("The envelope's principal is not in a version that is known.")
    found = DefaultPrincipalData.decode(view[2:], _PRINCIPAL_VERSION)
    return f"{found.type}:{found.name}"


def says_not_controller(response: Any) -> bool:
    """Whether NOT_CONTROLLER stands for the whole, or for any part."""
    code = errors.NotControllerError.code
    if getattr(response, "error_code", None) == code:
        return True
    parts = next((getattr(response, name) for name in _PARTS if hasattr(response, name)), ())
    return any(getattr(part, "error_code", None) == code for part in parts or ())


_PARTS = ("topics", "responses", "results", "entries", "filter_results")
