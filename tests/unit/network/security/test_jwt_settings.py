"""OAUTHBEARER's settings: what validators demand of a token, and what keys, templates and names can have wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from barnabas.config.client_config import ClientConfig
from barnabas.errors import ConfigError, SaslAuthenticationError
from barnabas.network.security.oauth_bearer_login_callback_handler import token_source
from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from tests.support.token_endpoint import (
    TokenEndpoint,
    pem,
)
from tests.unit.network.security.jwt_login import PACKAGE, PASSPHRASE, bearer, fetch, source, written

# Validators


@pytest.mark.parametrize("name", ["DefaultJwtValidator", "ClientJwtValidator", f"{PACKAGE}ClientJwtValidator"])
@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"sub": None}, "'sub' is missing"),
        ({"sub": " "}, "'sub' is missing or empty"),
        ({"exp": None}, "'exp' is missing"),
        ({"exp": -1}, "'exp' is negative"),
        ({"iat": -1}, "'iat' is negative"),
        ({"scope": ["a", "a"]}, "'scope' is empty, or holds something empty or twice"),
    ],
)
def test_a_token_must_say_who_and_how_long(
    endpoint: TokenEndpoint, name: str, claims: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SaslAuthenticationError, match=problem):
        fetch(jwt_retriever_class=lambda: endpoint.token("a", **claims), jwt_validator_class=name)


def test_the_names_of_the_claims_are_settings(endpoint: TokenEndpoint) -> None:
    token = endpoint.token("x", uid="alice", sub=None, scp=["a", ""])
    assert fetch(jwt_retriever_class=lambda: token, sub_claim_name="uid").principal == "alice"
    with pytest.raises(SaslAuthenticationError, match="'scp' is empty"):
        fetch(jwt_retriever_class=lambda: token, sub_claim_name="uid", scope_claim_name="scp")


@pytest.mark.parametrize("text", ["", "opaque", "a.b.c", "a.b", unsecured_jwt({"sub": "me", "exp": 5})])
def test_what_is_no_signed_jwt_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=r"not a (signed )?JWT") as caught:
        fetch(jwt_retriever_class=lambda: text)
    assert len(text) < 5 or text not in str(caught.value)


# What the settings lack

KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
JWT_BEARER_CLASS = {"jwt_retriever_class": "JwtBearerJwtRetriever", "token_endpoint_url": "http://127.0.0.1:1/"}


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"jwt_retriever_class": "JwtBearerJwtRetriever"}, "token.endpoint.url is needed"),
        ({"jwt_retriever_class": "FileJwtRetriever"}, "token.endpoint.url is needed"),
        ({"assertion_claim_iss": "x"}, "token.endpoint.url is needed"),
        ({"jwt_retriever_class": "JwtRetriever"}, "'JwtRetriever' is not known; there are DefaultJwtRetriever"),
        ({"jwt_retriever_class": "com.example.Own"}, "'com.example.Own' is not known"),
        ({"jwt_retriever_class": "no.such:thing"}, "'no.such:thing' cannot be loaded"),
        ({"jwt_retriever_class": 5}, r"must be a function, or an object or class with a method retrieve\(\)"),
        ({"jwt_validator_class": 5}, r"with a method validate\(\)"),
        ({"jwt_validator_class": "BrokerJwtValidator"}, "which only a broker does; a client has ClientJwtValidator"),
        ({"jwt_validator_class": f"{PACKAGE}BrokerJwtValidator"}, "which only a broker does"),
        ({"jwt_validator_class": "Validator"}, "'Validator' is not known; there are DefaultJwtValidator"),
        ({"jwt_retriever_class": "FileJwtRetriever", "token_endpoint_url": "http://a/"}, "needs a file: URL"),
        ({**JWT_BEARER_CLASS, "token_endpoint_url": "file:/x"}, "needs http or https"),
        ({**JWT_BEARER_CLASS, "token_endpoint_url": "http://u:p@host/"}, "must hold no user and password"),
        ({**JWT_BEARER_CLASS, "token_endpoint_url": "http:///x"}, "must be http, https or file"),
        ({**JWT_BEARER_CLASS, "token_endpoint_url": "http://a:b/"}, "must be http, https or file"),
        ({"token_endpoint_url": "http://a/"}, "or an assertion"),
        ({"token_endpoint_url": "file:/nowhere"}, "'file:/nowhere' cannot be used: No such file"),
        ({"token_endpoint_url": "file:/"}, "cannot be used: Is a directory"),
        (JWT_BEARER_CLASS, "an assertion is needed: set sasl.oauthbearer.assertion.private.key.file"),
        ({**JWT_BEARER_CLASS, "assertion_private_key_file": "/nowhere"}, "key.file='/nowhere' cannot be used: No such"),
        ({**JWT_BEARER_CLASS, "assertion_file": "/nowhere"}, "assertion.file='/nowhere' cannot be used: No such file"),
        ({**JWT_BEARER_CLASS, "assertion_algorithm": "HS256"}, "must be one of ES256, RS256"),
        ({**JWT_BEARER_CLASS, "assertion_claim_exp_seconds": 86401}, "must lie in 0 to 86400"),
        ({**JWT_BEARER_CLASS, "assertion_claim_nbf_seconds": 3601}, "must lie in 0 to 3600"),
    ],
)
def test_settings_that_lack_something_are_refused_when_the_client_is_made(
    settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        source(**settings)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        ("text", {}, "holds no private key that can be read"),
        ("broken", {}, "holds no private key that can be read"),
        ("binary", {}, "not text in UTF-8"),
        ("encrypted", {}, "is encrypted; set sasl.oauthbearer.assertion.private.key.passphrase"),
        ("encrypted", {"assertion_private_key_passphrase": "wRong"}, "is .*passphrase right"),
        ("encrypted", {"assertion_private_key_passphrase": " "}, "passphrase is empty"),
        ("rsa", {"assertion_private_key_passphrase": "wRong"}, "is not encrypted; remove"),
        ("rsa", {"assertion_algorithm": "ES256"}, "needs a key of the elliptic curve P-256"),
        ("ec", {}, "algorithm=RS256 needs an RSA key"),
        ("ec p-384", {"assertion_algorithm": "ES256"}, "needs a key of the elliptic curve P-256"),
    ],
)
def test_a_key_that_cannot_be_used_says_why_when_the_client_is_made(
    tmp_path: Path,
    rsa_private: rsa.RSAPrivateKey,
    ec_private: ec.EllipticCurvePrivateKey,
    kind: str,
    settings: dict[str, Any],
    problem: str,
) -> None:
    made = {
        "text": b"no key",
        "broken": KEY.encode(),
        "binary": b"\xff\xfe\x00",
        "encrypted": pem(rsa_private, PASSPHRASE).encode(),
        "rsa": pem(rsa_private).encode(),
        "ec": pem(ec_private).encode(),
        "ec p-384": pem(ec.generate_private_key(ec.SECP384R1())).encode(),
    }
    file = tmp_path / "key.pem"
    file.write_bytes(made[kind])

    with pytest.raises(ConfigError, match=problem) as caught:
        source(**JWT_BEARER_CLASS, assertion_private_key_file=str(file), **settings)
    assert "wRong" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON: .* in line 1, column 1"),
        ('{"header": {\n "a": sEcReT}}', "is not JSON: .* in line 2, column 7"),
        ('{"payload": {"a": NaN}}', "is not JSON: there is no NaN in it"),
        ("[]", "must hold a JSON object with the objects 'header' and 'payload'"),
        ('{"header": []}', "'header' in it must be a JSON object"),
        ('{"payload": "x"}', "'payload' in it must be a JSON object"),
        ('{"header": {"kid": 5}}', "no assertion can be made"),
        ("[" * 100_000, "is not JSON|nested too deep"),
    ],
)
def test_a_template_with_errors_says_where_when_the_client_is_made(
    key_file: Path, tmp_path: Path, text: str, problem: str
) -> None:
    file = written(tmp_path / "template.json", text)
    with pytest.raises(ConfigError, match=problem) as caught:
        source(**JWT_BEARER_CLASS, assertion_private_key_file=str(key_file), assertion_template_file=str(file))
    assert "sEcReT" not in str(caught.value)


@pytest.mark.parametrize("text", ["{}", '{"header": null, "payload": null}', '{"comment": "nothing else"}'])
def test_a_template_may_say_nothing(endpoint: TokenEndpoint, key_file: Path, tmp_path: Path, text: str) -> None:
    file = written(tmp_path / "template.json", text)
    assert fetch(**bearer(endpoint, key_file, assertion_template_file=str(file))).principal == "alice"


def test_without_pyjwt_the_extra_is_named(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ConfigError, match=r"pip install 'barnabas\[oauth\]'"):
        source(**JWT_BEARER_CLASS, assertion_private_key_file=str(key_file))


def test_kafkas_handler_by_name_asks_for_a_url_and_the_unsecured_one_for_none(endpoint: TokenEndpoint) -> None:
    def by_handler(name: str, **more: str) -> Any:
        settings = {"bootstrap.servers": "a:1", "sasl.login.callback.handler.class": PACKAGE + name, **more}
        return token_source(ClientConfig("consumer", settings), {"unsecuredLoginStringClaim_sub": "me"})

    with pytest.raises(ConfigError, match=r"token.endpoint.url is needed"):
        by_handler("OAuthBearerLoginCallbackHandler")
    unsecured = by_handler(
        "internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
        **{"sasl.oauthbearer.token.endpoint.url": endpoint.url},
    )
    assert unsecured().principal == "me"
