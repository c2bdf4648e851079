"""Whether a token is signed by an issuer that the listener trusts, and is meant for it (Kafka's BrokerJwtValidator)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.broker.security.sasl_server import Identity
from barnabas.errors import ConfigError, KafkaError
from barnabas.network.security.oauth_bearer_token import jwt_claims

if TYPE_CHECKING:
    from jwt import PyJWK, PyJWKSet

#: Signatures by keys that only their owner has; a shared secret (HS256) or none prove nothing here.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")

#: What a token says is looked at here, by the broker's clock and Kafka's rules.
_SIGNATURE_ONLY: Any = {f"verify_{claim}": False for claim in ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")}


class Expectations(NamedTuple):
    """What a token must say: one of `audience`, the `issuer`; its times may be wrong by `skew` seconds."""

    audience: Sequence[str]
    issuer: str | None
    skew: int
    subject_claim: str


class JwtVerifier:
    """Verifies tokens by the keys that `keys` gives: by id, or all for None. Raises ConfigError without PyJWT."""

    def __init__(self, keys: Callable[[str | None], Sequence[PyJWK]], expected: Expectations) -> None:
        try:
            import jwt
        except ImportError:
            raise ConfigError("OAUTHBEARER with signed tokens needs `pip install barnabas[oauth]`") from None
        self._jwt = jwt
        self._keys = keys
        self._expected = expected

    def __call__(self, token: str, now_ms: int) -> Identity:
        """Return who the token names. Raises ValueError, which says what is wrong without showing the token."""
        try:
            header = self._jwt.get_unverified_header(token)
        except (self._jwt.PyJWTError, RecursionError, ValueError):
            raise ValueError("it is not a JWT") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise ValueError(f"it is signed by {str(algorithm)[:20]!r}, which is not accepted")
        if key_id is not None and not isinstance(key_id, str):
            raise ValueError("its key id is no text")
        claims = self._verified(token, str(algorithm), self._keys(key_id))
        return identity_of(claims, self._expected, now_ms)

    def _verified(self, token: str, algorithm: str, keys: Sequence[PyJWK]) -> dict[str, Any]:
        for key in keys:
            if key.algorithm_name not in (None, algorithm):
                continue
            try:
                found: dict[str, Any] = self._jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    options=_SIGNATURE_ONLY,
                )
            except (self._jwt.PyJWTError, RecursionError, ValueError, TypeError):
                continue
            return found
        raise ValueError("no known key has signed it")


def identity_of(claims: dict[str, Any], expected: Expectations, now_ms: int) -> Identity:
    """Return who verified claims name. Raises ValueError where they are not for this listener, or not now."""
    now, skew = now_ms / 1000, expected.skew
    expiry = _seconds(claims, "exp")
    if expiry is None:
        raise ValueError("it has no expiry")
    if now >= expiry + skew:
        raise ValueError("it has expired")
    not_before = _seconds(claims, "nbf")
    if not_before is not None and now < not_before - skew:
        raise ValueError("it is not valid yet")
    issued = _seconds(claims, "iat")
    if issued is not None and now < issued - skew:
        raise ValueError("it was issued in the future")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise ValueError("it is of another issuer")
    if expected.audience:
        given = claims.get("aud")
        audience = given if isinstance(given, list) else [given]
        if not any(one in expected.audience for one in audience if isinstance(one, str)):
            raise ValueError("it is for another audience")
    subject = claims.get(expected.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise ValueError(f"its claim {expected.subject_claim!r} names nobody")
    return Identity(subject.strip(), int(expiry * 1000))


def unsecured(expected: Expectations) -> Callable[[str, int], Identity]:
    """Return what takes the word of unsigned tokens, for development only."""

    def validate(token: str, now_ms: int) -> Identity:
        if not token.endswith("."):
            raise ValueError("it is signed, and this listener knows no keys")
        try:
            claims = jwt_claims(token)
        except KafkaError as problem:
            raise ValueError(str(problem)) from None
        return identity_of(claims, expected, now_ms)

    return validate


def _seconds(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e12:
        raise ValueError(f"its claim {name!r} is no time")
    return float(value)


def keys_of(text: str | bytes) -> PyJWKSet:
    """Return the keys of a JWKS. Raises ValueError when it holds none that can be used."""
    import json

    import jwt

    try:
        found = json.loads(text)
        return jwt.PyJWKSet.from_dict(found)
    except (ValueError, RecursionError, AttributeError, TypeError, jwt.PyJWTError) as problem:
        raise ValueError(f"it is no JWKS with keys of a known kind ({type(problem).__name__})") from None
