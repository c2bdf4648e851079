"""Messages of every type and version: they decode, or that is a ProtocolError; what decodes encodes to its equal.

The first two bytes of an input choose type and version. Responses are decoded as a client does, with their header.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from barnabas.errors import ProtocolError
from barnabas.protocol.api import message_class, response_header_version
from barnabas.protocol.framing import decode_response
from barnabas.protocol.message import Message
from tests.vectors.message_vectors import message_vectors


class _Kind(NamedTuple):
    message: type[Message]
    version: int


@cache
def _kinds() -> list[_Kind]:
    found = sorted({(vector.message, vector.version) for vector in message_vectors()})
    return [_Kind(message_class(name), version) for name, version in found]


def run(data: bytes) -> None:
    """See the module."""
    kinds = _kinds()
    kind = kinds[int.from_bytes(data[:2], "big") % len(kinds)]
    try:
        message = _decode(kind, data[2:])
    except ProtocolError:
        return
    again = kind.message.decode(message.encode(kind.version), kind.version)
    # Not a number is not even equal to itself.
    assert again == message or "nan" in repr(message), f"{message} became {again}"


def _decode(kind: _Kind, data: bytes) -> Message:
    if kind.message.NAME.endswith("Response") and kind.message.API_KEY is not None:
        return decode_response(kind.message.API_KEY, kind.version, data)[1]
    return kind.message.decode(data, kind.version)


def seeds() -> list[bytes]:
    """All the vectors of Kafka's own classes."""
    numbers = {(kind.message.NAME, kind.version): number for number, kind in enumerate(_kinds())}
    found = []
    for vector in message_vectors():
        kind = _kinds()[numbers[vector.message, vector.version]]
        header = b""
        if vector.message.endswith("Response") and kind.message.API_KEY is not None:
            header = b"\0\0\0\1" + b"\0" * response_header_version(kind.message.API_KEY, vector.version)
        found.append(numbers[vector.message, vector.version].to_bytes(2, "big") + header + vector.data)
    return found
