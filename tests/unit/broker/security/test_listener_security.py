"""What the settings `ssl.*` of a listener make of a handshake, in memory."""

from __future__ import annotations

import copy
import random
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.instant import Instant
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.security.certificate_authority import CertificateAuthority
from barnabas.broker.security.listener_security import ANONYMOUS, ListenerSecurities
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.broker.storage_threads import InlineStorage
from barnabas.errors import ConfigError
from tests.peers.secure_kafka import Certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


def config_of(certificates: Certificates, **more: Any) -> BrokerConfig:
    settings = {
        "listeners": "SSL://localhost:0",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.location": str(certificates.authority),
    }
    settings.update({name.replace("_", "."): value for name, value in more.items()})
    return BrokerConfig({name: value for name, value in settings.items() if value is not None})


def securities_of(config: BrokerConfig, said: list[str] | None = None) -> ListenerSecurities:
    metadata = ClusterMetadata(MemoryStore())
    return ListenerSecurities(
        config, ScramUsers(metadata).finder, InlineStorage(), ([] if said is None else said).append
    )


class Handshake:
    """Both ends of one. Raises ssl.SSLError where they do not come together."""

    def __init__(self, config: BrokerConfig, certificates: Certificates, key: Path | None = None, **limits: Any):
        security = securities_of(config).by_listener["SSL"]
        assert security.ssl_context is not None
        context = ssl.create_default_context(cafile=str(certificates.authority))
        for name, value in limits.items():
            setattr(context, name, value)
        if key is not None:
            context.load_cert_chain(key)
        to_broker, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.broker = security.ssl_context.wrap_bio(to_broker, to_client, server_side=True)
        self.client = context.wrap_bio(to_client, to_broker, server_hostname="localhost")
        done = set()
        for turn in range(8):
            end = (self.client, self.broker)[turn % 2]
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
        assert len(done) == 2
        self.principal = security.principal_of(self.broker.getpeercert(binary_form=True))


def test_the_best_version_with_a_suite_of_forward_secrecy(certificates: Certificates) -> None:
    assert Handshake(config_of(certificates), certificates).client.version() == "TLSv1.3"
    older = Handshake(config_of(certificates), certificates, maximum_version=ssl.TLSVersion.TLSv1_2)
    suite = older.client.cipher()
    assert suite is not None
    assert suite[0].startswith("ECDHE")


def test_only_the_enabled_versions(certificates: Certificates) -> None:
    config = config_of(certificates, ssl_enabled_protocols="TLSv1.2")
    assert Handshake(config, certificates).client.version() == "TLSv1.2"


def test_only_the_named_suites(certificates: Certificates) -> None:
    config = config_of(certificates, ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
    suite = Handshake(config, certificates).client.cipher()
    assert suite is not None
    assert suite[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


@pytest.mark.parametrize(
    ("auth", "key", "principal"),
    [
        ("none", "client", ANONYMOUS),
        ("requested", None, ANONYMOUS),
        ("requested", "client", "User:"),
        ("required", "client", "User:"),
        ("required", None, None),
        ("required", "stranger", None),
        ("requested", "stranger", None),
    ],
)
def test_who_a_client_is_by_its_certificate(
    certificates: Certificates, auth: str, key: str | None, principal: str | None
) -> None:
    config = config_of(certificates, ssl_client_auth=auth, ssl_principal_mapping_rules="RULE:^.*$/someone/L,DEFAULT")
    of_client = getattr(certificates, key) if key else None
    if principal is None:
        with pytest.raises(ssl.SSLError):
            Handshake(config, certificates, of_client)
    else:
        found = Handshake(config, certificates, of_client).principal
        assert found == (ANONYMOUS if principal == ANONYMOUS else "User:someone")


def test_without_rules_it_is_the_subject(certificates: Certificates) -> None:
    found = Handshake(config_of(certificates, ssl_client_auth="required"), certificates, certificates.client).principal
    assert found.startswith("User:")
    assert "OU=" in found or "O=" in found


def test_what_the_trust_store_holds_decides(certificates: Certificates, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Certificates.make(tmp_path / "other")
    for truststore in (
        {"location": str(other.authority)},
        {"certificates": other.authority.read_text(), "type": "PEM"},
    ):
        more = {f"ssl_truststore_{name}": value for name, value in truststore.items()}
        config = config_of(certificates, ssl_client_auth="required", **{"ssl_truststore_location": None, **more})
        with pytest.raises(ssl.SSLError):
            Handshake(config, certificates, certificates.client)
    right = {"ssl_truststore_certificates": certificates.authority.read_text(), "ssl_truststore_location": None}
    config = config_of(certificates, ssl_client_auth="required", **right)
    assert Handshake(config, certificates, certificates.client).principal.startswith("User:")


def test_a_key_store_as_text_with_a_password(certificates: Certificates) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    pem = certificates.broker.read_bytes()
    key = load_pem_private_key(pem, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    settings = {
        "ssl_keystore_location": None,
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": key.decode(),
        "ssl_keystore_certificate_chain": pem.decode(),
    }
    assert Handshake(config_of(certificates, **settings, ssl_key_password="secret"), certificates).client.version()
    with pytest.raises(ConfigError, match=r"ssl\.key\.password") as caught:
        securities_of(config_of(certificates, **settings, ssl_key_password="public"))
    assert "public" not in str(caught.value)


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_passwords_and_types_of_stores(certificates: Certificates, tmp_path: Path, store: str) -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
    from cryptography.x509 import load_pem_x509_certificates

    path = tmp_path / "store.p12"
    if store == "keystore":
        pem = certificates.broker.read_bytes()
        key, chain = load_pem_private_key(pem, None), load_pem_x509_certificates(pem)
        data = pkcs12.serialize_key_and_certificates(b"b", key, chain[0], None, BestAvailableEncryption(b"secret"))  # type: ignore[arg-type]  # any key does
    else:
        found = load_pem_x509_certificates(certificates.authority.read_bytes())
        data = pkcs12.serialize_key_and_certificates(b"a", None, None, found, BestAvailableEncryption(b"secret"))
    path.write_bytes(data)
    given = {f"ssl_{store}_location": str(path), "ssl_client_auth": "required"}
    right = config_of(certificates, **given, **{f"ssl_{store}_password": "secret", f"ssl_{store}_type": "PKCS12"})
    assert Handshake(right, certificates, certificates.client).client.version()
    with pytest.raises(ConfigError, match=rf"ssl\.{store}\.password"):
        securities_of(config_of(certificates, **given, **{f"ssl_{store}_password": "public"}))
    with pytest.raises(ConfigError, match="PEM"):
        securities_of(config_of(certificates, **given, **{f"ssl_{store}_type": "PEM"}))


def test_files_are_looked_at_every_few_seconds(certificates: Certificates, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    new, said = Certificates.make(tmp_path / "new"), list[str]()
    path = tmp_path / "broker.pem"
    path.write_bytes(certificates.broker.read_bytes())
    securities = securities_of(
        config_of(certificates, ssl_keystore_location=str(path), ssl_allow_dn_changes="true"), said
    )
    security, now = securities.by_listener["SSL"], 100.0

    def look() -> list[str]:
        nonlocal now
        now = max(now, securities.next_deadline())
        securities.tick(Instant(now, 0))
        found = list(said)
        said.clear()
        return found

    first = security.ssl_context
    assert look() == []
    path.write_text(f"nothing {random.Random(1).random()}")
    assert "goes on with the certificates that it has" in look()[0]
    assert look() == []
    assert security.ssl_context is first
    path.write_bytes(new.broker.read_bytes())
    assert "has new certificates" in look()[0]
    assert security.ssl_context is not first
    path.unlink()
    assert "cannot be read" in look()[0]
    assert look() == []


def test_plain_listeners_need_no_look() -> None:
    assert securities_of(BrokerConfig()).next_deadline() == float("inf")


class TestWhoMayFollow:
    """A key store that replaces another says that it is the same broker (KIP-978)."""

    NOW = datetime.now(UTC)

    def follow(self, tmp_path: Path, first: list[str], second: list[str], **settings: str) -> str:
        """What the operator is told when the second certificate has replaced the first."""
        authority, path, said = CertificateAuthority.make(self.NOW), tmp_path / "broker.pem", list[str]()
        path.write_bytes(authority.issue(first, self.NOW))
        config = BrokerConfig({"listeners": "SSL://localhost:0", "ssl.keystore.location": str(path), **settings})
        securities = securities_of(config, said)
        before = securities.by_listener["SSL"].ssl_context
        path.write_bytes(authority.issue(second, self.NOW))
        securities.tick(Instant(100.0, 0))
        assert ("goes on" in said[0]) == (securities.by_listener["SSL"].ssl_context is before)
        return said[0]

    def test_the_same_names_in_any_order_and_more_of_them(self, tmp_path: Path) -> None:
        first = ["a.example.org", "b.example.org", "10.0.0.1", "::1"]
        second = ["a.example.org", "::1", "10.0.0.1", "b.example.org", "c.example.org"]
        assert "new certificates" in self.follow(tmp_path, first, second)

    def test_another_subject_only_where_that_is_allowed(self, tmp_path: Path) -> None:
        names = ["a.example.org", "b.example.org"], ["b.example.org", "a.example.org"]
        told = self.follow(tmp_path, *names)
        assert "DistinguishedName does not match: existing={DN=CN=a.example.org}, new={DN=CN=b.example.org}" in told
        assert "new certificates" in self.follow(tmp_path, *names, **{"ssl.allow.dn.changes": "true"})

    def test_fewer_names_only_where_that_is_allowed(self, tmp_path: Path) -> None:
        names = ["a.example.org", "10.0.0.1"], ["a.example.org"]
        assert "SubjectAltNames do not match: the new certificate lacks IP:10.0.0.1" in self.follow(tmp_path, *names)
        allowed = {"listener.name.ssl.ssl.allow.san.changes": "true"}
        assert "new certificates" in self.follow(tmp_path, *names, **allowed)

    def test_an_operator_who_sets_it_is_told_at_once(self, tmp_path: Path) -> None:
        authority = CertificateAuthority.make(self.NOW)
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(authority.issue([f"{name}.example.org"], self.NOW))
        config = BrokerConfig({"listeners": "SSL://localhost:0", "ssl.keystore.location": str(tmp_path / "a")})
        securities = securities_of(config)
        candidate = copy.copy(config)
        candidate.apply_dynamic({}, {"listener.name.ssl.ssl.keystore.location": str(tmp_path / "b")})
        with pytest.raises(ConfigError, match="DistinguishedName does not match"):
            securities.check(candidate)
