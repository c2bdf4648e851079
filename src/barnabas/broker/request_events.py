"""What a node tells of requests, where something listens (`barnabas.anatomy`): taken up, parked, answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.errors import ProtocolError
from barnabas.protocol.api import ApiKey
from barnabas.protocol.framing import decode_request_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

    from barnabas.broker.request_context import Connection, RequestContext

_Whose = tuple[int, str, int, str, int]


def tell_received(recorder: anatomy.Recorder, node: int, connection: Connection, frame: memoryview) -> None:
    """Tell that a request is taken up; not of bytes that are none."""
    whose = _of_frame(node, connection, frame)
    if whose is not None:
        recorder.record(anatomy.events.RequestReceived(*whose, len(frame)))


def tell_answered_at_once(
    recorder: anatomy.Recorder, node: int, connection: Connection, frame: memoryview, answer: bytes
) -> None:
    """Tell that a shortcut has answered the request in a frame."""
    whose = _of_frame(node, connection, frame)
    if whose is not None:
        recorder.record(anatomy.events.ResponseSent(*whose, len(answer)))


def tell_parked(recorder: anatomy.Recorder, node: int, context: RequestContext) -> None:
    """Tell that a request waits in the purgatory."""
    recorder.record(anatomy.events.RequestParked(*_of_context(node, context)))


def tell_sent(recorder: anatomy.Recorder, node: int, context: RequestContext, buffers: Iterable[Sized]) -> None:
    """Tell that the response of a request is made; no buffers: the client wants none."""
    recorder.record(anatomy.events.ResponseSent(*_of_context(node, context), sum(map(len, buffers))))


def _of_frame(node: int, connection: Connection, frame: memoryview) -> _Whose | None:
    try:
        header, _ = decode_request_header(frame)
        api = ApiKey(header.request_api_key).name
    except (ProtocolError, ValueError):
        return None
    return node, header.client_id or "", connection.client_port, api, header.correlation_id


def _of_context(node: int, context: RequestContext) -> _Whose:
    api = ApiKey(context.api_key).name
    return node, context.client_id or "", context.connection.client_port, api, context.correlation_id
