"""Bearer tokens: what is known of one, and when to fetch the next (KIP-255, KIP-768)."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple

from barnabas.errors import SaslAuthenticationError


class OAuthBearerToken(NamedTuple):
    """A token for the broker. Times are epoch milliseconds; `extensions` go with it to the broker (KIP-342).

    Without `lifetime_ms` it is not kept: the next connection asks for another.
    """

    value: str
    lifetime_ms: int | None = None
    principal: str = ""
    start_time_ms: int | None = None
    extensions: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"OAuthBearerToken([hidden], principal={self.principal!r}, lifetime_ms={self.lifetime_ms})"


class RefreshPolicy(NamedTuple):
    """The settings `sasl.login.refresh.*`: factor and jitter are shares of the lifetime, the others seconds."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0

    def refresh_at_ms(self, token: OAuthBearerToken, fetched_at_ms: int, random: float) -> float:
        """When to fetch the next token (epoch milliseconds); `random` lies in 0 to 1.

        The rule of Kafka's ExpiringCredentialRefreshingLogin: after a share of the lifetime, but not in its last
        `buffer` seconds and not within `min_period`; both are disregarded when the token does not live that long.
        """
        if token.lifetime_ms is None:
            return fetched_at_ms
        start = fetched_at_ms if token.start_time_ms is None else token.start_time_ms
        wanted = start + (token.lifetime_ms - start) * (self.window_factor + self.window_jitter * random)
        earliest = fetched_at_ms + self.min_period * 1000
        latest = token.lifetime_ms - self.buffer * 1000
        return wanted if earliest > latest else min(max(wanted, earliest), latest)


def token_from_jwt(value: str, *, scope_claim: str = "scope", subject_claim: str = "sub") -> OAuthBearerToken:
    """A token with what its claims say, as Kafka's ClientJwtValidator reads them; its signature is for the broker.

    Raises:
        SaslAuthenticationError: it is not a JWT, has no expiry or no subject, or its scope is of the wrong type.
    """
    claims = _claims(value)
    expiry, issued, subject = _number(claims, "exp"), _number(claims, "iat"), claims.get(subject_claim)
    if expiry is None:
        raise SaslAuthenticationError("the token's claim 'exp' is missing or not a number")
    if not isinstance(subject, str) or not subject.strip():
        raise SaslAuthenticationError(f"the token's claim {subject_claim!r} is missing or empty")
    if not isinstance(claims.get(scope_claim, ""), (str, list)):
        raise SaslAuthenticationError(f"the token's claim {scope_claim!r} is neither a string nor a list")
    return OAuthBearerToken(value, int(expiry * 1000), subject.strip(), None if issued is None else int(issued * 1000))


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e15
    return value if is_number else None


def is_jwt(value: str) -> bool:
    """Whether a token has the three parts of a JWT."""
    return value.count(".") == 2


def _claims(value: str) -> dict[str, Any]:
    try:
        if not is_jwt(value):
            raise ValueError
        payload = value.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        if isinstance(claims, dict):
            return claims
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise SaslAuthenticationError("the token is not a JWT (three parts in base64 with dots between them)")


def unsecured_jwt(claims: dict[str, Any]) -> str:
    """A JWT that nobody signed, for development; a broker accepts it only where nobody configured a validator."""
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
