"""What the settings ssl.* come to."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError
from barnabas.network.security.ssl_factory import create_ssl_context
from tests.peers.secure_kafka import Certificates


def context(**settings: Any) -> ssl.SSLContext:
    return create_ssl_context(ClientConfig("consumer", {"bootstrap.servers": "a:1"}, settings))


def parts(path: Path) -> tuple[str, str]:
    """The key and the certificates of a PEM file."""
    key, end, certificates = path.read_text().partition("-----END PRIVATE KEY-----\n")
    return key + end, certificates


def shakes_hands(client: ssl.SSLContext, certificates: Certificates) -> bool:
    """Whether a server that demands a certificate of our authority accepts this client, and it the server."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.authority)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(certificates.broker)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    other = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (one, other):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    return len(done) == 2


def test_a_pem_file_with_key_and_chain_is_a_key_store(certificates: Certificates) -> None:
    made = context(
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(certificates.client),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(certificates.authority),
    )
    assert shakes_hands(made, certificates)
    assert made.check_hostname
    assert made.verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize("line_ends", ["\n", "\\n", " "], ids=["lines", "escaped", "one line"])
def test_pem_may_be_given_as_text(certificates: Certificates, line_ends: str) -> None:
    key, chain = (text.replace("\n", line_ends) for text in parts(certificates.client))
    made = context(
        ssl_keystore_key=key,
        ssl_keystore_certificate_chain=chain,
        ssl_truststore_certificates=certificates.authority.read_text(),
    )
    assert shakes_hands(made, certificates)


def test_an_encrypted_key_needs_its_password(certificates: Certificates, tmp_path: Path) -> None:
    key = load_pem_private_key(parts(certificates.client)[0].encode(), None)
    encrypted = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2"))
    store = tmp_path / "client.pem"
    store.write_bytes(encrypted + parts(certificates.client)[1].encode())
    settings = {"ssl_keystore_location": str(store), "ssl_truststore_location": str(certificates.authority)}

    assert shakes_hands(context(**settings, ssl_key_password="hunter2"), certificates)
    for wrong in ({}, {"ssl_key_password": "hunter3"}):
        with pytest.raises(ConfigError, match=r"is ssl\.key\.password right") as caught:
            context(**settings, **wrong)
        assert "hunter" not in str(caught.value)


def test_pkcs12_stores_are_read_with_their_passwords(certificates: Certificates, tmp_path: Path) -> None:
    key_pem, chain = (text.encode() for text in parts(certificates.client))
    key = load_pem_private_key(key_pem, None)
    certificate, *others = load_pem_x509_certificates(chain)
    encryption = BestAvailableEncryption(b"hunter2")
    authority = load_pem_x509_certificate(certificates.authority.read_bytes())
    store, trust = tmp_path / "client.p12", tmp_path / "trust.p12"
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, certificate, others, encryption))  # type: ignore[arg-type]  # any key does
    trust.write_bytes(pkcs12.serialize_key_and_certificates(b"ca", None, None, [authority], encryption))
    settings = {
        "ssl_keystore_location": str(store),
        "ssl_keystore_password": "hunter2",
        "ssl_truststore_location": str(trust),
        "ssl_truststore_type": "PKCS12",
        "ssl_truststore_password": "hunter2",
    }

    assert shakes_hands(context(**settings), certificates)
    with pytest.raises(ConfigError, match=r"is ssl\.keystore\.password right") as caught:
        context(**{**settings, "ssl_keystore_password": "hunter3"})
    assert "hunter" not in str(caught.value)


def test_a_jceks_store_is_refused_with_the_commands_that_convert_it(tmp_path: Path) -> None:
    store = tmp_path / "client.jks"
    store.write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    with pytest.raises(ConfigError, match=rf"keytool -importkeystore -srckeystore {store}") as caught:
        context(ssl_keystore_location=str(store), ssl_keystore_password="hunter2")
    assert "hunter2" not in str(caught.value)


def test_without_cryptography_a_pkcs12_store_names_the_extra(tmp_path: Path) -> None:
    store = tmp_path / "client.p12"
    store.write_bytes(b"\x30\x82\x01\x00")
    program = f"""
import sys
sys.modules["cryptography"] = None
from barnabas import Producer
Producer(bootstrap_servers="a:1", security_protocol="SSL", ssl_keystore_location={str(store)!r})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "pip install barnabas[tls]" in done.stderr


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"ssl_keystore_location": "/nowhere.pem"}, "cannot be read: No such file"),
        ({"ssl_keystore_location": "/now\0here.pem"}, "cannot be read: embedded null"),
        ({"ssl_keystore_key": "x"}, "belong together"),
        ({"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}, "contains no private key in PEM"),
        (
            {"ssl_truststore_location": "/x", "ssl_truststore_certificates": "y"},
            "truststore.location and the truststore's PEM text are both given",
        ),
        ({"ssl_truststore_certificates": "y", "ssl_truststore_type": "JKS"}, "is PEM, not JKS"),
        ({"ssl_truststore_location": "/x", "ssl_truststore_type": "BKS"}, "ssl.truststore.type=BKS is not supported"),
        ({"ssl_enabled_protocols": "SSLv3"}, "there are TLSv1.1, TLSv1.2, TLSv1.3"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "https compares"),
        ({"ssl_cipher_suites": "TLS_NULL_WITH_NOTHING"}, "OpenSSL knows none of these"),
        ({"ssl_cipher_suites": "TLS_AES_256_GCM_SHA384"}, "all or none"),
        ({"ssl_context": "default"}, "must be an ssl.SSLContext, not str"),
        ({"ssl_context": ssl.create_default_context(), "ssl_keystore_location": "/x"}, "would have no effect"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        context(**settings)


def test_a_password_for_a_pem_file_is_a_misunderstanding(certificates: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"is ssl\.key\.password"):
        context(ssl_keystore_location=str(certificates.client), ssl_keystore_password="hunter2")


def test_a_trust_store_without_certificates_is_said(tmp_path: Path) -> None:
    store = tmp_path / "trust.pem"
    store.write_text("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n")
    with pytest.raises(ConfigError, match="contains no certificate in PEM"):
        context(ssl_truststore_location=str(store))


def test_versions_and_cipher_suites_have_javas_names() -> None:
    made = context(
        ssl_enabled_protocols="TLSv1.2",
        ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    )
    assert (made.minimum_version, made.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    names = {cipher["name"] for cipher in made.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"}


def test_only_suites_of_tls_13_mean_only_tls_13() -> None:
    names = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert context(ssl_cipher_suites=names).minimum_version == ssl.TLSVersion.TLSv1_3


def test_a_given_context_is_used_as_it_is() -> None:
    given = ssl.create_default_context()
    assert context(ssl_context=given) is given


def test_no_key_is_left_in_a_file(certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert shakes_hands(
        context(ssl_keystore_location=str(certificates.client), ssl_truststore_location=str(certificates.authority)),
        certificates,
    )
    assert not list(tmp_path.iterdir())
