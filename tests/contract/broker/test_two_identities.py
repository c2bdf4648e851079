"""Who a client is where it shows a certificate and logs in, too: over sockets, with TLS and SASL at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient
from barnabas.errors import ClusterAuthorizationError, SaslAuthenticationError, SslAuthenticationError
from tests.contract.waiting import eventually
from tests.peers.secure_kafka import Certificates
from tests.support.secured_broker import SecuredBroker, secured_broker

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="a" user_bob="b";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    settings = {
        "listeners": "BOTH://localhost:0,CERTIFICATE://localhost:0",
        "listener.security.protocol.map": "BOTH:SASL_SSL,CERTIFICATE:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "ssl.client.auth": "required",
        # Who shows the client's certificate is the administrator.
        "ssl.principal.mapping.rules": "RULE:^.*$/admin/",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.both.plain.sasl.jaas.config": PLAIN,
        "authorizer.class.name": "standard",
        "super.users": "User:admin",
        "connection.failed.authentication.delay.ms": "0",
    }
    with secured_broker(tmp_path_factory.mktemp("both"), settings) as running:
        yield running


def ask(broker: SecuredBroker, certificates: Certificates, listener: str, **more: str | Path) -> int:
    """How many ACLs there are, which the administrator alone may know."""
    settings: dict[str, Any] = {
        "bootstrap.servers": broker.servers[listener],
        "security.protocol": "SASL_SSL" if listener == "BOTH" else "SSL",
        "ssl.truststore.location": str(certificates.authority),
        "default.api.timeout.ms": 20_000,
        **{name.replace("_", "."): str(value) for name, value in more.items()},
    }
    if listener == "BOTH":
        settings["sasl.mechanism"] = "PLAIN"
    with AdminClient(settings) as admin:
        return len(list(admin.describe_acls()))


def test_the_certificate_alone_is_the_administrators(broker: SecuredBroker, certificates: Certificates) -> None:
    assert ask(broker, certificates, "CERTIFICATE", ssl_keystore_location=certificates.client) == 0


def test_beside_a_login_it_gives_no_right(broker: SecuredBroker, certificates: Certificates) -> None:
    shown: dict[str, Any] = {"ssl_keystore_location": certificates.client}
    with pytest.raises(ClusterAuthorizationError):
        ask(broker, certificates, "BOTH", sasl_username="bob", sasl_password="b", **shown)
    eventually(lambda: "Principal = User:bob is denied" in broker.log)
    assert ask(broker, certificates, "BOTH", sasl_username="admin", sasl_password="a", **shown) == 0


def test_the_administrators_certificate_is_no_password(broker: SecuredBroker, certificates: Certificates) -> None:
    with pytest.raises(SaslAuthenticationError):
        ask(
            broker, certificates, "BOTH",
            sasl_username="admin", sasl_password="wrong", ssl_keystore_location=certificates.client,
        )  # fmt: skip


@pytest.mark.parametrize("certificate", ["stranger", None])
def test_a_login_is_no_certificate(broker: SecuredBroker, certificates: Certificates, certificate: str | None) -> None:
    shown = {} if certificate is None else {"ssl_keystore_location": getattr(certificates, certificate)}
    with pytest.raises(SslAuthenticationError):
        ask(broker, certificates, "BOTH", sasl_username="admin", sasl_password="a", **shown)
