"""What a SASL mechanism is to the authenticator, and the simplest of them, PLAIN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.errors import SaslAuthenticationError


class Work:
    """Something that blocks or takes long: the state machine's driver runs it elsewhere and hands in its result.

    `run` gives the bytes to send next.
    """

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], bytes]) -> None:
        self.run = run


class SaslClient(Protocol):
    """One exchange of a mechanism, sans-IO; a new exchange needs a new object."""

    @property
    def mechanism(self) -> str:
        """The name registered for it, as in `sasl.mechanism`."""

    @property
    def is_complete(self) -> bool:
        """Whether the broker has said all that it must."""

    def initial_response(self) -> bytes | Work:
        """Return what is sent first."""

    def evaluate_challenge(self, challenge: bytes) -> bytes | Work | None:
        """Return what is sent next; None when there is nothing more to say.

        Raises `SaslAuthenticationError` when the broker's words make no sense, or it is not who it should be.

        """


class PlainSaslClient:
    """PLAIN: user and password as they are (RFC 4616), to be used over TLS only."""

    mechanism = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        self._username = username
        self._password = password
        self.is_complete = False

    def initial_response(self) -> bytes:
        """See `SaslClient`."""
        return b"\0".join([b"", self._username.encode(), self._password.encode()])

    def evaluate_challenge(self, challenge: bytes) -> None:
        """See `SaslClient`; the broker has nothing to say but yes."""
        if challenge:
            raise SaslAuthenticationError(f"the broker answered PLAIN with {len(challenge)} bytes; none are expected")
        self.is_complete = True
