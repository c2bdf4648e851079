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
    """Return a token with what its claims say, as Kafka's ClientJwtValidator reads them, signature apart.

    Raises `SaslAuthenticationError` when it is not a JWT, has no expiry, no subject, or a claim that makes no
    sense.

    """
    claims = jwt_claims(value)
    expiry, issued, subject = _seconds(claims, "exp"), _seconds(claims, "iat"), claims.get(subject_claim)
    if expiry is None:
        raise SaslAuthenticationError("the token's claim 'exp' is missing")
    if not isinstance(subject, str) or not subject.strip():
        raise SaslAuthenticationError(f"the token's claim {subject_claim!r} is missing or empty")
    _check_scope(claims.get(scope_claim), scope_claim)
    return OAuthBearerToken(value, expiry * 1000, subject.strip(), None if issued is None else issued * 1000)


def _seconds(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e15:
        raise SaslAuthenticationError(f"the token's claim {name!r} is negative, or no number of seconds")
    return int(value)


def _check_scope(given: Any, name: str) -> None:
    """Nothing more is done with scopes here; a number is no scope to Java's client, nor an error."""
    if given is None or isinstance(given, (int, float)):
        return
    scopes = [_as_text(item).strip() for item in (given if isinstance(given, list) else [given])]
    if not all(scopes) or len(set(scopes)) < len(scopes):
        raise SaslAuthenticationError(f"the token's claim {name!r} is empty, or holds something empty or twice")


def _as_text(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def token_of(given: Any, who: str) -> OAuthBearerToken:
    """Return a token of what a user's function gives; `who` names it in messages.

    That is an OAuthBearerToken, a string (a JWT says itself how long it is valid), or a pair of string and expiry in
    epoch milliseconds.

    Raises `SaslAuthenticationError` when it is something else.

    """
    if isinstance(given, OAuthBearerToken):
        return given
    if isinstance(given, str):
        return token_from_jwt(given) if is_jwt(given) else OAuthBearerToken(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str):
        return OAuthBearerToken(given[0], int(given[1]))
    raise SaslAuthenticationError(
        f"{who} returned {type(given).__name__}; an OAuthBearerToken, a str or (str, expiry in epoch ms) is needed"
    )


def is_jwt(value: str) -> bool:
    """Whether a token has the three parts of a JWT."""
    return value.count(".") == 2


def check_is_signed(value: str) -> None:
    """Kafka's SerializedJwt: a JWT has three sections and none is empty, so it has a signature.

    Raises `ValueError` when they are not there.

    """
    sections = value.split(".")
    if len(sections) != 3 or not all(section.strip() for section in sections):
        raise ValueError("it is not a signed JWT (header, payload and signature with dots between them)")


def serialized_jwt(text: str) -> str:
    """Return the signed JWT in a file, without the space around it.

    Raises `ValueError` when the file holds something else.

    """
    value = text.strip()
    check_is_signed(value)
    for section in value.split(".")[:2]:
        if _json_object(section) is None:
            raise ValueError("it is not a JWT: header and payload must be JSON objects in base64url")
    return value


def jwt_claims(value: str) -> dict[str, Any]:
    """Return what a JWT's payload holds.

    Raises `SaslAuthenticationError` when it is not a JWT.

    """
    claims = _json_object(value.split(".")[1]) if is_jwt(value) else None
    if claims is None:
        raise SaslAuthenticationError("the token is not a JWT (three parts in base64 with dots between them)")
    return claims


def _json_object(section: str) -> dict[str, Any] | None:
    try:
        found = json.loads(base64.b64decode(section + "=" * (-len(section) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def unsecured_jwt(claims: dict[str, Any]) -> str:
    """Return an unsigned JWT, for development.

    A broker accepts it only where no validator is configured.
    """
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
