"""OAUTHBEARER: a token of an issuer that the listener trusts says who the client is (RFC 7628, KIP-255, KIP-768)."""

from __future__ import annotations

import re
from collections.abc import Callable

from barnabas.broker.security.sasl_server import Identity
from barnabas.errors import SaslAuthenticationError

_MESSAGE = re.compile(
    rb"n,(?:a=(?P<authzid>[\x01-\x7f]*?))?,\x01auth=(?P<scheme>[A-Za-z]+)[ ]+(?P<token>[-_~+/.a-zA-Z0-9]+=*)\x01"
    rb"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01"
)
#: RFC 7628, section 3.2.2; no more is told of why.
_REFUSAL = '{"status":"invalid_token"}'
#: A longer token is not looked at.
_LONGEST_TOKEN = 64 * 1024
_FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"

#: A token and the time (epoch milliseconds) → who it names. Raises ValueError, which says what is wrong with it.
Validate = Callable[[str, int], Identity]


class OAuthBearerSaslServer:
    """One exchange. A refusal is told as JSON first, and is final when the client has answered that."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._is_refused = False
        self.identity: Identity | None = None

    def evaluate(self, response: bytes, now_ms: int) -> bytes:
        """See `SaslServer`."""
        if self._is_refused:
            raise SaslAuthenticationError(_REFUSAL)
        found = _MESSAGE.fullmatch(response)
        if found is None or found["scheme"].lower() != b"bearer" or b"auth=" in found["pairs"].lower():
            raise SaslAuthenticationError(_FAILED)
        if len(found["token"]) > _LONGEST_TOKEN:
            return self._refuse()
        try:
            identity = self._validate(found["token"].decode(), now_ms)
        except ValueError:
            return self._refuse()
        if (found["authzid"] or b"").decode() not in ("", identity.name):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.identity = identity
        return b""

    def _refuse(self) -> bytes:
        self._is_refused = True
        return _REFUSAL.encode()
