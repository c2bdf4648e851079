"""Inputs that consist of pieces: a length of two bytes before each, the last one takes what is left."""

from __future__ import annotations

from collections.abc import Iterable


def split(data: bytes, most: int) -> list[bytes]:
    """At most `most` pieces of an input of any kind."""
    found = []
    position = 0
    while position + 2 < len(data) and len(found) < most:
        size = int.from_bytes(data[position : position + 2], "big")
        found.append(data[position + 2 : position + 2 + size])
        position += 2 + size
    return found


def join(pieces: Iterable[bytes]) -> bytes:
    """Return the input that consists of these pieces."""
    return b"".join(len(piece).to_bytes(2, "big") + piece for piece in pieces)
