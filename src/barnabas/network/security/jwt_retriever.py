"""Kafka's JwtRetrievers: what `sasl.oauthbearer.jwt.retriever.class` names, and what it needs of the other settings."""

from __future__ import annotations

import logging
import ssl
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from barnabas.config.config import Config
from barnabas.config.loading import load_function
from barnabas.errors import AuthenticationError, ConfigError, KafkaError, SaslAuthenticationError
from barnabas.network.security.cached_file import CachedFile
from barnabas.network.security.http_jwt_retriever import (
    HttpJwtRetriever,
    TokenEndpoint,
    TokenRequest,
    client_assertion_request,
    client_secret_request,
    jwt_bearer_request,
)
from barnabas.network.security.jwt_assertion import PREFIX, create_assertion_creator
from barnabas.network.security.oauth_bearer_token import serialized_jwt

log = logging.getLogger("barnabas.network")

SETTING = "sasl.oauthbearer.jwt.retriever.class"
_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105  (a setting's name)
_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
Retrieve = Callable[[], str]
Options = Mapping[str, str]


def kafkas_name(chosen: Any) -> str | None:
    """Return the short name of a class of Kafka's, which may be given with its package; None for what is the user's."""
    if not isinstance(chosen, str) or ":" in chosen:
        return None
    return chosen.removeprefix(_PACKAGE)


def create_jwt_retriever(config: Config, options: Options) -> Retrieve:
    """Return a function that gives a JWT, and may block; `options` are those of the login module in `sasl.jaas.config`.

    Of a user's function or object (`retrieve`) the result must be a string.

    Raises `ConfigError` when the settings name nothing that is known, lack something, or a file cannot be used.

    """
    chosen = config[SETTING]
    name = kafkas_name(chosen)
    if name is None:
        return _users(load_function(chosen, SETTING, "retrieve", config.given))
    if name not in _BY_NAME:
        raise ConfigError(f"{SETTING}={name!r} is not known; there are {', '.join(_BY_NAME)}, or 'module:name'")
    return _BY_NAME[name](config, options)


def _users(function: Callable[..., Any]) -> Retrieve:
    def retrieve() -> str:
        try:
            given = function()
        except AuthenticationError:
            raise
        except Exception as error:
            raise KafkaError(f"{SETTING} raised {type(error).__name__}: {error}") from error
        if not isinstance(given, str):
            raise SaslAuthenticationError(f"{SETTING} returned {type(given).__name__}; a JWT is needed, which is a str")
        return given

    return retrieve


def _default(config: Config, options: Options) -> Retrieve:
    return (_from_file if _scheme(config) == "file" else _client_credentials)(config, options)


def _from_file(config: Config, options: Options) -> Retrieve:
    if _scheme(config) != "file":
        raise ConfigError(f"{_URL}={config.shown(_URL)} is not valid: FileJwtRetriever needs a file: URL")
    path = urllib.request.url2pathname(urllib.parse.urlsplit(config.get_str(_URL)).path)
    return CachedFile(_URL, path, config.shown(_URL), serialized_jwt).get


def _client_credentials(config: Config, options: Options) -> Retrieve:
    endpoint = _endpoint(config, options)
    scope = config["sasl.oauthbearer.scope"] or options.get("scope", "").strip()
    client_id = config[_CLIENT_ID] or options.get("clientId")
    if config[f"{PREFIX}file"] or config[f"{PREFIX}claim.iss"]:
        _warn_of_unused(config)
        assertions = create_assertion_creator(config)

        def by_assertion() -> TokenRequest:
            assertion = assertions.create()
            return client_assertion_request(client_id, assertion, scope, assertions.who(assertion))

        return HttpJwtRetriever(endpoint, by_assertion).retrieve
    secret = options.get("clientSecret") if config[_CLIENT_SECRET] is None else config[_CLIENT_SECRET].value
    if client_id is None or secret is None:
        raise ConfigError(
            f"{_URL} needs {_CLIENT_ID} and {_CLIENT_SECRET}, or an assertion ({PREFIX}claim.iss or file)"
        )
    shown_id = config.shown(_CLIENT_ID) if config[_CLIENT_ID] else repr(client_id)
    request = client_secret_request(
        client_id, secret, scope, config.get_bool("sasl.oauthbearer.header.urlencode"), shown_id
    )
    return HttpJwtRetriever(endpoint, lambda: request).retrieve


def _jwt_bearer(config: Config, options: Options) -> Retrieve:
    endpoint = _endpoint(config, options)
    scope = config["sasl.oauthbearer.scope"]
    assertions = create_assertion_creator(config)

    def by_assertion() -> TokenRequest:
        assertion = assertions.create()
        return jwt_bearer_request(assertion, scope, assertions.who(assertion))

    return HttpJwtRetriever(endpoint, by_assertion).retrieve


_BY_NAME: dict[str, Callable[[Config, Options], Retrieve]] = {
    "DefaultJwtRetriever": _default,
    "ClientCredentialsJwtRetriever": _client_credentials,
    "JwtBearerJwtRetriever": _jwt_bearer,
    "FileJwtRetriever": _from_file,
}


def _warn_of_unused(config: Config) -> None:
    """Kafka's order: the assertion in a file, the assertion that is made, the client's secret."""
    unused = [name for name in (_CLIENT_SECRET,) if config.is_given(name)]
    if config[f"{PREFIX}file"] and config.is_given(f"{PREFIX}claim.iss"):
        unused.append(f"{PREFIX}claim.iss")
    if unused:
        used = f"{PREFIX}file" if config[f"{PREFIX}file"] else f"{PREFIX}claim.iss"
        log.warning("the client is authenticated by %s, which makes no use of %s", used, ", ".join(unused))


def _scheme(config: Config) -> str:
    url: str | None = config[_URL]
    if not url:
        raise ConfigError(f"{_URL} is needed: where tokens are had from, an http, https or file URL")
    try:
        parts = urllib.parse.urlsplit(url)
        is_complete = parts.scheme == "file" or bool(parts.hostname and parts.port != 0)
    except ValueError:
        is_complete = False
    if not is_complete or parts.scheme not in ("http", "https", "file"):
        raise ConfigError(f"{_URL}={config.shown(_URL)} is not valid: it must be http, https or file")
    return parts.scheme


def _endpoint(config: Config, options: Options) -> TokenEndpoint:
    scheme, url = _scheme(config), config.get_str(_URL)
    if scheme == "file":
        raise ConfigError(f"{_URL}={config.shown(_URL)} is not valid: this way to a token needs http or https")
    if "@" in urllib.parse.urlsplit(url).netloc:
        raise ConfigError(f"{_URL} must hold no user and password; {_CLIENT_ID} and {_CLIENT_SECRET} are for them")
    timeouts = [config[f"sasl.login.{kind}.timeout.ms"] for kind in ("connect", "read")]
    return TokenEndpoint(
        url,
        config.shown(_URL),
        max((value / 1000 for value in timeouts if value), default=10.0),
        config.get_seconds("sasl.login.retry.backoff.ms"),
        config.get_seconds("sasl.login.retry.backoff.max.ms"),
        _ssl_context(config, options) if scheme == "https" else None,
    )


def _ssl_context(config: Config, options: Options) -> ssl.SSLContext | None:
    """As in Java, TLS to the endpoint is set in `sasl.jaas.config`: the settings `ssl.*` are about brokers."""
    settings = {name: value for name, value in options.items() if name.startswith("ssl.")}
    if not settings:
        return None
    from barnabas.network.security.ssl_factory import create_ssl_context

    try:
        return create_ssl_context(Config(config.section, settings))
    except ConfigError as error:
        raise ConfigError(f"an option in sasl.jaas.config, for the token endpoint: {error}") from None
