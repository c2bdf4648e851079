"""Reads DER, the encoding of certificates and keys: as much as key stores and names need (ITU-T X.690)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

SEQUENCE, SET, OCTET_STRING, OBJECT_IDENTIFIER = 0x30, 0x31, 0x04, 0x06
#: The longest length field that anything here can need.
_LENGTH_BYTES = 4


class Element(NamedTuple):
    """One element: its tag, its content, and all of it as it was encoded."""

    tag: int
    content: bytes
    encoded: bytes

    def elements(self) -> Iterator[Element]:
        """Return what stands in it. Raises ValueError when that is not DER."""
        position = 0
        while position < len(self.content):
            found = parse(self.content, position)
            yield found
            position += len(found.encoded)


def parse(data: bytes, start: int = 0) -> Element:
    """Return the element that begins at `start`. Raises ValueError when there is none, or it is cut."""
    header = data[start : start + 2]
    if len(header) < 2:
        raise ValueError("it is cut in the middle of an element")
    position, length = start + 2, header[1]
    if length >= 0x80:
        count = length & 0x7F
        if not 1 <= count <= _LENGTH_BYTES or position + count > len(data):
            raise ValueError("it has a length that makes no sense")
        length = int.from_bytes(data[position : position + count], "big")
        position += count
    if position + length > len(data):
        raise ValueError("it is cut in the middle of an element")
    return Element(header[0], data[position : position + length], data[start : position + length])


def object_identifier(content: bytes) -> str:
    """Return an object identifier with dots. Raises ValueError when it is cut."""
    arcs, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    if not arcs or content[-1] & 0x80:
        raise ValueError("it has an object identifier that is cut")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))
