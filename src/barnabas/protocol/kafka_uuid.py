"""Kafka's uuids: 16 bytes, written as 22 characters of base64url without padding.

Source: KIP-516; the behaviour of Kafka's class `Uuid`.
"""

from __future__ import annotations

from barnabas.errors import IllegalArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class RandomSource(Protocol):
        """What uuids are drawn from: `random.Random` has it."""

        def getrandbits(self, k: int, /) -> int:
            """Return a random integer of `k` bits."""


ZERO_UUID = bytes(16)
"""Stands for "no id"; the default of every uuid in a message."""

ONE = bytes(15) + b"\x01"
"""Reserved by Kafka for its metadata topic."""


def to_text(uuid: bytes) -> str:
    """16 bytes as Kafka writes them; `IllegalArgumentError` for another number of bytes."""
    from base64 import urlsafe_b64encode

    if len(uuid) != 16:
        raise IllegalArgumentError(f"A uuid has 16 bytes, not {len(uuid)}")
    return urlsafe_b64encode(uuid).rstrip(b"=").decode()


def from_text(text: str) -> bytes:
    """Return the 16 bytes of a uuid as Kafka writes it; `IllegalArgumentError` for anything else."""
    from base64 import urlsafe_b64decode
    from binascii import Error as Base64Error

    try:
        uuid = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        uuid = b""
    if len(uuid) != 16 or to_text(uuid) != text.rstrip("="):
        raise IllegalArgumentError(f"{text!r} is not a uuid as Kafka writes it: 22 characters of base64url")
    return uuid


def random_uuid(source: RandomSource) -> bytes:
    """Return a random uuid (RFC 9562, version 4), never a reserved one and never one whose text starts with a dash.

    A dash at the start would make the text look like an option on a command line.
    """
    while True:
        number = source.getrandbits(128)
        number = number & ~(0xF << 76) | (4 << 76)
        number = number & ~(0x3 << 62) | (0x2 << 62)
        uuid = number.to_bytes(16, "big")
        if not to_text(uuid).startswith("-"):
            return uuid
