"""An Apache Kafka with TLS and SASL on listeners of its own, and the certificates for it; and ours on its settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.peers.apache_kafka import ApacheKafka, free_port
from tests.support import token_endpoint
from tests.support.secured_broker import secured_broker

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

USER, PASSWORD = "alice", 'a "quoted", long=secret'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "OIDC": "SASL_PLAINTEXT",
}
_LOGIN = "org.apache.kafka.common.security"
#: How long a session on the listener SHORT lasts before the broker closes the connection; it refuses a renewal within
#: one second, and clients renew after 85% of it; they have 0.75 s for that.
SESSION_MS = 5000
_SINGLE = {"process.roles": "broker,controller", "controller.listener.names": "CONTROLLER"}


class Certificates(NamedTuple):
    """Paths of PEM files: who is trusted, the broker's and the client's key with certificate, and a stranger's."""

    authority: Path
    broker: Path
    client: Path
    stranger: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """New ones; the broker's is for localhost."""
        import trustme

        authority, other = trustme.CA(), trustme.CA()
        paths = cls(*(folder / f"{name}.pem" for name in cls._fields))
        authority.cert_pem.write_to_path(str(paths.authority))
        for path, issuer, names in (
            (paths.broker, authority, ("localhost",)),
            (paths.client, authority, ("client@example.org",)),
            (paths.stranger, other, ("stranger@example.org",)),
        ):
            _write(path, issuer.issue_cert(*names))
        return paths


def _write(path: Path, certificate: Any) -> None:
    """Java reads private keys in PKCS#8 only."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )

    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(pem + b"".join(blob.bytes() for blob in certificate.cert_chain_pems))


class SecureKafka(NamedTuple):
    """`servers` are the addresses by listener: PLAIN (the harmless one), TLS, MUTUAL, SASL, SASLTLS, SHORT, OIDC.

    OIDC takes the tokens that `identity_key` signed (tests/support/token_endpoint.py).
    """

    servers: dict[str, str]
    certificates: Certificates
    identity_key: RSAPrivateKey


@contextmanager
def secure_kafka() -> Iterator[SecureKafka]:
    """Start it; USER with PASSWORD may use every mechanism, for OAUTHBEARER any unsigned token will do, but on OIDC."""
    with tempfile.TemporaryDirectory(prefix="secure-kafka-") as name:
        certificates = Certificates.make(Path(name))
        identity_key = token_endpoint.rsa_key()
        keys = Path(name) / "jwks.json"
        keys.write_text(json.dumps(token_endpoint.TokenEndpoint(identity_key, {}).jwks), encoding="utf-8")
        ports = {listener: free_port() for listener in PROTOCOLS}
        # Brokers read keys from nowhere else.
        system = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": keys.as_uri()}
        kafka = ApacheKafka(heap="512m", system=system)
        listeners = [f"{listener}://localhost:{port}" for listener, port in ports.items()]
        inner = f"PLAINTEXT://127.0.0.1:{kafka.port}"
        kafka.settings.update(server_properties(certificates, keys))
        kafka.settings["listeners"] = ",".join([inner, f"CONTROLLER://127.0.0.1:{kafka.controller_port}", *listeners])
        kafka.settings["advertised.listeners"] = ",".join([inner, *listeners])
        with kafka:
            _create_scram_user(kafka.bootstrap_servers)
            servers = {listener: f"localhost:{port}" for listener, port in ports.items()}
            yield SecureKafka({"PLAIN": kafka.bootstrap_servers, **servers}, certificates, identity_key)


@contextmanager
def secure_barnabas() -> Iterator[SecureKafka]:
    """Start the barnabas broker on the same settings, word for word."""
    with tempfile.TemporaryDirectory(prefix="secure-barnabas-") as name:
        certificates = Certificates.make(Path(name))
        identity_key = token_endpoint.rsa_key()
        keys = Path(name) / "jwks.json"
        keys.write_text(json.dumps(token_endpoint.TokenEndpoint(identity_key, {}).jwks), encoding="utf-8")
        addresses = [f"{listener}://localhost:0" for listener in PROTOCOLS]
        listeners = ",".join(["PLAINTEXT://127.0.0.1:0", "CONTROLLER://127.0.0.1:1", *addresses])
        settings = {**server_properties(certificates, keys), "listeners": listeners, **_SINGLE}
        with secured_broker(Path(name) / "broker", settings) as broker:
            _create_scram_user(broker.servers["PLAINTEXT"])
            yield SecureKafka({"PLAIN": broker.servers["PLAINTEXT"], **broker.servers}, certificates, identity_key)


def server_properties(certificates: Certificates, keys: Path) -> dict[str, str]:
    """The settings of such a broker, all but its listeners' addresses and what is Java's own."""
    return _settings(certificates) | _oidc_settings(keys)


def _settings(certificates: Certificates) -> dict[str, str]:
    protocols = {**PROTOCOLS, "PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    settings = {
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "listener.name.mutual.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "delegation.token.secret.key": "a secret of the tests",
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
        "connection.failed.authentication.delay.ms": "0",
    }
    password = PASSWORD.replace('"', '\\\\"')
    modules = {
        "plain": f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{password}";',
        "scram-sha-256": f"{_LOGIN}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_LOGIN}.scram.ScramLoginModule required;",
        "oauthbearer": f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";',
    }
    for listener in ("sasl", "sasltls", "short", "oidc"):
        for mechanism, module in modules.items():
            settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = module
    return settings


def _oidc_settings(keys: Path) -> dict[str, str]:
    settings = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.server.callback.handler.class": f"{_LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": token_endpoint.AUDIENCE,
        "sasl.oauthbearer.expected.issuer": token_endpoint.ISSUER,
    }
    return {f"listener.name.oidc.{name}": value for name, value in settings.items()}


def _create_scram_user(servers: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": servers})
    # Each in a request of its own: a user may be altered once in one.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(30)
