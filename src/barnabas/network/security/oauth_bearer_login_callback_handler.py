"""Kafka's login callback handlers for OAUTHBEARER: which source of tokens the settings ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.config import Config
from barnabas.config.loading import load_attribute
from barnabas.errors import AuthenticationError, ConfigError, KafkaError
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken, token_of, unsecured_jwt

_SETTING = "sasl.login.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
_JWT_SETTINGS = ("sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.jwt.", "sasl.oauthbearer.assertion.")
_EXTENSION = "extension_"
_CLAIM = "unsecuredLogin"
Source = Callable[[], OAuthBearerToken]
Options = Mapping[str, str]


def token_source(config: Config, options: Options) -> Source:
    """Return a function that gives a token and may block; `options` are the login module's.

    A user's function; else, where any setting is about JWTs, Kafka's OAuthBearerLoginCallbackHandler, which takes
    what a retriever gives to a validator; else its OAuthBearerUnsecuredLoginCallbackHandler.

    Raises `ConfigError` when the settings lack or contradict something, or a file cannot be used.

    """
    extensions = tuple(
        (name.removeprefix(_EXTENSION), value) for name, value in options.items() if name.startswith(_EXTENSION)
    )
    handler = config[_SETTING]
    if handler is not None and not _is_kafkas(handler):
        if isinstance(handler, str):
            handler = load_attribute(handler, _SETTING)
        if not callable(handler):
            raise ConfigError(f"{_SETTING} must be a function that gives a token")
        return _with(extensions, from_callback(handler))
    is_by_jwt = any(name.startswith(_JWT_SETTINGS) for name in config.given)
    if handler is not None:
        named = handler.rpartition(".")[2]
        is_by_jwt = named == "OAuthBearerLoginCallbackHandler" or (is_by_jwt and "Unsecured" not in named)
    return _with(extensions, _by_jwt(config, options) if is_by_jwt else from_callback(_unsecured(options)))


def _is_kafkas(handler: object) -> bool:
    return isinstance(handler, str) and handler.startswith(_PACKAGE)


def _with(extensions: tuple[tuple[str, str], ...], source: Source) -> Source:
    def retrieve() -> OAuthBearerToken:
        token = source()
        return token if token.extensions else token._replace(extensions=extensions)

    return retrieve if extensions else source


def _by_jwt(config: Config, options: Options) -> Source:
    from barnabas.network.security.jwt_retriever import create_jwt_retriever, kafkas_name
    from barnabas.network.security.jwt_validator import create_jwt_validator

    validate = create_jwt_validator(config, kafkas_name)
    retrieve = create_jwt_retriever(config, options)
    return lambda: validate(retrieve())


def from_callback(callback: Callable[[], Any]) -> Source:
    """Tokens from the application's function, which is called with no argument; see `token_of` for what it gives."""

    def retrieve() -> OAuthBearerToken:
        try:
            given = callback()
        except AuthenticationError:
            raise
        except Exception as error:
            raise KafkaError(f"the token callback raised {type(error).__name__}: {error}") from error
        return token_of(given, "the token callback")

    return retrieve


def _unsecured(options: Options) -> Callable[[], str]:
    """Kafka's OAuthBearerUnsecuredLoginCallbackHandler: an unsigned token, for development."""
    claims: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(f"{_CLAIM}StringClaim_"):
            claims[name.partition("_")[2]] = value
        elif name.startswith(f"{_CLAIM}NumberClaim_"):
            claims[name.partition("_")[2]] = float(value)
        elif name.startswith(f"{_CLAIM}ListClaim_") and value:
            claims[name.partition("_")[2]] = value[1:].split(value[0])
    if "sub" not in claims:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a source of tokens: sasl.oauthbearer.token.endpoint.url with client "
            "credentials or an assertion, or a function in sasl.login.callback.handler.class, or, for development, "
            "unsecuredLoginStringClaim_sub in sasl.jaas.config"
        )
    lifetime = int(options.get(f"{_CLAIM}LifetimeSeconds", "3600"))
    return lambda: unsecured_jwt({"iat": int(time.time()), "exp": int(time.time()) + lifetime, **claims})
