"""The base classes of all generated messages."""

from __future__ import annotations

from barnabas.protocol.buffer import Buffer as Buffer
from barnabas.protocol.codec import Decoder, Encoder
from barnabas.protocol.kafka_uuid import ZERO_UUID as ZERO_UUID
from barnabas.protocol.plan import plan_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self

NEW: Any = ...
"""As an argument's default: a new list, or a new struct with its own defaults."""

HIDDEN = frozenset({"auth_bytes", "hmac", "salted_password", "server_key", "stored_key"})
"""Fields that prove an identity, and are never shown."""


class Struct:
    """A part of a message. `unknown_tagged_fields` maps tags that the schema lacks to their bytes, or is None."""

    __slots__ = ("unknown_tagged_fields",)

    FIELDS: ClassVar[tuple[str, ...]] = ()
    unknown_tagged_fields: dict[int, bytes] | None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        names = self.__slots__
        if (self.unknown_tagged_fields or None) != (other.unknown_tagged_fields or None):
            return False
        return all(getattr(self, name) == getattr(other, name) for name in names)

    __hash__ = None  # type: ignore[assignment]  # messages can change

    def __repr__(self) -> str:
        names = list(self.__slots__)
        if self.unknown_tagged_fields:
            names.append("unknown_tagged_fields")
        shown = ", ".join(f"{name}={_shown(name, getattr(self, name))}" for name in names)
        return f"{type(self).__name__}({shown})"


def _shown(name: str, value: object) -> str:
    if name in HIDDEN:
        return "[hidden]"
    if isinstance(value, memoryview):
        return f"<{value.nbytes} bytes>"
    return repr(value)


class Message(Struct):
    """A whole message: a request, a response, a header, or a record of Kafka's own topics."""

    __slots__ = ()

    NAME: ClassVar[str]
    API_KEY: ClassVar[int] = -1
    """The API's key, or of a coordinator's record its type; -1 when there is none."""
    VALID_VERSIONS: ClassVar[tuple[int, int]]
    """The lowest and the highest version; the highest is lower than the lowest when the API was removed."""
    FLEXIBLE_FROM: ClassVar[int]
    """The first flexible version (KIP-482); above the highest version when none is."""
    LATEST_VERSION_UNSTABLE: ClassVar[bool] = False

    def encode(self, version: int) -> bytes:
        """Return the message's bytes in a version.

        Raises `UnsupportedVersionError` for a version that does not exist, or that lacks a field which is set and may
        not be dropped; `IllegalArgumentError` or `IllegalTypeError` for a value that does not fit its field.
        """
        plan = plan_of(type(self), version)
        encoder = Encoder()
        encoder.message(plan, self)
        return encoder.joined()

    @classmethod
    def decode(cls, data: Buffer, version: int) -> Self:
        """Read a message; the whole buffer is one.

        Raises `ProtocolError`, with the field's path and the offset, for malformed bytes.
        """
        plan = plan_of(cls, version)
        decoder = Decoder(data, 0, -1)
        message: Self = decoder.message(plan)
        decoder.finish(plan)
        return message
