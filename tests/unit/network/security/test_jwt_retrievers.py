"""Tokens for OAUTHBEARER from a file, by client credentials and by the JWT bearer grant: each setting, and its faults.

The endpoint is a real one, on a local port, that verifies every assertion.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import ssl
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from barnabas.errors import ConfigError, KafkaError, SaslAuthenticationError
from barnabas.network.security.cached_file import CachedFile
from barnabas.network.security.http_jwt_retriever import HttpJwtRetriever, TokenRequest
from barnabas.network.security.http_jwt_retriever import TokenEndpoint as Where
from barnabas.network.security.oauth_bearer_token import OAuthBearerToken
from tests.support.token_endpoint import (
    CLIENT_ASSERTION,
    CLIENT_ID,
    CLIENT_SECRET,
    JWT_BEARER,
    TokenEndpoint,
    pem,
    rsa_key,
    serving,
)
from tests.unit.network.security.jwt_login import PACKAGE, PASSPHRASE, bearer, change, fetch, source, written

# The JWT bearer grant


@pytest.mark.parametrize("package", ["", PACKAGE])
def test_an_assertion_is_exchanged_for_a_token(endpoint: TokenEndpoint, key_file: Path, package: str) -> None:
    before = int(time.time())

    token = fetch(**bearer(endpoint, key_file, jwt_retriever_class=f"{package}JwtBearerJwtRetriever", scope="kafka"))

    [form] = endpoint.forms
    assert list(form) == ["grant_type", "assertion", "scope"]
    assert (form["grant_type"], form["scope"]) == (JWT_BEARER, "kafka")
    assert "Authorization" not in endpoint.headers[0]
    assert jwt.get_unverified_header(form["assertion"]) == {"alg": "RS256", "typ": "JWT"}
    claims = jwt.decode(form["assertion"], options={"verify_signature": False})
    assert {name: claims[name] for name in ("iss", "sub", "aud")} == {"iss": "me", "sub": "alice", "aud": endpoint.url}
    assert before <= claims["iat"] <= time.time()
    assert (claims["exp"] - claims["iat"], claims["iat"] - claims["nbf"]) == (300, 60)
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "nbf"}
    assert token.principal == "alice"
    assert token.lifetime_ms is not None
    assert token.lifetime_ms > before * 1000


@pytest.mark.parametrize("algorithm", ["ES256", "es256"])
def test_an_assertion_may_be_signed_with_an_elliptic_curve(
    endpoint: TokenEndpoint, tmp_path: Path, ec_private: ec.EllipticCurvePrivateKey, algorithm: str
) -> None:
    key = written(tmp_path / "ec.pem", pem(ec_private))

    assert fetch(**bearer(endpoint, key, assertion_algorithm=algorithm)).principal == "alice"
    assert jwt.get_unverified_header(endpoint.forms[0]["assertion"])["alg"] == "ES256"


def test_the_claims_about_time_and_the_id_follow_their_settings(endpoint: TokenEndpoint, key_file: Path) -> None:
    settings = {"exp_seconds": 20, "nbf_seconds": 7, "jti_include": True}
    get = source(**bearer(endpoint, key_file, **{f"assertion_claim_{name}": n for name, n in settings.items()}))

    get()
    get()

    claims = [jwt.decode(form["assertion"], options={"verify_signature": False}) for form in endpoint.forms]
    assert [claim["exp"] - claim["iat"] for claim in claims] == [20, 20]
    assert [claim["iat"] - claim["nbf"] for claim in claims] == [7, 7]
    assert len({claim["jti"] for claim in claims}) == 2


def test_a_template_adds_to_header_and_claims_and_cannot_change_what_is_dynamic(
    endpoint: TokenEndpoint, key_file: Path, tmp_path: Path
) -> None:
    template = {
        "header": {"kid": "f829", "some-header": 1, "alg": "none", "typ": "at+jwt"},
        "payload": {"sub": "service-account", "animals": ["cat", "dög"], "useless": False, "exp": 1, "iat": 2},
    }
    file = written(tmp_path / "template.json", json.dumps(template))

    token = fetch(**bearer(endpoint, key_file, assertion_template_file=str(file)))

    assertion = endpoint.forms[0]["assertion"]
    assert jwt.get_unverified_header(assertion) == {"kid": "f829", "some-header": 1, "alg": "RS256", "typ": "JWT"}
    claims = jwt.decode(assertion, options={"verify_signature": False})
    assert (claims["animals"], claims["useless"]) == (["cat", "dög"], False)
    assert claims["exp"] > time.time()
    assert token.principal == "service-account", "the template wins over assertion.claim.sub"


def test_an_encrypted_key_is_read_with_its_passphrase(
    endpoint: TokenEndpoint, tmp_path: Path, rsa_private: rsa.RSAPrivateKey
) -> None:
    key = written(tmp_path / "key.pem", pem(rsa_private, PASSPHRASE))
    assert fetch(**bearer(endpoint, key, assertion_private_key_passphrase=PASSPHRASE)).principal == "alice"


@pytest.mark.parametrize("form", ["without PEM's lines", "PKCS#1"])
def test_keys_come_in_several_forms(
    endpoint: TokenEndpoint, tmp_path: Path, rsa_private: rsa.RSAPrivateKey, form: str
) -> None:
    text = pem(rsa_private, is_pkcs8=form != "PKCS#1")
    if form != "PKCS#1":
        text = "".join(text.splitlines(keepends=True)[1:-1])
    key = written(tmp_path / "key.pem", text)

    assert fetch(**bearer(endpoint, key)).principal == "alice"


def test_a_key_and_a_template_that_change_are_read_again(
    endpoint: TokenEndpoint, key_file: Path, tmp_path: Path
) -> None:
    template = written(tmp_path / "template.json", '{"payload": {"n": 1}}')
    get = source(**bearer(endpoint, key_file, assertion_template_file=str(template)))
    get()

    change(key_file, pem(rsa_key()))
    with pytest.raises(SaslAuthenticationError, match="Signature verification failed"):
        get()
    change(template, '{"payload": {"n": 2}}')
    with pytest.raises(SaslAuthenticationError):
        get()

    numbers = [jwt.decode(form["assertion"], options={"verify_signature": False})["n"] for form in endpoint.forms]
    assert numbers == [1, 1, 2]


def test_a_file_that_another_takes_the_place_of_is_read_again_whatever_its_time(
    endpoint: TokenEndpoint, tmp_path: Path
) -> None:
    file = written(tmp_path / "token", endpoint.token("alice"))
    get = source(token_endpoint_url=file.as_uri())
    other = written(tmp_path / "other", endpoint.token("carol"))
    os.utime(other, ns=(file.stat().st_mtime_ns,) * 2)

    other.replace(file)

    assert get().principal == "carol"


def test_a_file_that_stays_as_it_is_is_read_once(tmp_path: Path) -> None:
    read: list[str] = []
    file = CachedFile("setting", str(written(tmp_path / "file", "text")), "shown", read.append)

    file.get()
    assert read == ["text"]
    change(tmp_path / "file", "more")
    file.get()
    file.get()
    assert read == ["text", "more"]


def test_a_ready_assertion_comes_from_a_file_and_is_read_again_when_it_changes(
    endpoint: TokenEndpoint, tmp_path: Path, rsa_private: rsa.RSAPrivateKey
) -> None:
    def assertion(subject: str, lifetime: int = 60) -> str:
        now = int(time.time())
        claims = {"iss": "me", "sub": subject, "aud": endpoint.url, "iat": now, "nbf": now, "exp": now + lifetime}
        return jwt.encode(claims, rsa_private, "RS256")

    file = written(tmp_path / "assertion.jwt", f"\n{assertion('alice')}\n")
    get = source(jwt_retriever_class="JwtBearerJwtRetriever", token_endpoint_url=endpoint.url, assertion_file=str(file))

    assert get().principal == "alice"
    change(file, assertion("bob"))
    assert get().principal == "bob"
    old = assertion("carol", -5)
    change(file, old)
    with pytest.raises(SaslAuthenticationError, match=r"refused the assertion in .*assertion.jwt.*, which has expired"):
        get()
    change(file, "half a fi")
    with pytest.raises(KafkaError, match="has changed and cannot be used: it is not a signed JWT"):
        get()
    file.unlink()
    with pytest.raises(KafkaError, match="No such file"):
        get()
    written(file, assertion("alice"))
    assert get().principal == "alice"


# Client credentials


def test_a_client_may_show_an_assertion_in_place_of_its_secret(endpoint: TokenEndpoint, key_file: Path) -> None:
    settings = bearer(endpoint, key_file, jwt_retriever_class="DefaultJwtRetriever", assertion_claim_sub=CLIENT_ID)

    fetch(**settings, client_credentials_client_id=CLIENT_ID, scope="kafka")
    fetch(**settings)

    assert [list(form) for form in endpoint.forms] == [
        ["client_assertion_type", "client_assertion", "grant_type", "client_id", "scope"],
        ["client_assertion_type", "client_assertion", "grant_type"],
    ]
    assert endpoint.forms[0]["client_assertion_type"] == CLIENT_ASSERTION
    assert endpoint.forms[0]["grant_type"] == "client_credentials"
    assert "Authorization" not in endpoint.headers[0]


def test_kafkas_order_is_the_file_then_the_key_then_the_secret(
    endpoint: TokenEndpoint, key_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = bearer(endpoint, key_file, jwt_retriever_class="ClientCredentialsJwtRetriever")
    settings |= {"client_credentials_client_secret": CLIENT_SECRET}
    get = source(**settings)
    assert get().principal == "alice"
    assert "assertion.claim.iss, which makes no use of sasl.oauthbearer.client.credentials.client.secret" in caplog.text

    file = written(tmp_path / "assertion.jwt", endpoint.forms[0]["client_assertion"])
    assert fetch(**settings, assertion_file=str(file)).principal == "alice"
    assert "assertion.file, which makes no use of" in caplog.text
    assert endpoint.forms[0]["client_assertion"] == endpoint.forms[1]["client_assertion"]

    del settings["assertion_claim_iss"]
    assert fetch(**settings, client_credentials_client_id=CLIENT_ID).principal == CLIENT_ID
    assert CLIENT_SECRET not in caplog.text


def test_the_secret_goes_in_the_header_and_may_stand_in_jaas(endpoint: TokenEndpoint) -> None:
    options = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET, "scope": " kafka ", "extension_tenant": "x"}

    token = fetch(options, token_endpoint_url=endpoint.url)

    assert token.principal == CLIENT_ID
    assert token.extensions == (("tenant", "x"),)
    assert endpoint.forms == [{"grant_type": "client_credentials", "scope": "kafka"}]


def test_credentials_are_quoted_only_where_that_is_asked_for(endpoint: TokenEndpoint) -> None:
    settings = {
        "token_endpoint_url": endpoint.url,
        "client_credentials_client_id": CLIENT_ID,
        "client_credentials_client_secret": CLIENT_SECRET,
    }
    with pytest.raises(SaslAuthenticationError, match="refused the client credentials of 'bot': HTTP status 401"):
        fetch(**settings, header_urlencode=True)
    sent = endpoint.headers[0]["Authorization"].partition(" ")[2]
    assert base64.b64decode(sent) == b"bot:a+%24ecret%3A+of+the+bot"


# The endpoint's faults


def test_an_endpoint_that_is_busy_is_asked_again_with_another_assertion(
    endpoint: TokenEndpoint, key_file: Path
) -> None:
    endpoint.first_answers = [503, 429]

    assert fetch(**bearer(endpoint, key_file, assertion_claim_jti_include=True)).principal == "alice"
    assert len({form["assertion"] for form in endpoint.forms}) == 3


def test_attempts_end_when_the_time_for_them_is_over() -> None:
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    def fails() -> TokenRequest:
        now[0] += 0.5
        return TokenRequest({}, "the test", ())

    where = Where("http://127.0.0.1:1/token", "'here'", 1.0, 0.25, 3.0)
    retriever = HttpJwtRetriever(where, fails, clock=lambda: now[0], sleep=sleep)

    with pytest.raises(KafkaError, match=r"no token from 'here' for the test: .*refused") as caught:
        retriever.retrieve()
    assert pauses == [0.25, 0.5, 0.75]
    assert not isinstance(caught.value, SaslAuthenticationError), "it may be there in a moment"


def test_an_endpoint_that_does_not_answer_is_given_up(
    endpoint: TokenEndpoint, key_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(endpoint, "answer", lambda *request: is_over.wait(20) and (200, {}))
    settings = {f"sasl.login.{kind}.timeout.ms": 50 for kind in ("connect", "read")}
    get = source(patience_ms=0, others=settings, **bearer(endpoint, key_file))

    try:
        with pytest.raises(KafkaError, match=r"no token from .*: .*timed out"):
            get()
    finally:
        is_over.set()


def test_an_answer_without_a_token_is_not_shown(endpoint: TokenEndpoint, key_file: Path) -> None:
    endpoint.first_answers = [200]
    with pytest.raises(SaslAuthenticationError, match=r"the response of .* is not JSON with an 'access_token'"):
        fetch(**bearer(endpoint, key_file))


def test_an_endpoint_that_stays_busy_is_named_with_its_answer(endpoint: TokenEndpoint, key_file: Path) -> None:
    endpoint.first_answers = [503]
    with pytest.raises(KafkaError, match=r"no token from 'http://.*/token' for the assertion signed .*status 503"):
        source(patience_ms=0, **bearer(endpoint, key_file))()


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP status 404"), (302, "a redirect, which is not followed")])
def test_what_is_no_better_the_next_time_is_final(
    endpoint: TokenEndpoint, key_file: Path, status: int, words: str
) -> None:
    endpoint.first_answers = [status]
    with pytest.raises(SaslAuthenticationError, match=words):
        fetch(**bearer(endpoint, key_file))
    assert len(endpoint.forms) == 1


def test_no_secret_comes_back_in_an_error_or_a_log(
    endpoint: TokenEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = pem(rsa_key(), PASSPHRASE)
    file = written(tmp_path / "key.pem", key)
    get = source(**bearer(endpoint, file, assertion_private_key_passphrase=PASSPHRASE))

    with pytest.raises(SaslAuthenticationError) as by_assertion:
        get()
    with pytest.raises(SaslAuthenticationError) as by_secret:
        fetch(
            token_endpoint_url=endpoint.url,
            client_credentials_client_id=CLIENT_ID,
            client_credentials_client_secret="gue$$ed",
        )

    assert re.search(r"refused the assertion signed \(RS256\) with .*key\.pem", str(by_assertion.value))
    assert "invalid_grant, Signature verification failed in [hidden]" in str(by_assertion.value)
    assert "invalid_client, not Basic [hidden]" in str(by_secret.value)
    shown = caplog.text + repr(get)
    for error in (by_assertion.value, by_secret.value):
        shown += "".join(traceback.format_exception(error)) + repr(error)
    header = base64.b64encode(f"{CLIENT_ID}:gue$$ed".encode()).decode()
    secrets = [endpoint.forms[0]["assertion"], PASSPHRASE, key.splitlines()[1], "gue$$ed", header]
    assert not [secret for secret in secrets if secret in shown]


def test_what_a_config_provider_gave_is_not_shown(endpoint: TokenEndpoint, key_file: Path) -> None:
    endpoint.first_answers = [400]
    given = {"url": endpoint.url, "key": str(key_file)}
    settings = bearer(endpoint, key_file, token_endpoint_url="${vault:url}", assertion_private_key_file="${vault:key}")
    providers = {
        "config.providers": "vault",
        "config.providers.vault.class": lambda path, keys: {key: given[key] for key in keys},
    }

    with pytest.raises(SaslAuthenticationError, match=r"\$\{vault:url\}.*\$\{vault:key\}.*HTTP status 400") as caught:
        source(others=providers, **settings)()
    assert not [value for value in given.values() if value in str(caught.value)]


def test_the_endpoints_certificate_is_checked_by_what_jaas_says(
    endpoint: TokenEndpoint, key_file: Path, tmp_path: Path, rsa_private: rsa.RSAPrivateKey
) -> None:
    import trustme

    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    with serving(TokenEndpoint(rsa_private, {"RS256": rsa_private}), context) as secure:
        settings = bearer(secure, key_file)
        assert fetch({"ssl.truststore.location": str(tmp_path / "ca.pem")}, **settings).principal == "alice"
        with pytest.raises(KafkaError, match="CERTIFICATE_VERIFY_FAILED"):
            source(patience_ms=0, **settings)()
        with pytest.raises(ConfigError, match=r"in sasl.jaas.config.*ssl.truststore.location='/nowhere'"):
            fetch({"ssl.truststore.location": "/nowhere"}, **settings)


# Files with a token


def test_a_token_comes_from_a_file_and_is_read_again_when_it_changes(endpoint: TokenEndpoint, tmp_path: Path) -> None:
    file = written(tmp_path / "a token.jwt", f"{endpoint.token('alice')}\n")
    get = source(token_endpoint_url=file.as_uri())

    assert get().principal == "alice"
    change(file, endpoint.token("bob"))
    assert get().principal == "bob"
    change(file, "")
    with pytest.raises(KafkaError, match="has changed and cannot be used"):
        get()


@pytest.mark.parametrize("name", ["DefaultJwtRetriever", "FileJwtRetriever", f"{PACKAGE}FileJwtRetriever"])
def test_a_file_is_chosen_by_its_url_or_by_name(endpoint: TokenEndpoint, tmp_path: Path, name: str) -> None:
    file = written(tmp_path / "token", endpoint.token("alice"))
    assert fetch(jwt_retriever_class=name, token_endpoint_url=f"file:{file}").principal == "alice"


# The user's own


def test_a_function_an_object_or_a_class_may_retrieve_and_validate(endpoint: TokenEndpoint) -> None:
    class Own:
        def configure(self, settings: dict[str, Any]) -> None:
            self.scope = settings["sasl.oauthbearer.scope"]

        def retrieve(self) -> str:
            return endpoint.token(self.scope)

        def validate(self, text: str) -> OAuthBearerToken:
            return OAuthBearerToken(text, 5, f"validated {self.scope}")

    settings = {"scope": "me"}
    assert fetch(jwt_retriever_class=lambda: endpoint.token("f"), **settings).principal == "f"
    assert fetch(jwt_retriever_class=Own, **settings).principal == "me"
    assert fetch(jwt_retriever_class=Own, jwt_validator_class=Own, **settings).principal == "validated me"
    assert fetch(jwt_retriever_class=lambda: "opaque", jwt_validator_class=lambda text: (text, 7))[:2] == ("opaque", 7)
    by_name = fetch(jwt_retriever_class="os:getcwd", jwt_validator_class=lambda text: (text, 7))
    assert by_name.value == os.getcwd()


def test_errors_of_the_users_own_are_named(endpoint: TokenEndpoint) -> None:
    def fails(*arguments: Any) -> str:
        raise OSError(f"no way: {arguments}")

    with pytest.raises(KafkaError, match=r"jwt.retriever.class raised OSError: no way"):
        fetch(jwt_retriever_class=fails)
    with pytest.raises(SaslAuthenticationError, match="returned int; a JWT is needed"):
        fetch(jwt_retriever_class=lambda: 3)
    with pytest.raises(SaslAuthenticationError, match=r"validator.class returned NoneType"):
        fetch(jwt_retriever_class=lambda: endpoint.token("f"), jwt_validator_class=lambda text: None)
    token = endpoint.token("f")
    with pytest.raises(SaslAuthenticationError, match="refused the token: OSError") as caught:
        fetch(jwt_retriever_class=lambda: token, jwt_validator_class=fails)
    assert token not in "".join(traceback.format_exception(caught.value))
