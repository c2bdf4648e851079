"""OAUTHBEARER: a bearer token in place of a password (RFC 7628, KIP-255, KIP-342)."""

from __future__ import annotations

import re
from collections.abc import Callable

from barnabas.errors import SaslAuthenticationError
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken
from barnabas.network.security.sasl_client import Work

_SEPARATOR = b"\1"
_TOKEN = re.compile(r"[-_.~+/A-Za-z0-9]+=*")
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")


class OAuthBearerSaslClient:
    """One exchange. `get_token` may block on an HTTP request, so it is `Work`."""

    mechanism = "OAUTHBEARER"

    def __init__(self, get_token: Callable[[], OAuthBearerToken]) -> None:
        self._get_token = get_token
        self.is_complete = False
        self._refusal: str | None = None

    def initial_response(self) -> Work:
        """See `SaslClient`."""
        return Work(lambda: _initial_message(self._get_token()))

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """See `SaslClient`; a broker that refuses says why as JSON, and ends the exchange after one more byte."""
        if challenge:
            self._refusal = challenge.decode(errors="replace")
            return _SEPARATOR
        if self._refusal is not None:
            raise SaslAuthenticationError(f"the broker refused the token: {self._refusal}")
        self.is_complete = True
        return None


def _initial_message(token: OAuthBearerToken) -> bytes:
    if not _TOKEN.fullmatch(token.value):
        raise SaslAuthenticationError("the token contains characters that no bearer token may have (RFC 6750)")
    message = b"n,," + _SEPARATOR + f"auth=Bearer {token.value}".encode() + _SEPARATOR
    for name, value in token.extensions:
        if name == "auth" or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise SaslAuthenticationError(f"the SASL extension {name!r} has a name or value that RFC 7628 forbids")
        message += f"{name}={value}".encode() + _SEPARATOR
    return message + _SEPARATOR
