"""Elements of an array that are encoded before the message they belong to."""

from __future__ import annotations

from collections.abc import Iterator


class EncodedElements:
    """Stands in the place of a list, in a message that is to be encoded in the same version.

    A large response is made so: a piece at a time, of which only the bytes stay. `framing.encode_elements` makes parts.
    """

    __slots__ = ("_count", "parts", "size_in_bytes")

    def __init__(self) -> None:
        self._count = 0
        self.parts: list[bytes] = []
        self.size_in_bytes = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[object]:
        """Nothing: there are only bytes. For those who look through the messages that are sent."""
        return iter(())

    def add(self, part: bytes, count: int) -> None:
        """Let `count` more elements follow, whose bytes are `part`."""
        assert count > 0
        assert len(part) > 0
        self.parts.append(part)
        self.size_in_bytes += len(part)
        self._count += count
