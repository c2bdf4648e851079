"""Which tokens a listener with OAUTHBEARER takes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from tests.support import token_endpoint
from tests.support.core_broker import START_MS, CoreBroker
from tests.support.sasl_conversation import (
    FAILED,
    bearer,
    broker_with,
    handshake,
    say,
)


@pytest.fixture
def broker() -> CoreBroker:
    return broker_with()


class TestTokens:
    NOW = START_MS // 1000

    @pytest.mark.parametrize(
        ("claims", "allowed"),
        [
            ({"sub": "dora", "exp": NOW + 60}, True),
            ({"sub": "dora", "exp": NOW - 29}, True),
            ({"sub": "dora", "exp": NOW - 31}, False),
            ({"sub": "dora", "exp": NOW + 60, "nbf": NOW + 31}, False),
            ({"sub": "dora", "exp": NOW + 60, "iat": NOW + 31}, False),
            ({"sub": "dora"}, False),
            ({"exp": NOW + 60}, False),
            ({"sub": " ", "exp": NOW + 60}, False),
            ({"sub": 7, "exp": NOW + 60}, False),
            ({"sub": "dora", "exp": "soon"}, False),
        ],
    )
    def test_claims_of_unsigned_ones(self, broker: CoreBroker, claims: dict[str, Any], allowed: bool) -> None:
        client = broker.connect("SASL")
        handshake(client, "OAUTHBEARER")
        answer = say(client, bearer(unsecured_jwt(claims)))
        assert (answer.auth_bytes == b"") == allowed
        if not allowed:
            assert answer.auth_bytes == b'{"status":"invalid_token"}'
            assert say(client, b"\x01").error_code == FAILED
        else:
            assert client.connection.info.principal == "User:dora"
            assert answer.session_lifetime_ms == max(1, (claims["exp"] - self.NOW) * 1000)

    @pytest.mark.parametrize("skew", [0, 100])
    def test_the_clock_skew_is_the_listeners(self, skew: int) -> None:
        broker = broker_with(sasl__oauthbearer__clock__skew__seconds=skew)
        client = broker.connect("SASL")
        handshake(client, "OAUTHBEARER")
        answer = say(client, bearer(unsecured_jwt({"sub": "dora", "exp": self.NOW - 50})))
        assert (answer.auth_bytes == b"") == (skew == 100)

    @pytest.mark.parametrize(
        "message",
        [
            b"n,,\x01auth=Basic abc\x01\x01",
            b"n,,\x01auth=Bearer a b\x01\x01",
            b"n,,\x01auth=Bearer abc\x01auth=x\x01\x01",
            b"",
            b"n,a=other,\x01auth=Bearer %s\x01\x01" % unsecured_jwt({"sub": "dora", "exp": NOW + 60}).encode(),
        ],
    )
    def test_messages_that_are_none(self, broker: CoreBroker, message: bytes) -> None:
        client = broker.connect("SASL")
        handshake(client, "OAUTHBEARER")
        assert say(client, message).error_code == FAILED


class TestSignedTokens:
    KEY = token_endpoint.rsa_key()

    def broker(self, folder: Path, **more: Any) -> CoreBroker:
        jwks = folder / "jwks.json"
        jwks.write_text(json.dumps(token_endpoint.TokenEndpoint(self.KEY, {}).jwks))
        settings = {
            "sasl__oauthbearer__jwks__endpoint__url": jwks.as_uri(),
            "sasl__oauthbearer__expected__audience": token_endpoint.AUDIENCE,
            "sasl__oauthbearer__expected__issuer": token_endpoint.ISSUER,
        }
        return broker_with(**{**settings, **more})

    def answer(self, broker: CoreBroker, token: str) -> bytes:
        client = broker.connect("SASL")
        # The virtual clock is years behind that of the endpoint.
        broker.now = 100.0 + time.time() - START_MS / 1000
        handshake(client, "OAUTHBEARER")
        answer = say(client, bearer(token))
        self.principal = client.connection.info.principal
        found: bytes = answer.auth_bytes
        return found

    def token(self, key: Any = None, **claims: Any) -> str:
        return token_endpoint.TokenEndpoint(key or self.KEY, {}).token("dora", **claims)

    def test_one_of_the_issuer_for_this_audience(self, tmp_path: Path) -> None:
        assert self.answer(self.broker(tmp_path), self.token()) == b""
        assert self.principal == "User:dora"

    def test_the_claim_with_the_name_is_the_listeners(self, tmp_path: Path) -> None:
        broker = self.broker(tmp_path, sasl__oauthbearer__sub__claim__name="client")
        assert self.answer(broker, self.token(client="bot")) == b""
        assert self.principal == "User:bot"

    @pytest.mark.parametrize("claims", [{"aud": "x"}, {"iss": "x"}, {"exp": 1}, {"aud": None}, {"sub": None}])
    def test_one_for_others_is_refused(self, tmp_path: Path, claims: dict[str, Any]) -> None:
        assert self.answer(self.broker(tmp_path), self.token(**claims)) != b""

    def test_audience_and_issuer_are_asked_for_where_they_are_set(self, tmp_path: Path) -> None:
        broker = self.broker(tmp_path, sasl__oauthbearer__expected__audience="")
        assert self.answer(broker, self.token(aud="x")) == b""
        broker = self.broker(tmp_path, sasl__oauthbearer__expected__issuer=None)
        assert self.answer(broker, self.token(iss="x")) == b""

    def test_signatures_that_prove_nothing(self, tmp_path: Path) -> None:
        import jwt

        broker = self.broker(tmp_path)
        claims = jwt.decode(self.token(), options={"verify_signature": False})
        header, body, signature = self.token().split(".")
        for token in (
            self.token(token_endpoint.rsa_key()),
            unsecured_jwt(claims),
            jwt.encode(claims, "a secret that both sides have" * 3, "HS256", {"kid": token_endpoint.KEY_ID}),
            jwt.encode(claims, self.KEY, "RS256", {"kid": "unknown"}),
            f"{header}.{body}.",
            f"{header}.{unsecured_jwt({**claims, 'sub': 'admin'}).split('.')[1]}.{signature}",
            f"{header}.{body}.{signature[:-8]}",
            "a.b.c",
            "[" * 60_000,
        ):
            client_answer = self.answer(broker, token.replace("[", "A"))
            assert client_answer != b"", token[:100]

    def test_a_replaced_file_of_keys_is_read(self, tmp_path: Path) -> None:
        broker, key = self.broker(tmp_path), token_endpoint.rsa_key()
        assert self.answer(broker, self.token(key)) != b""
        (tmp_path / "jwks.json").write_text(json.dumps(token_endpoint.TokenEndpoint(key, {}).jwks) + " ")
        assert self.answer(broker, self.token(key)) == b""
