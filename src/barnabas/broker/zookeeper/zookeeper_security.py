"""How a broker shows ZooKeeper who it is, and what others may do with its znodes (KafkaZkClient.defaultAcls of 3.9)."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from barnabas.config.config import Config
from barnabas.errors import ConfigError
from barnabas.network.security.jaas_config import parse_jaas_config
from barnabas.network.security.ssl_factory import create_ssl_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_TLS = "zookeeper.ssl."
_ENABLED = "zookeeper.ssl.client.enable"
_SOCKET, _NETTY = "zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty"
_JAAS, _LOGIN_MODULE = "zookeeper.sasl.jaas.config", "DigestLoginModule"
#: Kafka's scripts give these options to the JVM; one of them names the file with the login to ZooKeeper.
_OPTIONS, _LOGIN_FILE = "KAFKA_OPTS", re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")
_CLIENT_SECTION = re.compile(r"(?<!\w)Client\s*\{(.*?)\}\s*;", re.DOTALL)
#: What others may not read where znodes have owners; old consumers write below the other one themselves.
_SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens")
_OF_ALL = "/consumers"
_STORES = (
    ("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password"),
    ("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.password"),
)
_TYPES = {".pem": "PEM", ".p12": "PKCS12", ".pfx": "PKCS12"}


class Login(NamedTuple):
    """A user of SASL's DIGEST-MD5."""

    user: str
    password: str


class ZooKeeperSecurity(NamedTuple):
    """TLS, a login, and whether znodes belong to who has made them; None and False for each that is not used."""

    context: ssl.SSLContext | None = None
    login: Login | None = None
    sets_acl: bool = False

    def owns(self, path: str) -> bool:
        """Whether a znode is this client's alone to change."""
        return self.sets_acl and path != _OF_ALL

    def hides(self, path: str) -> bool:
        """Whether others may not even read it."""
        return path.startswith(_SENSITIVE)


def zookeeper_security(config: Config, environment: Mapping[str, str] = os.environ) -> ZooKeeperSecurity:
    """Return what the settings `zookeeper.ssl.*`, `zookeeper.set.acl` and the login say. Raises `ConfigError`.

    The login is a DigestLoginModule: in `zookeeper.sasl.jaas.config`, or in the section `Client` of the file that
    KAFKA_OPTS names for Apache Kafka's brokers.
    """
    context = _context(config) if config.get_bool(_ENABLED) else None
    login = _login(config, environment)
    sets_acl = config.get_bool("zookeeper.set.acl")
    has_certificate = context is not None and config[f"{_TLS}keystore.location"]
    if sets_acl and login is None and not has_certificate:
        raise ConfigError(
            f"zookeeper.set.acl=true gives znodes an owner, and this broker shows ZooKeeper nothing that it is: set "
            f"{_JAAS} to a {_LOGIN_MODULE}, or {_ENABLED}=true with {_TLS}keystore.location"
        )
    return ZooKeeperSecurity(context, login, sets_acl)


def _context(config: Config) -> ssl.SSLContext:
    for name in ("crl.enable", "ocsp.enable"):
        if config.get_bool(f"{_TLS}{name}"):
            raise ConfigError(f"{_TLS}{name}=true is not supported: revoked certificates are not looked up; remove it")
    socket = config[_SOCKET]
    if socket and socket != _NETTY:
        raise ConfigError(f"{_SOCKET}={socket} cannot do TLS, which {_ENABLED}=true asks for: set it to {_NETTY}")
    found: dict[str, object] = {
        "ssl.endpoint.identification.algorithm": config[f"{_TLS}endpoint.identification.algorithm"] or "",
        "ssl.cipher.suites": config[f"{_TLS}cipher.suites"] or [],
    }
    if config[f"{_TLS}enabled.protocols"]:
        found["ssl.enabled.protocols"] = config[f"{_TLS}enabled.protocols"]
    for location, kind, password in _STORES:
        path = config[f"zookeeper.{location}"]
        if path:
            found[location] = path
            found[kind] = config[f"zookeeper.{kind}"] or _type_of(path)
            if config[f"zookeeper.{password}"] is not None:
                found[password] = config[f"zookeeper.{password}"]
    try:
        return create_ssl_context(Config("admin", {"security.protocol": "SSL", **found}))
    except ConfigError as problem:
        raise ConfigError(f"{_ENABLED}=true: zookeeper.{problem}") from None


def _type_of(location: str) -> str:
    """Return the kind of a store as ZooKeeper's client guesses it, by the end of its name."""
    return _TYPES.get(os.path.splitext(location)[1].lower(), "JKS")


def _login(config: Config, environment: Mapping[str, str]) -> Login | None:
    secret = config[_JAAS]
    where = _JAAS
    text = None if secret is None else secret.value
    if text is None:
        named = _LOGIN_FILE.search(environment.get(_OPTIONS, ""))
        if named is None:
            return None
        where = named[1].strip("'\"")
        text = _client_section(where)
        if text is None:
            return None
    try:
        module = parse_jaas_config(text)
    except ConfigError as problem:
        raise ConfigError(f"{where}: the login to ZooKeeper: {problem}") from None
    missing = [name for name in ("username", "password") if name not in module.options]
    if module.name != _LOGIN_MODULE or missing:
        raise ConfigError(
            f"{where}: the login to ZooKeeper is a {module.name}"
            + (f" without {' and '.join(missing)}" if missing else "")
            + f'; it must be org.apache.zookeeper.server.auth.{_LOGIN_MODULE} required username="..." password="...";'
        )
    return Login(module.options["username"], module.options["password"])


def _client_section(path: str) -> str | None:
    """Return the login module of the section `Client` in a JAAS file; None where it has no such section."""
    try:
        with open(path, encoding="utf-8") as file:
            found = _CLIENT_SECTION.search(file.read())
    except OSError as problem:
        raise ConfigError(f"{_OPTIONS} names {path} for the login to ZooKeeper: {problem.strerror}") from None
    return None if found is None else found[1].strip()
