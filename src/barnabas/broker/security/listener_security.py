"""What a listener asks of who connects to it, and how it is replaced while the broker runs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.config import is_loopback
from barnabas.broker.security.readable_secrets import ReadableSecrets, SecretFile
from barnabas.broker.security.ssl_principal_mapper import SslPrincipalMapper
from barnabas.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    import ssl

    from barnabas.broker.config import BrokerConfig, Listener
    from barnabas.broker.instant import Instant
    from barnabas.broker.listener_config import ListenerConfig
    from barnabas.broker.security.certificate_identity import CertificateIdentity
    from barnabas.broker.security.jwks import JwksEndpoints
    from barnabas.broker.security.sasl_listener import SaslListener
    from barnabas.broker.security.scram_sasl_server import FindUser
    from barnabas.broker.security.server_ssl_context import Stamp
    from barnabas.broker.storage_threads import Storage

ANONYMOUS = "User:ANONYMOUS"
AUTHORIZER_SETTINGS = ("authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found")
#: How often files are looked at, in seconds.
_LOOK_INTERVAL = 5.0


class ListenerSecurity:
    """One listener. Raises `ConfigError` when its settings cannot be used; the message names the listener.

    `find_scram_user(mechanism)` gives what looks users up; `warn` gets a line for what an operator should think about;
    keys of tokens come from `endpoints`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        listener: Listener,
        find_scram_user: Callable[[str], FindUser],
        warn: Callable[[str], None],
        endpoints: JwksEndpoints,
    ) -> None:
        self.name = listener.name
        self.protocol = listener.protocol
        self.uses_tls = listener.protocol.endswith("SSL")
        self.uses_sasl = listener.protocol.startswith("SASL")
        self.ssl_context: ssl.SSLContext | None = None
        self.sasl: SaslListener | None = None
        self._find_scram_user = find_scram_user
        self._warn = warn
        self._endpoints = endpoints
        self._identity: CertificateIdentity | None = None
        self._stamps: tuple[Stamp, ...] = ()
        self._sasl_settings: object = None
        self.reload(config)

    def reload(self, config: BrokerConfig, *, only_stores: bool = False) -> None:
        """Take over settings and files as they are now. Raises `ConfigError`; what was there holds on then."""
        settings = config.listener_config(self.name)
        try:
            mapper = SslPrincipalMapper(settings.get_str("ssl.principal.mapping.rules"))
            if self.uses_tls:
                self._load_stores(settings)
            if self.uses_sasl and not only_stores:
                self._load_mechanisms(config)
        except ConfigError as problem:
            raise ConfigError(f"listener {self.name}: {problem}") from None
        self._mapper = mapper

    def _load_stores(self, settings: ListenerConfig) -> None:
        from barnabas.broker.security.certificate_identity import identity_of
        from barnabas.broker.security.server_ssl_context import (
            create_server_ssl_context,
            server_key_store,
            stamps_of_stores,
        )

        # Before they are read: what is replaced meanwhile is read once more.
        self._stamps = stamps_of_stores(settings)
        store = server_key_store(settings)
        context, identity = create_server_ssl_context(settings, store), identity_of(store)
        if self._identity is not None:
            identity.check_replaces(self._identity, settings)
        self.ssl_context, self._identity = context, identity

    def _load_mechanisms(self, config: BrokerConfig) -> None:
        from barnabas.broker.security.sasl_listener import SaslListener, sasl_settings

        # What is as it was stays: keys of tokens are not fetched for it again.
        wanted = sasl_settings(config, self.name)
        if wanted != self._sasl_settings:
            self.sasl = SaslListener(config, self.name, self._find_scram_user, self._warn, self._endpoints)
            self._sasl_settings = wanted

    def check(self, config: BrokerConfig) -> None:
        """Raise `ConfigError` when `reload` with these settings would."""
        candidate = copy.copy(self)
        candidate._warn = lambda line: None
        candidate.reload(config)

    def reload_changed_files(self, config: BrokerConfig) -> bool:
        """Whether files of the stores were replaced, and are now in force. Raises `ConfigError`, once for a change."""
        from barnabas.broker.security.server_ssl_context import stamps_of_stores

        if not self.uses_tls or self._stamps == stamps_of_stores(config.listener_config(self.name)):
            return False
        self.reload(config, only_stores=True)
        return True

    def principal_of(self, certificate: bytes | None) -> str:
        """Return who a verified certificate in DER stands for. Raises ValueError where no rule has a name for it."""
        if certificate is None:
            return ANONYMOUS
        from barnabas.broker.security.distinguished_name import subject_of

        return f"User:{self._mapper.name(subject_of(certificate))}"


class ListenerSecurities:
    """Those of all listeners, by name; as a service of the broker it looks after files that were replaced."""

    def __init__(
        self,
        config: BrokerConfig,
        find_scram_user: Callable[[str], FindUser],
        storage: Storage,
        warn: Callable[[str], None],
    ) -> None:
        self._config = config
        self._storage = storage
        self._warn = warn
        from barnabas.broker.security.jwks import JwksEndpoints

        self._endpoints = JwksEndpoints()
        self.by_listener = {
            one.name: ListenerSecurity(config, one, find_scram_user, warn, self._endpoints) for one in config.listeners
        }
        for listener in config.listeners:
            self._tell_of_weakness(listener)
        self._readable = ReadableSecrets()
        for line in self._readable.look(self._secret_files()):
            warn(line)
        # From here on this runs on the loop, which does not wait for other machines.
        self._endpoints.waits = False
        self._next_look = 0.0 if any(self._secret_files()) else inf
        self._is_looking = False

    def _tell_of_weakness(self, listener: Listener) -> None:
        """Say what an attacker would choose this listener for, of all there are."""
        config, name = self._config, f"listener {listener.name}"
        if config["authorizer.class.name"] and not config.authenticates(listener):
            self._warn(f"{name}: its clients do not authenticate; to the authorizer they are all {ANONYMOUS}")
        sasl = self.by_listener[listener.name].sasl
        readable = {"PLAIN", "OAUTHBEARER"}.intersection(() if sasl is None else sasl.mechanisms)
        if readable and listener.protocol == "SASL_PLAINTEXT" and not is_loopback(listener.host):
            self._warn(
                f"{name}: what proves identity by {', '.join(sorted(readable))} can be read on the way; use SASL_SSL"
            )

    def _secret_files(self) -> Iterator[SecretFile]:
        """Yield the files with secrets, as the settings name them now."""
        for name, security in self.by_listener.items():
            path = self._config.listener_config(name)["ssl.keystore.location"] if security.uses_tls else ""
            if path:
                yield SecretFile(path, "its private key", f"listener {name}")
        if self._config.secrets_file:
            yield SecretFile(self._config.secrets_file, "passwords or keys", "the broker's settings")

    def check(self, config: BrokerConfig) -> None:
        """Raise `ConfigError` when these settings could not be used."""
        for security in self.by_listener.values():
            security.check(config)

    def settings_changed(self) -> None:
        """Take over settings that have changed; a listener whose stores cannot be used goes on with those it has."""
        for security in self.by_listener.values():
            try:
                security.reload(self._config)
            except ConfigError as problem:
                self._warn(f"{problem}; it goes on with the certificates that it has")

    def next_deadline(self) -> float:
        """When files are to be looked at again."""
        return inf if self._is_looking else self._next_look

    def tick(self, instant: Instant) -> None:
        """Look at the files, beside the loop."""
        self._next_look = instant.now + _LOOK_INTERVAL
        self._is_looking = True
        said: list[str] = []

        def done() -> None:
            self._is_looking = False
            for line in said:
                self._warn(line)

        self._storage.submit(lambda: self._look(said), done)

    def _look(self, said: list[str]) -> None:
        for security in self.by_listener.values():
            try:
                if security.reload_changed_files(self._config):
                    said.append(f"listener {security.name} has new certificates, from files that were replaced")
            except (KafkaError, OSError, ValueError) as problem:
                said.append(f"{problem}; the listener goes on with the certificates that it has")
        said += self._readable.look(self._secret_files())
