"""SCRAM: the exchanges of the RFCs, and brokers that do not play by them."""

from __future__ import annotations

import base64
import hashlib

import pytest

from barnabas.errors import ConfigError, SaslAuthenticationError
from barnabas.network.security.sasl_client import Work
from barnabas.network.security.scram_sasl_client import ScramSaslClient

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def run(step: object) -> bytes:
    assert isinstance(step, Work)
    return step.run()


def test_the_exchange_of_rfc_7677() -> None:
    client = ScramSaslClient("SCRAM-SHA-256", "user", "pencil", NONCE)

    assert client.initial_response() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert run(client.evaluate_challenge(SERVER_FIRST)) == CLIENT_FINAL
    assert not client.is_complete
    assert client.evaluate_challenge(SERVER_FINAL) is None
    assert client.is_complete


def test_names_are_escaped_and_delegation_tokens_marked() -> None:
    client = ScramSaslClient("SCRAM-SHA-512", "a=b,c", "x", "nonce", is_token=True)
    assert client.initial_response() == b"n,,n=a=3Db=2Cc,r=nonce,tokenauth=true"


def test_a_broker_that_does_not_know_the_password_is_found_out() -> None:
    client = ScramSaslClient("SCRAM-SHA-256", "user", "pencil", NONCE)
    run(client.evaluate_challenge(SERVER_FIRST))

    forged = b"v=" + base64.b64encode(hashlib.sha256(b"guess").digest())

    with pytest.raises(SaslAuthenticationError, match="does not know this user's password"):
        client.evaluate_challenge(forged)
    assert not client.is_complete


@pytest.mark.parametrize(
    ("challenge", "problem"),
    [
        (b"r=other,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not extend"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not extend"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "'4095' SCRAM iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "'999999999' SCRAM iterations"),
        (SERVER_FIRST.replace(b"4096", b"9" * 5000), "SCRAM iterations"),
        (SERVER_FIRST.replace(b"4096", b"-1"), "SCRAM iterations"),
        (SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b"!"), "is not base64"),
        (SERVER_FIRST.replace(b"W22ZaJ0SNY7soEsUEjb6gQ==", b""), "a salt of 0 bytes"),
        (b"m=x," + SERVER_FIRST, "extension that does not exist"),
        (b"e=other-error", "other-error"),
        (b"\xff", "not UTF-8"),
        (b"", "does not extend"),
    ],
)
def test_a_challenge_that_breaks_the_rules_ends_the_exchange(challenge: bytes, problem: str) -> None:
    client = ScramSaslClient("SCRAM-SHA-256", "user", "pencil", NONCE)
    with pytest.raises(SaslAuthenticationError, match=problem) as caught:
        client.evaluate_challenge(challenge)
    assert "pencil" not in str(caught.value)


def test_other_mechanisms_are_refused() -> None:
    with pytest.raises(ConfigError, match="SCRAM-SHA-256 and SCRAM-SHA-512"):
        ScramSaslClient("SCRAM-SHA-1", "user", "pencil", NONCE)
