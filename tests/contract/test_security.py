"""TLS and SASL against brokers that demand them, on the same settings: a real Apache Kafka, and ours."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer, aio
from barnabas.admin import ScramMechanism, UserScramCredentialUpsertion
from barnabas.cli import main as cli
from barnabas.errors import (
    AuthenticationError,
    DelegationTokenNotFoundError,
    KafkaError,
    SaslAuthenticationError,
    SslAuthenticationError,
    UnsupportedByAuthenticationError,
    UnsupportedSaslMechanismError,
)
from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.secure_kafka import PASSWORD, SESSION_MS, USER, SecureKafka, secure_barnabas, secure_kafka
from tests.support.logs import log_of_the_clients_as_it_was
from tests.support.patience import PATIENCE
from tests.support.token_endpoint import CLIENT_ID, CLIENT_SECRET, TokenEndpoint, pem, rsa_key, serving

LOGIN = {"sasl.username": USER, "sasl.password": PASSWORD}


@pytest.fixture(scope="module", params=["apache-kafka", "barnabas"])
def secure(request: pytest.FixtureRequest) -> Iterator[SecureKafka]:
    missing = apache_kafka.why_not()
    if missing and request.param == "apache-kafka":
        pytest.skip(missing)
    with secure_kafka() if request.param == "apache-kafka" else secure_barnabas() as running:
        yield running


def settings_for(secure: SecureKafka, listener: str, **more: Any) -> dict[str, Any]:
    """What a client needs to be let in through a listener."""
    kind = {"TLS": "SSL", "MUTUAL": "SSL", "SASLTLS": "SASL_SSL"}.get(listener, "SASL_PLAINTEXT")
    settings: dict[str, Any] = {"bootstrap.servers": secure.servers[listener], "security.protocol": kind}
    if kind.endswith("SSL"):
        settings["ssl.truststore.location"] = str(secure.certificates.authority)
    if listener == "MUTUAL":
        settings["ssl.keystore.location"] = str(secure.certificates.client)
    if kind.startswith("SASL"):
        settings |= {"sasl.mechanism": "PLAIN", **LOGIN}
    settings |= {name.replace("_", "."): value for name, value in more.items()}
    return {name: value for name, value in settings.items() if value is not None}


def ask(settings: dict[str, Any]) -> int:
    """How many brokers there are, for whoever is let in."""
    with AdminClient({**settings, "default.api.timeout.ms": 20_000}) as admin:
        return len(admin.describe_cluster().nodes)


@pytest.mark.parametrize("listener", ["TLS", "MUTUAL", "SASLTLS"])
def test_records_travel_through_tls_both_ways(secure: SecureKafka, listener: str) -> None:
    settings = settings_for(secure, listener)
    topic = f"travel-{listener}"
    payloads = [bytes([n]) * 100_000 for n in range(40)]

    with Producer(settings) as producer:
        for payload in payloads:
            producer.send(topic, payload)
    with Consumer(topic, settings, group_id=f"g-{listener}", auto_offset_reset="earliest") as consumer:
        seen: list[bytes] = []
        deadline = time.monotonic() + PATIENCE
        while len(seen) < len(payloads) and time.monotonic() < deadline:
            seen += [record.value for record in consumer.poll(1.0)]
        consumer.commit()

    assert seen == payloads


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("SASL", "PLAIN"),
        ("SASL", "SCRAM-SHA-256"),
        ("SASLTLS", "SCRAM-SHA-512"),
        pytest.param("SASLTLS", "PLAIN", marks=pytest.mark.slow),
        pytest.param("SASLTLS", "SCRAM-SHA-256", marks=pytest.mark.slow),
        pytest.param("SASL", "SCRAM-SHA-512", marks=pytest.mark.slow),
    ],
)
def test_a_user_with_the_right_password_is_let_in(secure: SecureKafka, listener: str, mechanism: str) -> None:
    assert ask(settings_for(secure, listener, sasl_mechanism=mechanism)) == 1


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_the_login_may_stand_in_a_jaas_text_as_for_java(secure: SecureKafka, mechanism: str) -> None:
    kind = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram"}[mechanism]
    password = PASSWORD.replace('"', '\\"')
    text = f'org.apache.kafka.common.security.{kind}LoginModule required username={USER} password="{password}";'

    settings = settings_for(secure, "SASL", sasl_mechanism=mechanism, sasl_username=None, sasl_password=None)

    assert ask({**settings, "sasl.jaas.config": text}) == 1


@pytest.mark.parametrize("client", ["admin", "producer", "transactional", "consumer", "group"])
def test_a_wrong_password_is_said_at_once_to_every_client(secure: SecureKafka, client: str) -> None:
    settings = settings_for(secure, "SASL", sasl_password="not-it")
    started = time.monotonic()

    with pytest.raises(SaslAuthenticationError, match="Authentication failed: Invalid username or password") as caught:
        use(client, settings)

    assert time.monotonic() - started < 15, "a client that went on would need 20 s"
    assert not caught.value.retriable
    assert "not-it" not in str(caught.value)


def use(client: str, settings: dict[str, Any]) -> None:
    """Do with a client what it is for, until it fails."""
    if client == "admin":
        with AdminClient(settings) as admin:
            admin.list_topics()
    elif client == "transactional":
        with Producer(settings, transactional_id="t") as transactional:
            transactional.init_transactions()
    elif client == "producer":
        with Producer(settings) as producer:
            producer.send("refused", b"x").result(20)
    else:
        group = "refused" if client == "group" else None
        with Consumer(settings, group_id=group, enable_auto_commit=False) as consumer:
            if group is None:
                consumer.partitions_for("refused")
            else:
                consumer.subscribe(["refused"])
            for _ in range(40):
                consumer.poll(0.5)


def test_a_client_that_is_refused_does_not_knock_again_and_again(
    secure: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(settings_for(secure, "SASL", sasl_password="not-it")) as producer:
        with pytest.raises(AuthenticationError):
            producer.send("refused", b"x").result(20)
        started = time.monotonic()
        time.sleep(2.5)
        attempts = [record for record in caplog.records if "failed authentication" in record.getMessage()]
        elapsed = time.monotonic() - started

    assert len(attempts) <= 1.5 + elapsed


def test_a_mechanism_that_the_listener_does_not_offer_is_named_with_those_it_does(secure: SecureKafka) -> None:
    with pytest.raises(UnsupportedSaslMechanismError, match=r"SCRAM-SHA-256.*enabled are: PLAIN"):
        ask(settings_for(secure, "SHORT", sasl_mechanism="SCRAM-SHA-256"))


def test_a_session_is_renewed_before_it_ends(secure: SecureKafka, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="barnabas.network")

    with Producer(settings_for(secure, "SHORT")) as producer:
        end = time.monotonic() + 1.2 * SESSION_MS / 1000
        sent = 0
        while time.monotonic() < end:
            producer.send("renewed", b"x").result(10)
            sent += 1

    assert sent > 10
    assert not [record.getMessage() for record in caplog.records if "disconnected" in record.getMessage()]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ssl.truststore.location": None}, "its certificate is not accepted.*ssl.truststore.location"),
        ({"bootstrap.servers": "127.0.0.1:{port}"}, "IP address mismatch"),
    ],
    ids=["unknown authority", "another host"],
)
def test_a_broker_that_cannot_prove_who_it_is_gets_nothing(
    secure: SecureKafka, change: dict[str, Any], reason: str
) -> None:
    settings = settings_for(secure, "TLS")
    port = secure.servers["TLS"].rpartition(":")[2]
    settings |= {name: value and value.format(port=port) for name, value in change.items()}

    with pytest.raises(SslAuthenticationError, match=reason):
        ask(settings)


def test_without_identification_any_name_will_do(secure: SecureKafka) -> None:
    port = secure.servers["TLS"].rpartition(":")[2]
    settings = settings_for(secure, "TLS", bootstrap_servers=f"127.0.0.1:{port}")

    assert ask({**settings, "ssl.endpoint.identification.algorithm": ""}) == 1


@pytest.mark.parametrize("which", ["none", "stranger"])
def test_a_client_certificate_that_the_broker_does_not_accept_is_an_authentication_error(
    secure: SecureKafka, which: str
) -> None:
    settings = settings_for(secure, "MUTUAL")
    settings["ssl.keystore.location"] = None if which == "none" else str(secure.certificates.stranger)

    with pytest.raises(SslAuthenticationError, match=r"client('s)? certificate"):
        ask(settings)


def test_a_context_made_by_the_application_is_used(secure: SecureKafka) -> None:
    import ssl

    context = ssl.create_default_context(cafile=secure.certificates.authority)
    context.load_cert_chain(secure.certificates.client)

    assert ask({"bootstrap.servers": secure.servers["MUTUAL"], "security.protocol": "SSL", "ssl.context": context}) == 1


def bearer(secure: SecureKafka, listener: str = "SASL", **more: Any) -> dict[str, Any]:
    """For OAUTHBEARER; `more` are settings sasl.oauthbearer.*, with underscores."""
    settings = settings_for(secure, listener, sasl_mechanism="OAUTHBEARER", sasl_username=None, sasl_password=None)
    return settings | {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in more.items()}


@pytest.fixture
def endpoint(secure: SecureKafka) -> Iterator[TokenEndpoint]:
    """Its tokens open the listener OIDC; it trusts assertions that the same key signed."""
    with serving(TokenEndpoint(secure.identity_key, {"RS256": secure.identity_key})) as running:
        yield running


def by_secret(secure: SecureKafka, endpoint: TokenEndpoint, secret: str = CLIENT_SECRET) -> dict[str, Any]:
    return bearer(
        secure,
        "OIDC",
        token_endpoint_url=endpoint.url,
        client_credentials_client_id=CLIENT_ID,
        client_credentials_client_secret=secret,
        scope="kafka",
    )


def by_assertion(secure: SecureKafka, endpoint: TokenEndpoint, folder: Path) -> dict[str, Any]:
    key = folder / "key.pem"
    key.write_text(pem(secure.identity_key, "a passphrase"), encoding="utf-8")
    return bearer(
        secure,
        "OIDC",
        jwt_retriever_class="org.apache.kafka.common.security.oauthbearer.JwtBearerJwtRetriever",
        token_endpoint_url=endpoint.url,
        assertion_private_key_file=str(key),
        assertion_private_key_passphrase="a passphrase",
        assertion_claim_iss="me",
        assertion_claim_sub="alice",
        assertion_claim_aud=endpoint.url,
        assertion_claim_jti_include="true",
    )


def test_a_token_is_fetched_with_client_credentials_and_kept(secure: SecureKafka, endpoint: TokenEndpoint) -> None:
    endpoint.first_answers = [503]

    with Producer(by_secret(secure, endpoint)) as producer:
        producer.send("bearer", b"x").result(20)

    assert endpoint.forms == [{"grant_type": "client_credentials", "scope": "kafka"}] * 2


def test_wrong_client_credentials_are_an_authentication_error(secure: SecureKafka, endpoint: TokenEndpoint) -> None:
    with pytest.raises(
        SaslAuthenticationError, match="refused the client credentials of 'bot': HTTP status 401"
    ) as bad:
        ask(by_secret(secure, endpoint, "guessed"))

    assert "guessed" not in str(bad.value)


def test_an_assertion_lets_every_client_in(secure: SecureKafka, endpoint: TokenEndpoint, tmp_path: Path) -> None:
    settings = by_assertion(secure, endpoint, tmp_path)

    with Producer(settings) as producer:
        producer.send("by-assertion", b"x").result(20)
    with Consumer("by-assertion", settings, group_id="by-assertion", auto_offset_reset="earliest") as consumer:
        seen: list[bytes | None] = []
        eventually(lambda: seen.extend(record.value for record in consumer.poll(0.5)) or bool(seen))
        consumer.commit()

    assert seen == [b"x"]
    assert ask(settings) == 1
    by_client_assertion = settings | {"sasl.oauthbearer.jwt.retriever.class": "ClientCredentialsJwtRetriever"}
    assert ask(by_client_assertion) == 1
    assert {"assertion", "client_assertion"} < {name for form in endpoint.forms for name in form}


def test_on_an_event_loop_a_slow_endpoint_holds_up_nobody(
    secure: SecureKafka, endpoint: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, asked, went_on = endpoint.answer, threading.Event(), threading.Event()

    def slow(*request: Any) -> tuple[int, dict[str, Any]]:
        asked.set()
        assert went_on.wait(20), "the loop stood still while the endpoint was asked"
        return answer(*request)

    async def send() -> int:
        async with aio.Producer(by_assertion(secure, endpoint, tmp_path)) as producer:
            sending = asyncio.ensure_future(producer.send("on-a-loop", b"x"))
            while not asked.is_set():
                await asyncio.sleep(0.001)
            went_on.set()
            return (await (await sending)).offset

    monkeypatch.setattr(endpoint, "answer", slow)
    assert asyncio.run(send()) == 0


def test_a_token_may_come_from_a_file(secure: SecureKafka, endpoint: TokenEndpoint, tmp_path: Path) -> None:
    file = tmp_path / "token.jwt"
    file.write_text(endpoint.token("alice"), encoding="utf-8")
    assert ask(bearer(secure, "OIDC", token_endpoint_url=file.as_uri())) == 1


@pytest.mark.parametrize("claims", [{"aud": "another"}, {"iss": "another"}, {"signature": "another's"}])
def test_a_token_that_the_brokers_validator_refuses_is_an_authentication_error(
    secure: SecureKafka, endpoint: TokenEndpoint, claims: dict[str, str]
) -> None:
    issuer = TokenEndpoint(rsa_key(), {}) if "signature" in claims else endpoint
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        ask(bearer(secure, "OIDC", jwt_retriever_class=lambda: issuer.token("alice", **claims)))


def test_a_token_may_come_from_a_function(secure: SecureKafka) -> None:
    given: list[str] = []

    def token() -> str:
        given.append(unsecured_jwt({"sub": "me", "exp": time.time() + 600}))
        return given[-1]

    assert ask(bearer(secure) | {"sasl.login.callback.handler.class": token}) == 1
    assert len(given) == 1


def test_a_token_that_the_broker_does_not_accept_is_an_authentication_error(secure: SecureKafka) -> None:
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        ask(bearer(secure) | {"sasl.login.callback.handler.class": lambda: "opaque"})


def test_the_command_line_reads_the_same_settings(
    secure: SecureKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    settings = settings_for(secure, "SASLTLS", bootstrap_servers=None, sasl_mechanism="SCRAM-SHA-512")
    lines = [f"{name}={value}" for name, value in settings.items()]
    file.write_text("\n".join(lines), encoding="utf-8")
    servers = ["-b", secure.servers["SASLTLS"]]

    with log_of_the_clients_as_it_was():
        assert cli.main(["cluster", *servers, "--config", str(file)]) == 0
        assert "localhost" in capsys.readouterr().out
        assert cli.main(["cluster", *servers, "--config", str(file), "-X", "sasl.password=wrong"]) == 1
    said = capsys.readouterr().err
    assert "invalid credentials" in said
    assert "wrong" not in said.replace("went wrong", "")


def test_asyncio_clients_are_let_in_and_refused_alike(secure: SecureKafka) -> None:
    async def send(settings: dict[str, Any]) -> int:
        async with aio.Producer(settings) as producer:
            return (await (await producer.send("from-asyncio", b"x" * 200_000))).offset

    assert asyncio.run(send(settings_for(secure, "SASLTLS", sasl_mechanism="SCRAM-SHA-256"))) == 0
    with pytest.raises(SaslAuthenticationError, match="Invalid username or password"):
        asyncio.run(send(settings_for(secure, "SASL", sasl_password="not-it")))


def test_a_plain_client_at_a_tls_port_is_told_what_stands_there(
    secure: SecureKafka, caplog: pytest.LogCaptureFixture
) -> None:
    def is_told() -> bool:
        with (
            pytest.raises(KafkaError),
            AdminClient(bootstrap_servers=secure.servers["TLS"], default_api_timeout_ms=500) as admin,
        ):
            admin.list_topics()
        return "does it expect TLS or SASL?" in caplog.text

    eventually(is_told)


def test_the_code_of_the_security_page_runs(
    secure: SecureKafka, endpoint: TokenEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Path(__file__).parents[2] / "docs" / "guide" / "security.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    (tmp_path / "ca.pem").write_bytes(secure.certificates.authority.read_bytes())
    (tmp_path / "client.pem").write_bytes(secure.certificates.client.read_bytes())
    (tmp_path / "key.pem").write_text(pem(secure.identity_key, PASSWORD), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {
        "tls_servers": secure.servers["TLS"],
        "mutual_servers": secure.servers["MUTUAL"],
        "sasl_servers": secure.servers["SASLTLS"],
        "bearer_servers": secure.servers["SASL"],
        "oidc_servers": secure.servers["OIDC"],
        "token_url": endpoint.url,
        "password": PASSWORD,
        "token": unsecured_jwt({"sub": "me", "exp": time.time() + 600}),
        "expires_ms": int(time.time() + 600) * 1000,
    }
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


def test_a_delegation_token_is_made_described_renewed_and_ended(secure: SecureKafka) -> None:
    with AdminClient(settings_for(secure, "SASL")) as admin:
        token = admin.create_delegation_token(renewers=["User:bob"], max_lifetime=7200)
        assert (token.owner, token.renewers) == (f"User:{USER}", ("User:bob",))
        assert token.max_timestamp - token.issue_timestamp == 7_200_000
        eventually(lambda: token in admin.describe_delegation_token([f"User:{USER}"]))

        jaas = f'ScramLoginModule required username="{token.token_id}" password="{token.hmac_as_base64_string}" {{}};'
        of_token = settings_for(secure, "SASL", sasl_mechanism="SCRAM-SHA-256", sasl_username=None, sasl_password=None)
        of_token["sasl.jaas.config"] = jaas.format("tokenauth=true")
        with AdminClient(of_token) as bearer:
            assert len(bearer.describe_cluster().nodes) == 1
            with pytest.raises(UnsupportedByAuthenticationError):
                bearer.create_delegation_token()
        with pytest.raises(SaslAuthenticationError):
            ask({**of_token, "sasl.jaas.config": jaas.format("")})

        expiry = admin.renew_delegation_token(token.hmac, renew_period=3600)
        assert token.issue_timestamp < expiry < token.max_timestamp
        admin.expire_delegation_token(token.hmac)
        eventually(lambda: token.token_id not in {other.token_id for other in admin.describe_delegation_token()})
        with pytest.raises(DelegationTokenNotFoundError):
            admin.renew_delegation_token(token.hmac)


#: Texts that SASLprep, which RFC 5802 asks for, would make the same.
ALIKE = [("caf\u00e9", "cafe\u0301"), ("\ufb01n", "fin"), ("\u2168", "IX"), ("a\u00adb", "ab")]


@pytest.mark.parametrize(("password", "likeness"), ALIKE)
def test_passwords_of_scram_are_compared_as_they_are_written(secure: SecureKafka, password: str, likeness: str) -> None:
    add_scram_user(secure, "prepared", password)
    eventually(lambda: is_let_in(secure, "prepared", password), 20)
    assert not is_let_in(secure, "prepared", likeness)


@pytest.mark.parametrize(("name", "likeness"), ALIKE)
def test_names_of_scram_beyond_ascii_are_for_our_broker_only(
    request: pytest.FixtureRequest, secure: SecureKafka, name: str, likeness: str
) -> None:
    add_scram_user(secure, name, "secret")
    add_scram_user(secure, "added-after", "secret")
    eventually(lambda: is_let_in(secure, "added-after", "secret"), 20)
    # The expression by which Apache Kafka reads a user's name has ASCII only.
    assert is_let_in(secure, name, "secret") == (request.node.callspec.params["secure"] == "barnabas")
    assert not is_let_in(secure, likeness, "secret")


def add_scram_user(secure: SecureKafka, name: str, password: str) -> None:
    with AdminClient(bootstrap_servers=secure.servers["PLAIN"]) as admin:
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name, password, ScramMechanism.SCRAM_SHA_256)])


def is_let_in(secure: SecureKafka, user: str, password: str) -> bool:
    login = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": user, "sasl_password": password}
    try:
        return ask(settings_for(secure, "SASL", **login)) == 1
    except SaslAuthenticationError:
        return False
