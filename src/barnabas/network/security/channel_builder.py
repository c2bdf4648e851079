"""Kafka's ChannelBuilders: what `security.protocol` and the settings `ssl.*` and `sasl.*` make of a new connection."""

from __future__ import annotations

import base64
import logging
import os
import socket
from collections.abc import Callable
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Protocol

from barnabas.clock import wall_clock_ms
from barnabas.config.config import Config
from barnabas.errors import ConfigError
from barnabas.network.security.blocking_worker import ThreadedWorker, Worker
from barnabas.network.security.jaas_config import LOGIN_MODULES, LoginModule, parse_jaas_config
from barnabas.network.security.sasl_client import PlainSaslClient, SaslClient

if TYPE_CHECKING:
    import ssl

    from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator
    from barnabas.network.security.ssl_transport_layer import SslTransportLayer

log = logging.getLogger("barnabas.network")

NewClient = Callable[[], SaslClient]


class ChannelSecurity(Protocol):
    """What a `Selector` asks about each new connection: `ChannelBuilder`, or what changes it while it is in use."""

    @property
    def worker(self) -> Worker:
        """What does that which blocks."""

    def transport_layer(self, plain: socket.socket, host: str, target: str) -> SslTransportLayer | None:
        """See `ChannelBuilder`."""

    def authenticator(self, target: str) -> SaslClientAuthenticator | None:
        """See `ChannelBuilder`."""


class ChannelBuilder:
    """Secures connections: `context` for TLS, `new_sasl_client` for SASL; either may be None.

    `worker` does what blocks; `random` spreads the renewals of sessions.
    """

    def __init__(
        self,
        client_id: str,
        context: ssl.SSLContext | None,
        new_sasl_client: NewClient | None,
        *,
        worker: Worker | None = None,
        random: Random | None = None,
    ) -> None:
        self._client_id = client_id
        self._context = context
        self._new_sasl_client = new_sasl_client
        self._random = Random() if random is None else random
        self.worker = ThreadedWorker() if worker is None else worker

    def transport_layer(self, plain: socket.socket, host: str, target: str) -> SslTransportLayer | None:
        """TLS on a connected socket, which it takes over; None without TLS."""
        if self._context is None:
            return None
        from barnabas.network.security.ssl_transport_layer import SslTransportLayer

        return SslTransportLayer(plain, self._context, host, target)

    def authenticator(self, target: str) -> SaslClientAuthenticator | None:
        """Return what begins a connection; None without SASL."""
        if self._new_sasl_client is None:
            return None
        from barnabas import __version__
        from barnabas.network.client_request import SOFTWARE_NAME
        from barnabas.network.security.sasl_client_authenticator import SaslClientAuthenticator

        software = (SOFTWARE_NAME, __version__)
        return SaslClientAuthenticator(self._new_sasl_client, self._client_id, target, software, self._random)


def create_channel_builder(config: Config, client_id: str) -> ChannelBuilder | None:
    """Return the ChannelBuilder of a client; None for security.protocol=PLAINTEXT.

    Raises `ConfigError`: settings are missing, contradict each other or cannot be used.

    """
    protocol = config.get_str("security.protocol")
    does_tls, does_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
    _warn_of_unused(config, client_id, protocol, does_tls, does_sasl)
    if not does_tls and not does_sasl:
        return None
    context = None
    if does_tls:
        from barnabas.network.security.ssl_factory import create_ssl_context

        context = create_ssl_context(config)
    return ChannelBuilder(client_id, context, _sasl_client_factory(config, client_id) if does_sasl else None)


def _warn_of_unused(config: Config, client_id: str, protocol: str, does_tls: bool, does_sasl: bool) -> None:
    prefixes = [] if does_tls else ["ssl."]
    prefixes += [] if does_sasl else ["sasl."]
    unused = sorted(name for name in config.given if name.startswith(tuple(prefixes)))
    if prefixes and unused:
        log.warning("%s: security.protocol=%s makes no use of %s", client_id, protocol, ", ".join(unused))


def _sasl_client_factory(config: Config, client_id: str) -> NewClient:
    mechanism = config.get_str("sasl.mechanism").upper()
    if mechanism == "GSSAPI":
        raise ConfigError(
            "sasl.mechanism=GSSAPI (Kerberos), which is Kafka's default, is not supported; set sasl.mechanism to "
            "one of " + ", ".join(LOGIN_MODULES)
        )
    if mechanism not in LOGIN_MODULES:
        raise ConfigError(f"sasl.mechanism={mechanism!r} is not supported; there are {', '.join(LOGIN_MODULES)}")
    module = _login_module(config, mechanism)
    if mechanism == "OAUTHBEARER":
        return _oauth_bearer_factory(config, module, client_id)
    username, password = _credentials(config, module, mechanism)
    if mechanism == "PLAIN":
        return lambda: PlainSaslClient(username, password)
    from barnabas.network.security.scram_sasl_client import ScramSaslClient

    is_token = module is not None and module.options.get("tokenauth", "").lower() == "true"
    return lambda: ScramSaslClient(mechanism, username, password, _nonce(), is_token=is_token)


def _nonce() -> str:
    return base64.b64encode(os.urandom(24)).decode()


def _login_module(config: Config, mechanism: str) -> LoginModule | None:
    text = config["sasl.jaas.config"]
    if text is None:
        return None
    module = parse_jaas_config(text.value)
    if module.name != LOGIN_MODULES[mechanism]:
        raise ConfigError(
            f"sasl.jaas.config names {module.name}, but sasl.mechanism={mechanism} goes with {LOGIN_MODULES[mechanism]}"
        )
    return module


def _credentials(config: Config, module: LoginModule | None, mechanism: str) -> tuple[str, str]:
    username, password = config["sasl.username"], config["sasl.password"]
    if module is not None:
        if username is not None or password is not None:
            raise ConfigError("sasl.jaas.config and sasl.username or sasl.password are both given; give one")
        username, secret = module.options.get("username"), module.options.get("password")
    else:
        secret = None if password is None else password.value
    if username is None or secret is None:
        raise ConfigError(
            f"sasl.mechanism={mechanism} needs a user and a password: set sasl.username and sasl.password, or "
            f'sasl.jaas.config to \'{LOGIN_MODULES[mechanism]} required username="..." password="...";\''
        )
    return username, secret


def _oauth_bearer_factory(config: Config, module: LoginModule | None, client_id: str) -> NewClient:
    from barnabas.network.security.oauth_bearer_login import OAuthBearerLogin
    from barnabas.network.security.oauth_bearer_login_callback_handler import token_source
    from barnabas.network.security.oauth_bearer_sasl_client import OAuthBearerSaslClient
    from barnabas.network.security.oauth_bearer_token import RefreshPolicy

    if config["sasl.username"] is not None or config["sasl.password"] is not None:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER uses no sasl.username and sasl.password but "
            "sasl.oauthbearer.client.credentials.client.id and .client.secret"
        )
    policy = RefreshPolicy(
        config.get_float("sasl.login.refresh.window.factor"),
        config.get_float("sasl.login.refresh.window.jitter"),
        config.get_int("sasl.login.refresh.min.period.seconds"),
        config.get_int("sasl.login.refresh.buffer.seconds"),
    )
    source = token_source(config, {} if module is None else module.options)
    login = OAuthBearerLogin(source, policy, wall_clock_ms, SystemRandom(), client_id)
    return lambda: OAuthBearerSaslClient(login.token)
