"""Kafka's JwtValidators of a client: what must be true of a token before it is sent to a broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.config.config import Config
from barnabas.config.loading import load_function
from barnabas.errors import AuthenticationError, ConfigError, SaslAuthenticationError
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken, check_is_signed, token_from_jwt, token_of

_SETTING = "sasl.oauthbearer.jwt.validator.class"
_OWN_NAMES = ("DefaultJwtValidator", "ClientJwtValidator")
Validate = Callable[[str], OAuthBearerToken]


def create_jwt_validator(config: Config, kafkas_name: Callable[[Any], str | None]) -> Validate:
    """Return what `sasl.oauthbearer.jwt.validator.class` names: one of Kafka's, or a function or object of the user's.

    The function is called with the JWT and returns what a token callback may return; an object has it as `validate`.

    Raises `ConfigError` when it names nothing that a client can use.

    """
    chosen = config[_SETTING]
    name = kafkas_name(chosen)
    if name is None:
        return _users(load_function(chosen, _SETTING, "validate", config.given))
    if name == "BrokerJwtValidator":
        raise ConfigError(
            f"{_SETTING}={name} checks signatures, which only a broker does; a client has ClientJwtValidator"
        )
    if name not in _OWN_NAMES:
        raise ConfigError(f"{_SETTING}={name!r} is not known; there are {', '.join(_OWN_NAMES)}, or 'module:name'")
    scope_claim = config.get_str("sasl.oauthbearer.scope.claim.name")
    subject_claim = config.get_str("sasl.oauthbearer.sub.claim.name")

    def validate(jwt: str) -> OAuthBearerToken:
        try:
            check_is_signed(jwt)
        except ValueError as problem:
            raise SaslAuthenticationError(f"the token that was fetched cannot be used: {problem}") from None
        return token_from_jwt(jwt, scope_claim=scope_claim, subject_claim=subject_claim)

    return validate


def _users(function: Callable[..., Any]) -> Validate:
    def validate(jwt: str) -> OAuthBearerToken:
        try:
            given = function(jwt)
        except AuthenticationError:
            raise
        except Exception as error:  # noqa: BLE001  (its text, and no more, goes on without the token)
            reason = str(error).replace(jwt, "[hidden]")
            raise SaslAuthenticationError(f"{_SETTING} refused the token: {type(error).__name__}: {reason}") from None
        return token_of(given, _SETTING)

    return validate
