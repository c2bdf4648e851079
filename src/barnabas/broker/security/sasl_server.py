"""What a SASL mechanism is to the authenticator of a connection, and the simplest of them, PLAIN."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from barnabas.errors import SaslAuthenticationError


class Identity(NamedTuple):
    """Who has authenticated: a name, until when it holds (epoch milliseconds), and whether by a delegation token."""

    name: str
    lifetime_ms: int | None = None
    is_token: bool = False


class SaslServer(Protocol):
    """One exchange of a mechanism, sans-IO; a new exchange needs a new object."""

    @property
    def identity(self) -> Identity | None:
        """Who it was; None until the exchange is complete."""

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """Return what the client is sent next.

        Raises `SaslAuthenticationError`, whose message the client gets, when it is not who it says.
        """


class PlainSaslServer:
    """PLAIN: user and password as they are (RFC 4616). `passwords` are those of the users, by name."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.identity: Identity | None = None

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """See `SaslServer`; there is nothing to send but that all is well."""
        parts = response.split(b"\0")
        if len(parts) != 3:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        try:
            authorization_id, username, password = (part.decode() for part in parts)
        except UnicodeDecodeError:
            raise SaslAuthenticationError("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if not username:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        expected = self._passwords.get(username)
        # Compared for unknown users, too, so that the time tells nothing.
        is_right = hmac.compare_digest(password.encode(), (expected if expected is not None else "?").encode())
        if not is_right or expected is None:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", username):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(username)
        return b""
