"""Requests and responses as they travel: a size of four bytes, a header, a message.

Source: https://kafka.apache.org/protocol (Request/Response headers), KIP-511 (ApiVersions with an unknown version).
"""

from __future__ import annotations

from barnabas.errors import IllegalArgumentError, ProtocolError, UnsupportedVersionError
from barnabas.protocol.api import request_class, request_header_version, response_class, response_header_version
from barnabas.protocol.api_keys import MODULES, ApiKey
from barnabas.protocol.codec import Decoder, Encoder
from barnabas.protocol.messages.request_header import RequestHeader
from barnabas.protocol.messages.response_header import ResponseHeader
from barnabas.protocol.plan import plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from barnabas.protocol.message import Buffer, Message

__all__ = [
    "FrameReader",
    "RequestHeader",
    "ResponseHeader",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode_elements",
    "encode_request",
    "encode_request_parts",
    "encode_response",
    "is_supported",
    "response_version",
]

_SIZE = 4
_WORTH_KEEPING = 64 * 1024


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a whole request: size, header, message. Raises as `Message.encode` does."""
    encoder = Encoder()
    _write_request(encoder, message, version, correlation_id, client_id)
    return encoder.sized()


def encode_request_parts(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return a whole request as buffers to be sent in turn: large records are not copied. Else as `encode_request`."""
    encoder = Encoder(split=True)
    _write_request(encoder, message, version, correlation_id, client_id)
    return encoder.sized_parts()


def encode_response(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return a response as buffers: the first starts with the size, large records are not copied.

    Raises as `Message.encode` does.
    """
    header_version = response_header_version(message.API_KEY, version)
    encoder = Encoder(split=True)
    encoder.int32(0)
    encoder.message(plan_of(ResponseHeader, header_version), ResponseHeader(correlation_id))
    encoder.message(plan_of(type(message), version), message)
    return encoder.sized_parts()


def _write_request(
    encoder: Encoder, message: Message, version: int, correlation_id: int, client_id: str | None
) -> None:
    key = message.API_KEY
    header = RequestHeader(key, version, correlation_id, client_id)
    encoder.int32(0)
    encoder.message(plan_of(RequestHeader, request_header_version(key, version)), header)
    encoder.message(plan_of(type(message), version), message)


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Return the header at the start of a request's frame (without the size), and where the message starts.

    Raises `ProtocolError` for malformed bytes and for an API key that is not known.
    """
    view = memoryview(frame)
    if len(view) < _SIZE:
        raise ProtocolError(
            f"RequestHeader at byte 0: {_SIZE} bytes are needed for key and version, {len(view)} are left"
        )
    key = int.from_bytes(view[:2], "big", signed=True)
    version = int.from_bytes(view[2:4], "big", signed=True)
    if key not in MODULES:
        raise ProtocolError(f"RequestHeader.request_api_key at byte 0: there is no API with the key {key}")
    plan = plan_of(RequestHeader, request_header_version(key, version))
    decoder = Decoder(view, 0, -1)
    header: RequestHeader = decoder.message(plan)
    return header, decoder.offset()


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Return the header and the message of a request's frame (without the size).

    An ApiVersions request of a version that is not known is read as an empty one, for it must be answered
    (`is_supported` tells, `response_version` says in which version). Raises `ProtocolError` for everything malformed,
    for an unknown API key, and for any other unknown version.
    """
    header, start = decode_request_header(frame)
    cls = request_class(header.request_api_key)
    if not is_supported(header):
        if header.request_api_key == ApiKey.API_VERSIONS:
            return header, cls()
        version, (low, high) = header.request_api_version, cls.VALID_VERSIONS
        known = f"its versions are {low} to {high}"
        raise ProtocolError(
            f"RequestHeader.request_api_version at byte 2: {cls.NAME} has no version {version}; {known}"
        )
    return header, _decode(cls, header.request_api_version, frame, start)


def encode_elements(elements: Iterable[Any], message: type[Message], path: str, version: int) -> bytes:
    """Return the bytes of elements of an array field of structs, as they stand in a message of that version.

    `path` names the field from the message on: `"topics"`, or `"topics.partitions"`. Raises as `Message.encode` does.
    """
    plan = plan_of(message, version)
    for name in path.split("."):
        plan = next(field.element.plan for field in plan.all_fields if field.name == name)
    encoder = Encoder()
    for element in elements:
        encoder.message(plan, element)
    return encoder.joined()


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Message]:
    """Return the correlation id and the message of a response's frame (without the size).

    An ApiVersions response in version 0 is also recognised when a later version was asked for: a broker that does not
    know the version answers so, with the error UNSUPPORTED_VERSION (KIP-511). Raises `ProtocolError` for malformed
    bytes, `UnsupportedVersionError` for a version that does not exist.
    """
    cls = response_class(api_key)
    plan_of(cls, version)
    decoder = Decoder(frame, 0, -1)
    header: ResponseHeader = decoder.message(plan_of(ResponseHeader, response_header_version(api_key, version)))
    start = decoder.offset()
    try:
        return header.correlation_id, _decode(cls, version, frame, start)
    except ProtocolError:
        if api_key != ApiKey.API_VERSIONS or version == 0 or not _says_unsupported(frame, start):
            raise
    return header.correlation_id, _decode(cls, 0, frame, start)


def is_supported(header: RequestHeader) -> bool:
    """Whether the request's version of its API is known."""
    low, high = request_class(header.request_api_key).VALID_VERSIONS
    return low <= header.request_api_version <= high


def response_version(header: RequestHeader) -> int:
    """Return the version to answer in: the request's, but 0 for ApiVersions of an unknown version (KIP-511)."""
    return header.request_api_version if is_supported(header) else 0


def _says_unsupported(frame: Buffer, start: int) -> bool:
    code = int.from_bytes(memoryview(frame)[start : start + 2], "big", signed=True)
    return code == UnsupportedVersionError.code


def _decode(cls: type[Message], version: int, frame: Buffer, start: int) -> Message:
    plan = plan_of(cls, version)
    decoder = Decoder(frame, start, -1)
    message: Message = decoder.message(plan)
    decoder.finish(plan)
    return message


class FrameReader:
    """Cuts a stream of bytes into frames. A frame that was handed out owns its memory and stays valid.

    `max_size` bounds what a size may announce (`socket.request.max.bytes` of a broker); memory grows with what has
    really come, never with what was announced.
    """

    __slots__ = ("_buffer", "_max_size", "_start")

    def __init__(self, max_size: int) -> None:
        if max_size < 0:
            raise IllegalArgumentError(f"max_size is {max_size}; it must not be negative")
        self._max_size = max_size
        self._buffer = bytearray()
        self._start = 0

    @property
    def pending(self) -> int:
        """How many bytes have come that no frame has been made of yet."""
        return len(self._buffer) - self._start

    def feed(self, data: Buffer) -> None:
        """Take bytes as they came from the connection."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next_frame(self) -> memoryview | None:
        """Return the next frame without its size, or None until more has come.

        Raises `ProtocolError` for a size that is negative or above the limit; the connection cannot go on then.
        """
        start = self._start + _SIZE
        if len(self._buffer) < start:
            return None
        size = int.from_bytes(self._buffer[self._start : start], "big", signed=True)
        if not 0 <= size <= self._max_size:
            raise ProtocolError(f"A frame announces {size} bytes; 0 to {self._max_size} are allowed")
        end = start + size
        if len(self._buffer) < end:
            return None
        if end == len(self._buffer) or size >= _WORTH_KEEPING:
            # The frame takes the buffer with it, and what follows moves: the frame itself is not copied.
            frame = memoryview(self._buffer)[start:end]
            self._buffer = self._buffer[end:]
            self._start = 0
        else:
            frame = memoryview(bytes(memoryview(self._buffer)[start:end]))
            self._start = end
        return frame
