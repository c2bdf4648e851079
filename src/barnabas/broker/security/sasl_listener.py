"""The SASL mechanisms of a listener, as its settings and their JAAS lines have them."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.security.sasl_server import PlainSaslServer, SaslServer
from barnabas.errors import ConfigError
from barnabas.network.security.jaas_config import LOGIN_MODULES, parse_jaas_config

if TYPE_CHECKING:
    from barnabas.broker.config import BrokerConfig
    from barnabas.broker.listener_config import ListenerConfig
    from barnabas.broker.security.jwks import JwksEndpoints
    from barnabas.broker.security.scram_sasl_server import FindUser
    from barnabas.network.security.jaas_config import LoginModule

_USER = "user_"
_OAUTH = "org.apache.kafka.common.security.oauthbearer."
_VALIDATING = (f"{_OAUTH}OAuthBearerValidatorCallbackHandler", f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler")
_UNSECURED = f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_HANDLER = "sasl.server.callback.handler.class"

NewServer = Callable[[], SaslServer]


class SaslMechanism:
    """How one mechanism of a listener authenticates, and how long that lasts (seconds; 0 for ever)."""

    __slots__ = ("max_reauth", "name", "new_server")

    def __init__(self, name: str, new_server: NewServer, max_reauth: float) -> None:
        self.name = name
        self.new_server = new_server
        self.max_reauth = max_reauth


class SaslListener:
    """What a listener with SASL offers.

    `find_scram_user(mechanism)` gives what looks users up, `endpoints` the keys of tokens. Raises `ConfigError` for
    settings that cannot be used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        listener: str,
        find_scram_user: Callable[[str], FindUser],
        warn: Callable[[str], None],
        endpoints: JwksEndpoints,
    ) -> None:
        settings = config.listener_config(listener)
        names = [name.upper() for name in settings.get_list("sasl.enabled.mechanisms")]
        if "GSSAPI" in names:
            raise ConfigError(
                "sasl.enabled.mechanisms: GSSAPI (Kerberos), which is Kafka's default, is not supported; name some of "
                + ", ".join(LOGIN_MODULES)
            )
        unknown = [name for name in names if name not in LOGIN_MODULES]
        if unknown or not names:
            raise ConfigError(f"sasl.enabled.mechanisms={','.join(names)}: there are {', '.join(LOGIN_MODULES)}")
        self._endpoints = endpoints
        self.max_receive_size = settings.get_int("sasl.server.max.receive.size")
        self.failure_delay = settings.get_seconds("connection.failed.authentication.delay.ms")
        self.mechanisms: dict[str, SaslMechanism] = {}
        for name in names:
            own = config.listener_config(listener, name)
            new_server = self._new_server(own, name, find_scram_user, lambda line: warn(f"listener {listener}: {line}"))
            self.mechanisms[name] = SaslMechanism(name, new_server, own.get_seconds("connections.max.reauth.ms"))

    def _new_server(
        self,
        own: ListenerConfig,
        name: str,
        find_scram_user: Callable[[str], FindUser],
        warn: Callable[[str], None],
    ) -> NewServer:
        module = _login_module(own, name)
        handler = own[_HANDLER]
        if name == "OAUTHBEARER":
            return _oauth_bearer(own, module, handler, warn, self._endpoints)
        if handler is not None:
            raise ConfigError(f"{_HANDLER}={handler!r} is not supported for {name}: a Java class")
        if name == "PLAIN":
            passwords = {} if module is None else _passwords(module)
            if not passwords:
                raise ConfigError(
                    f"PLAIN has no users: set {name.lower()}.sasl.jaas.config of the listener to "
                    "'PlainLoginModule required user_alice=\"...\";'"
                )
            return lambda: PlainSaslServer(passwords)
        from barnabas.broker.security.scram_sasl_server import ScramSaslServer

        find_user, pepper = find_scram_user(name), os.urandom(32)
        return lambda: ScramSaslServer(name, find_user, base64.b64encode(os.urandom(24)).decode(), pepper)


def sasl_settings(config: BrokerConfig, listener: str) -> object:
    """Return what a `SaslListener` is made of, to be compared."""
    found = {}
    for mechanism in (None, *LOGIN_MODULES):
        given = config.listener_config(listener, mechanism).given
        found[mechanism] = {name: given[name] for name in given if name.startswith(("sasl.", "connection"))}
    return found


def _login_module(own: ListenerConfig, name: str) -> LoginModule | None:
    # As in Kafka: a line that is not a mechanism's own is the login of the broker as a client.
    if not own.is_own("sasl.jaas.config"):
        return None
    module = parse_jaas_config(own["sasl.jaas.config"].value)
    if module.name != LOGIN_MODULES[name]:
        raise ConfigError(f"sasl.jaas.config of {name} names {module.name}; {LOGIN_MODULES[name]} goes with it")
    return module


def _passwords(module: LoginModule) -> dict[str, str]:
    return {key[len(_USER) :]: value for key, value in module.options.items() if key.startswith(_USER)}


def _oauth_bearer(
    own: ListenerConfig,
    module: LoginModule | None,
    handler: object,
    warn: Callable[[str], None],
    endpoints: JwksEndpoints,
) -> NewServer:
    from barnabas.broker.security.broker_jwt_validator import Expectations, JwtVerifier, unsecured
    from barnabas.broker.security.oauth_bearer_sasl_server import OAuthBearerSaslServer

    expected = Expectations(
        own.get_list("sasl.oauthbearer.expected.audience"),
        own["sasl.oauthbearer.expected.issuer"],
        own.get_int("sasl.oauthbearer.clock.skew.seconds"),
        own.get_str("sasl.oauthbearer.sub.claim.name"),
    )
    url = own["sasl.oauthbearer.jwks.endpoint.url"]
    says_unsecured = module is not None and any(option.startswith("unsecured") for option in module.options)
    if handler not in (None, _UNSECURED, *_VALIDATING):
        raise ConfigError(f"{_HANDLER}={handler!r} is not supported: a Java class; leave it out, or {_VALIDATING[0]}")
    if url is None and (handler == _UNSECURED or (handler is None and says_unsecured)):
        warn("OAUTHBEARER takes tokens that nobody has signed: whoever connects is who he says. For development only")
        take_word = unsecured(expected)
        return lambda: OAuthBearerSaslServer(take_word)
    if url is None:
        raise ConfigError(
            "OAUTHBEARER needs sasl.oauthbearer.jwks.endpoint.url, the keys that tokens are signed with; for tokens "
            f"without a signature, in development, set {_HANDLER}={_UNSECURED}"
        )
    from barnabas.broker.security.jwks import Patience

    patience = Patience(
        own.get_seconds("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        own.get_seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        own.get_seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )
    verifier = JwtVerifier(endpoints.find_keys(url, patience, warn), expected)
    return lambda: OAuthBearerSaslServer(verifier)
