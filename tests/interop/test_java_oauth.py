"""Tokens for OAUTHBEARER as Java's client gets and judges them: the same requests, assertions and verdicts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from barnabas.config.client_config import ClientConfig
from barnabas.errors import SaslAuthenticationError
from barnabas.network.security.oauth_bearer_login_callback_handler import token_source
from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from tests.peers.java_tools import JavaTools
from tests.support.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint, ec_key, pem, rsa_key, serving

# The first test of a fresh machine fetches Apache Kafka.
pytestmark = pytest.mark.timeout(300)

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
ID = re.compile(r"[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}")


@pytest.fixture(scope="module")
def keys() -> tuple[rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey]:
    return rsa_key(), ec_key()


@pytest.fixture
def endpoint(keys: tuple[rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey]) -> Iterator[TokenEndpoint]:
    with serving(TokenEndpoint(keys[0], {"RS256": keys[0], "ES256": keys[1]})) as running:
        yield running


def named(settings: dict[str, str], folder: Path, endpoint: TokenEndpoint) -> dict[str, str]:
    """Settings with their full names, files and the endpoint filled in."""
    full = {
        name if name.startswith("jaas:") else f"sasl.oauthbearer.{name}": value.format(folder=folder, url=endpoint.url)
        for name, value in settings.items()
    }
    if "sasl.oauthbearer.jwt.retriever.class" in full:
        full["sasl.oauthbearer.jwt.retriever.class"] = PACKAGE + full["sasl.oauthbearer.jwt.retriever.class"]
    return full


def ours(settings: dict[str, str]) -> str:
    options = {name.removeprefix("jaas:"): value for name, value in settings.items() if name.startswith("jaas:")}
    properties = {name: value for name, value in settings.items() if not name.startswith("jaas:")}
    return token_source(ClientConfig("admin", {"bootstrap.servers": "a:1", **properties}), options)().value


BEARER = {
    "jwt.retriever.class": "JwtBearerJwtRetriever",
    "token.endpoint.url": "{url}",
    "assertion.private.key.file": "{folder}/RS256.pem",
    "assertion.claim.aud": "{url}",
    "assertion.claim.iss": "me",
    "assertion.claim.sub": "alice",
}
SECRET = {"token.endpoint.url": "{url}", "client.credentials.client.id": CLIENT_ID, "scope": " kafka all "}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(BEARER, id="the defaults"),
        pytest.param({**BEARER, "scope": "kafka & co"}, id="with a scope"),
        pytest.param({**BEARER, "jaas:scope": "not for this grant"}, id="a scope in JAAS"),
        pytest.param(
            {
                **BEARER,
                "assertion.claim.exp.seconds": "77",
                "assertion.claim.nbf.seconds": "0",
                "assertion.claim.jti.include": "true",
            },
            id="all about time and an id",
        ),
        pytest.param(
            {**BEARER, "assertion.algorithm": "ES256", "assertion.private.key.file": "{folder}/ES256.pem"},
            id="an elliptic curve",
        ),
        pytest.param({**BEARER, "assertion.template.file": "{folder}/template.json"}, id="a template"),
        pytest.param(
            {**BEARER, "assertion.file": "{folder}/assertion.jwt", "assertion.template.file": "{folder}/template.json"},
            id="a ready assertion",
        ),
        pytest.param({**BEARER, "jwt.retriever.class": "DefaultJwtRetriever"}, id="client assertion"),
        pytest.param(
            {
                **BEARER,
                "jwt.retriever.class": "ClientCredentialsJwtRetriever",
                "scope": "a b",
                "jaas:clientId": "alice",
            },
            id="client assertion with id and scope",
        ),
        pytest.param({**SECRET, "client.credentials.client.secret": CLIENT_SECRET}, id="a secret"),
        pytest.param(
            {
                **SECRET,
                "jwt.retriever.class": "ClientCredentialsJwtRetriever",
                "jaas:clientId": "not used",
                "jaas:clientSecret": CLIENT_SECRET,
            },
            id="a secret in JAAS",
        ),
    ],
)
def test_java_asks_the_endpoint_the_same(
    java: JavaTools,
    endpoint: TokenEndpoint,
    keys: tuple[rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey],
    tmp_path: Path,
    settings: dict[str, str],
) -> None:
    for name, key in zip(("RS256", "ES256"), keys, strict=True):
        (tmp_path / f"{name}.pem").write_text(pem(key), encoding="utf-8")
    (tmp_path / "assertion.jwt").write_text(f" {ready_assertion(endpoint, keys[0])}\n", encoding="utf-8")
    template = {
        "header": {"kid": "ключ", "x": [1, None], "alg": "none"},
        "payload": {"sub": "bob", "tenant": {"id": 7}, "iat": 1, "größe": 1.5},
    }
    (tmp_path / "template.json").write_text(json.dumps(template, ensure_ascii=False), encoding="utf-8")
    full = named(settings, tmp_path, endpoint)

    theirs = java.run("OAuth", *[f"{name}={value}" for name, value in full.items()])
    assert theirs.code == 0, theirs.out + theirs.err
    mine = ours(full)

    assert posted(endpoint, 0) == posted(endpoint, 1)
    assert claims_of(theirs.out)["sub"] == claims_of(mine)["sub"]


def ready_assertion(endpoint: TokenEndpoint, key: rsa.RSAPrivateKey) -> str:
    now = int(time.time())
    claims = {"iss": "me", "sub": "alice", "aud": endpoint.url, "iat": now, "nbf": now, "exp": now + 60}
    return jwt.encode(claims, key, "RS256")


def posted(endpoint: TokenEndpoint, number: int) -> tuple[Any, ...]:
    """Fields in their order and the headers that matter; an assertion as what it says, without when and its id."""
    form = []
    for name, value in endpoint.forms[number].items():
        if name.endswith("assertion"):
            claims = claims_of(value)
            times = (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"])
            has_id = bool(ID.fullmatch(claims.get("jti", "")))
            fixed = {key: claims[key] for key in claims if key not in ("iat", "exp", "nbf", "jti")}
            form.append((name, jwt.get_unverified_header(value), fixed, times, has_id))
        else:
            form.append((name, value))
    headers = endpoint.headers[number]
    return form, {name: headers.get(name) for name in ("Authorization", "Accept", "Content-Type", "Cache-Control")}


def claims_of(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def test_java_judges_tokens_the_same(java: JavaTools, endpoint: TokenEndpoint) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"exp": None},
        {"exp": "5"},
        {"exp": -1},
        {"exp": 0},
        {"exp": 12.75},
        {"iat": None},
        {"iat": -1},
        {"iat": 12.75},
        {"iat": "5"},
        {"sub": None},
        {"sub": ""},
        {"sub": " "},
        {"sub": " alice "},
        {"sub": 5},
        {"scope": ""},
        {"scope": " "},
        {"scope": "a b"},
        {"scope": 5},
        {"scope": []},
        {"scope": ["a", "b"]},
        {"scope": ["a", "a "]},
        {"scope": ["a", ""]},
        {"scope": [1, 1]},
        {"scope": ["1", 1]},
        {"scope": [1, 2, True]},
        {"scope": ["a", {}]},
        {"scope": True},
        {"scope": {"a": 1}},
    ]
    tokens = [signed({"sub": "alice", "exp": 500, "iat": 100, **change}) for change in changes]
    good = tokens[0]
    tokens += ["", "opaque", "a.b", "a.b.c", f"{good}.d", unsecured_jwt({"sub": "alice", "exp": 5}), "e30.W10.c"]
    tokens += [good.replace(".", ".!", 1), good.rpartition(".")[0] + ". "]

    said = java.run("OAuth", "validate", stdin="".join(f"{token}\n" for token in tokens))
    assert said.code == 0, said.err

    verdicts = dict(zip([*map(str, changes), *tokens[len(changes) :]], said.out.splitlines(), strict=True))
    assert verdicts == dict(zip(verdicts, map(our_verdict, tokens), strict=True))
    assert 5 < list(verdicts.values()).count("refused") < len(tokens) - 5


def signed(claims: dict[str, Any]) -> str:
    """Not by a key: nobody here looks at the signature."""
    return unsecured_jwt({name: value for name, value in claims.items() if value is not None}) + "c2lnbmVk"


def our_verdict(token: str) -> str:
    settings: dict[str, Any] = {"bootstrap.servers": "a:1", "sasl.oauthbearer.jwt.retriever.class": lambda: token}
    try:
        found = token_source(ClientConfig("admin", settings), {})()
    except SaslAuthenticationError:
        return "refused"
    start = "null" if found.start_time_ms is None else found.start_time_ms
    return f"{found.principal} {found.lifetime_ms} {start}"
