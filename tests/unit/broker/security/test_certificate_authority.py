"""The authority that `barnabas up --secure` makes, and what it issues."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from barnabas.broker.security.certificate_authority import CertificateAuthority

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["kafka.example.org", "localhost", "127.0.0.1", "::1"]


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.make(NOW)


def handshake(server_pem: bytes, trusted: bytes, name: str, folder: Path) -> str | None:
    """Connect in memory; gives the version of TLS that was agreed on."""
    (folder / "server.pem").write_bytes(server_pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    client = ssl.create_default_context(cadata=trusted.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends[0].version()


@pytest.mark.parametrize("name", NAMES)
def test_clients_that_trust_it_are_let_in_by_each_name(name: str, tmp_path: Path) -> None:
    made = CertificateAuthority.make(datetime.now(UTC))
    issued = made.issue(NAMES, datetime.now(UTC))
    assert handshake(issued, made.certificate_pem, name, tmp_path) == "TLSv1.3"


@pytest.mark.parametrize("name", ["other.example.org", "127.0.0.2"])
def test_no_other_name_is_its_own(name: str, tmp_path: Path) -> None:
    made = CertificateAuthority.make(datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made.issue(NAMES, datetime.now(UTC)), made.certificate_pem, name, tmp_path)


def test_another_authority_vouches_for_nothing(tmp_path: Path) -> None:
    made, other = (CertificateAuthority.make(datetime.now(UTC)) for _ in "ab")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(made.issue(NAMES, datetime.now(UTC)), other.certificate_pem, "localhost", tmp_path)


def test_a_certificate_is_kept_while_it_is_valid_and_has_all_names(authority: CertificateAuthority) -> None:
    issued = authority.issue(NAMES, NOW)
    assert authority.is_current(issued, NAMES[:2], NOW + timedelta(days=300))
    assert not authority.is_current(issued, NAMES, NOW + timedelta(days=308))
    assert not authority.is_current(issued, [*NAMES, "10.0.0.7"], NOW)
    assert not CertificateAuthority.make(NOW).is_current(issued, NAMES, NOW)
    assert not authority.is_current(issued[: len(issued) // 2], NAMES, NOW)


def test_it_is_the_same_one_after_it_was_stored(authority: CertificateAuthority) -> None:
    again = CertificateAuthority.load(authority.key_pem, authority.certificate_pem)
    assert again.is_current(authority.issue(NAMES, NOW), NAMES, NOW)
    with pytest.raises(ValueError, match="PEM"):
        CertificateAuthority.load(authority.key_pem, b"no certificate")
