"""What a connection to a listener with SASL may send, in which order, and what comes of it."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.security.jwks import JwksEndpoints
from barnabas.broker.security.sasl_listener import SaslListener
from barnabas.errors import ConfigError
from barnabas.protocol.framing import encode_request
from barnabas.protocol.message import Message
from barnabas.protocol.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from barnabas.protocol.messages.api_versions_request import ApiVersionsRequest
from barnabas.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.support.core_broker import CoreBroker
from tests.support.sasl_conversation import (
    FAILED,
    ILLEGAL_STATE,
    PLAIN,
    SETTINGS,
    Scram,
    add_user,
    bring_to,
    broker_with,
    handshake,
    is_served,
    log_in,
    say,
)

UNSUPPORTED_MECHANISM = 33
UNACCEPTABLE, NOT_FOUND, DUPLICATE = 93, 91, 92


@pytest.fixture
def broker() -> CoreBroker:
    return broker_with()


def logins(broker: CoreBroker) -> dict[tuple[str, str, str], int]:
    return {
        (kind.listener, kind.mechanism, kind.outcome.name): n
        for kind, n in broker.node.core.channel.logins.by_kind.items()
    }


class TestCounting:
    def test_logins_are_counted_by_listener_mechanism_and_outcome(self, broker: CoreBroker) -> None:
        for password in ("secret", "wrong", "secret"):
            log_in(broker.connect("SASL"), password=password)
        assert broker.connect("SASL").request(MetadataRequest(topics=[]), 12) is None

        assert logins(broker) == {
            ("SASL", "PLAIN", "SUCCESSFUL"): 2,
            ("SASL", "PLAIN", "FAILED"): 1,
            ("SASL", "", "FAILED"): 1,
        }

    def test_a_handshake_that_fails_is_counted_and_ends_the_connection(self, broker: CoreBroker) -> None:
        client = broker.connect()
        broker.node.core.channel.insecure(client.connection, "it does not speak TLS")
        assert client.closed
        assert logins(broker) == {("PLAINTEXT", "SSL", "FAILED"): 1}

    def test_renewals_and_sessions_that_ended_are_counted_apart(self) -> None:
        broker = broker_with(listener__name__sasl__plain__connections__max__reauth__ms="60000")
        client, other = broker.connect("SASL"), broker.connect("SASL")
        log_in(client)
        log_in(other)
        broker.advance(30)
        log_in(client)
        log_in(other, "bob", "other")
        broker.advance(61)
        client.request(MetadataRequest(topics=[]), 12)

        assert logins(broker) == {
            ("SASL", "PLAIN", "SUCCESSFUL"): 2,
            ("SASL", "PLAIN", "RENEWED"): 1,
            ("SASL", "PLAIN", "NOT_RENEWED"): 1,
            ("SASL", "PLAIN", "EXPIRED"): 1,
        }


class TestOrder:
    def test_versions_handshake_token_and_then_requests(self, broker: CoreBroker) -> None:
        client = broker.connect("SASL")
        assert client.request(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).api_keys
        assert log_in(client).error_code == 0
        assert client.connection.info.principal == "User:alice"
        assert client.request(MetadataRequest(topics=[]), 12).brokers[0].port == 9093

    @pytest.mark.parametrize(
        ("first", "version"),
        [(MetadataRequest(topics=[]), 12), (SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2)],
    )
    def test_anything_else_first_ends_it(self, broker: CoreBroker, first: Message, version: int) -> None:
        client = broker.connect("SASL")
        assert client.request(first, version) is None
        broker.advance(0.1)
        assert client.closed
        assert not client.responses

    @pytest.mark.parametrize("second", [SaslHandshakeRequest(mechanism="PLAIN"), ApiVersionsRequest()])
    def test_a_second_handshake_is_told_to_be_out_of_order(self, broker: CoreBroker, second: Message) -> None:
        client = broker.connect("SASL")
        handshake(client)
        assert client.request(second, 0) is None
        broker.advance(0.1)
        assert client.responses[-1].error_code == ILLEGAL_STATE  # type: ignore[attr-defined]
        assert client.closed

    @pytest.mark.parametrize("version", [-32768, -1, 0, 1, 2, 3, 4, 32767])
    @pytest.mark.parametrize("before", ["nothing", "versions", "handshake", "failure", "login", "renewal"])
    def test_a_version_that_does_not_exist_ends_the_connection_at_most(self, before: str, version: int) -> None:
        broker = broker_with(listener__name__sasl__plain__connections__max__reauth__ms="60000")
        for key in (-1, 0, 3, 17, 18, 36, 999):
            client = broker.connect("SASL")
            bring_to(client, before)
            client.transport.write = lambda buffers: None
            body = struct.pack(">hhihh", key, version, 1, -1, 0)
            client.send_bytes(len(body).to_bytes(4, "big") + body)
            broker.advance(1)
        assert not [warning for warning in broker.warnings if "please report this" in warning]
        assert is_served(broker.connect())

    def test_an_unknown_mechanism_is_answered_with_those_there_are(self, broker: CoreBroker) -> None:
        client = broker.connect("SASL")
        answer = client.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == UNSUPPORTED_MECHANISM
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
        broker.advance(0.1)
        assert client.closed

    def test_both_messages_are_out_of_order_where_nobody_logs_in(self, broker: CoreBroker) -> None:
        client = broker.connect()
        assert handshake(client) == ILLEGAL_STATE
        assert client.request(SaslAuthenticateRequest(auth_bytes=b""), 2).error_code == ILLEGAL_STATE

    def test_tokens_without_headers_after_a_handshake_of_version_0(self, broker: CoreBroker) -> None:
        client = broker.connect("SASL")
        handshake(client, version=0)
        sent: list[bytes] = []
        client.transport.write = lambda buffers: sent.extend(bytes(buffer) for buffer in buffers)
        token = b"\0alice\0secret"
        client.send_bytes(len(token).to_bytes(4, "big") + token)
        assert b"".join(sent) == bytes(4)
        assert client.connection.info.is_authenticated

    def test_what_comes_in_one_segment_is_worked_on_in_order(self, broker: CoreBroker) -> None:
        for password, answers in (("secret", 3), ("wrong", 2)):
            client = broker.connect("SASL")
            data = b""
            messages: list[tuple[Message, int]] = [
                (SaslHandshakeRequest(mechanism="PLAIN"), 1),
                (SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2),
                (MetadataRequest(topics=[]), 12),
                (SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2),
            ][: 3 if password == "secret" else 4]
            for number, (message, version) in enumerate(messages, 1):
                client._expected.append((message.API_KEY, version, number))
                data += encode_request(message, version, number, "test")
            client.send_bytes(data)
            broker.advance(0.2)
            assert len(client.responses) == answers
            assert client.closed == (password == "wrong")


class TestPlain:
    @pytest.mark.parametrize(
        "token",
        [b"\0alice\0wrong", b"\0mallory\0secret", b"\0alice\0other", b"\0Alice\0secret", b"\0alice\0secret ",
         b"\0\0secret", b"\0alice\0", b"alice\0secret", b"\0alice\0secret\0", b"bob\0alice\0secret", b"\0\xff\0secret",
         b"", b"\0" + b"a" * 400_000 + b"\0secret"],
    )  # fmt: skip
    def test_who_is_not_let_in(self, broker: CoreBroker, token: bytes) -> None:
        client = broker.connect("SASL")
        handshake(client)
        answer = say(client, token)
        assert answer.error_code == FAILED
        assert "secret" not in answer.error_message
        assert client.closed

    def test_an_unknown_user_is_told_what_a_wrong_password_is(self, broker: CoreBroker) -> None:
        told = {log_in(broker.connect("SASL"), *who).error_message for who in (("alice", "x"), ("mallory", "x"))}
        assert len(told) == 1

    def test_the_refusal_is_delayed_and_nothing_is_worked_on_meanwhile(self) -> None:
        broker = broker_with(connection__failed__authentication__delay__ms=2000)
        client = broker.connect("SASL")
        handshake(client)
        assert client.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2) is None
        assert client.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2) is None
        broker.advance(1.9)
        assert len(client.responses) == 1
        broker.advance(0.2)
        assert client.responses[-1].error_code == FAILED  # type: ignore[attr-defined]
        assert client.closed

    def test_large_requests_are_for_who_has_logged_in(self) -> None:
        broker = broker_with(sasl__server__max__receive__size=1000)
        for size, closed in ((1000, False), (1001, True)):
            client = broker.connect("SASL")
            client.send_bytes(size.to_bytes(4, "big"))
            assert client.closed == closed
        client = broker.connect("SASL")
        log_in(client)
        client.send_bytes((100_000).to_bytes(4, "big"))
        assert not client.closed


class TestScram:
    @pytest.mark.parametrize(("number", "mechanism"), [(1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")])
    @pytest.mark.parametrize("name", ["carol", "a=b,c", "zoë"])
    def test_both_sides_prove_that_they_know_it(
        self, broker: CoreBroker, number: int, mechanism: str, name: str
    ) -> None:
        assert add_user(broker, name, "hunter2", number) == 0
        login = Scram(broker, name, "hunter2", mechanism)
        answer = login.run()
        assert answer.error_code == 0
        login.exchange.evaluate_challenge(answer.auth_bytes)
        assert login.exchange.is_complete
        assert login.client.connection.info.principal == f"User:{name}"
        assert is_served(login.client)

    def test_wrong_passwords_and_unknown_users_fail_alike(self, broker: CoreBroker) -> None:
        add_user(broker, "carol", "hunter2")
        answers = [Scram(broker, *who).run() for who in (("carol", "x"), ("dave", "x"))]
        assert {(answer.error_code, answer.error_message) for answer in answers} == {(FAILED, answers[0].error_message)}
        salts = [say(Scram(broker, "dave", "x").client, b"n,,n=dave,r=abc").auth_bytes.split(b",")[1] for _ in "ab"]
        assert salts[0] == salts[1]

    @pytest.mark.parametrize(
        "first",
        [
            lambda text: text.replace(b"n,,", b"p=tls-unique,,"),
            lambda text: text.replace(b"n,,", b"n,a=admin,"),
            lambda text: text.replace(b"n,,n=", b"n,,m=x,n="),
            lambda text: text.replace(b"n=carol", b"n=car=ol"),
            lambda text: text + b",tokenauth=true",
            lambda text: b"",
            lambda text: text + b"\0",
        ],
    )
    def test_a_first_message_that_is_none(self, broker: CoreBroker, first: Any) -> None:
        add_user(broker, "carol", "hunter2")
        assert Scram(broker, "carol", "hunter2").run(first=first).error_code == FAILED

    @pytest.mark.parametrize(
        "final",
        [
            lambda text: text.replace(b"c=biws", b"c=eSws"),
            lambda text: text.replace(b"r=nonce-of", b"r=Nonce-of"),
            lambda text: text[: text.index(b",p=")] + b",p=",
            lambda text: text[: text.index(b",p=")],
            lambda text: text[:-4] + b"AAA=",
            lambda text: text.replace(b",p=", b",m=1,p="),
            lambda text: b"",
        ],
    )
    def test_a_final_message_that_was_changed(self, broker: CoreBroker, final: Any) -> None:
        add_user(broker, "carol", "hunter2")
        assert Scram(broker, "carol", "hunter2").run(final=final).error_code == FAILED

    def test_a_replayed_message_is_worth_nothing(self, broker: CoreBroker) -> None:
        add_user(broker, "carol", "hunter2")
        kept: list[bytes] = []
        assert Scram(broker, "carol", "hunter2").run(final=lambda text: kept.append(text) or text).error_code == 0
        assert Scram(broker, "carol", "wrong").run(final=lambda text: kept[0]).error_code == FAILED


class TestUsersOfScram:
    @pytest.mark.parametrize(
        ("iterations", "code"), [(4095, UNACCEPTABLE), (4096, 0), (16384, 0), (16385, UNACCEPTABLE)]
    )
    def test_iterations_are_bounded(self, broker: CoreBroker, iterations: int, code: int) -> None:
        assert add_user(broker, "carol", "hunter2", iterations=iterations) == code

    def test_they_are_described_changed_and_deleted_over_a_crash(self, broker: CoreBroker) -> None:
        add_user(broker, "carol", "hunter2", 1, 4096)
        add_user(broker, "carol", "hunter2", 2, 8192)
        after = broker.crashed()
        described = after.connect().request(DescribeUserScramCredentialsRequest(users=None), 0)
        infos = described.results[0].credential_infos
        assert [(info.mechanism, info.iterations) for info in infos] == [(1, 4096), (2, 8192)]
        assert "hunter2" not in str(list(after.store.read().changes))

        deletion = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion("carol", 1)])
        assert [after.connect().request(deletion, 0).results[0].error_code for _ in "ab"] == [0, NOT_FOUND]
        asked = [UserName(name) for name in ("carol", "x", "y", "y")]
        results = after.connect().request(DescribeUserScramCredentialsRequest(users=asked), 0).results
        assert [(result.user, result.error_code) for result in results] == [
            ("carol", 0), ("x", NOT_FOUND), ("y", DUPLICATE),
        ]  # fmt: skip

    def test_a_user_is_changed_once_in_a_request(self, broker: CoreBroker) -> None:
        add_user(broker, "carol", "hunter2")
        deletions = [ScramCredentialDeletion("carol", 1), ScramCredentialDeletion("carol", 2)]
        answer = broker.connect().request(AlterUserScramCredentialsRequest(deletions=deletions), 0)
        assert [(result.user, result.error_code) for result in answer.results] == [("carol", DUPLICATE)]


class TestSessions:
    def test_without_a_limit_they_have_no_end(self, broker: CoreBroker) -> None:
        client = broker.connect("SASL")
        assert log_in(client).session_lifetime_ms == 0
        broker.advance(500)
        assert is_served(client)
        assert handshake(client) == ILLEGAL_STATE

    def test_who_does_not_authenticate_again_is_closed(self) -> None:
        broker = broker_with(connections__max__reauth__ms=5000)
        client = broker.connect("SASL")
        assert log_in(client).session_lifetime_ms == 5000
        broker.advance(4.9)
        assert is_served(client)
        broker.advance(0.2)
        assert not is_served(client)
        assert client.closed

    def test_a_renewed_session_goes_on(self) -> None:
        broker = broker_with(connections__max__reauth__ms=5000)
        client = broker.connect("SASL")
        log_in(client)
        for _ in range(3):
            broker.advance(4)
            assert log_in(client).error_code == 0
        assert is_served(client)

    @pytest.mark.parametrize(
        ("mechanism", "token"), [("PLAIN", b"\0bob\0other"), ("PLAIN", b"\0alice\0wrong"), ("SCRAM-SHA-256", b"")]
    )
    def test_nobody_becomes_somebody_else(self, mechanism: str, token: bytes) -> None:
        broker = broker_with(connections__max__reauth__ms=5000)
        client = broker.connect("SASL")
        log_in(client)
        broker.advance(2)
        client.request(SaslHandshakeRequest(mechanism=mechanism), 1)
        if mechanism == "PLAIN":
            assert say(client, token).error_code == FAILED
        broker.advance(0.2)
        assert client.closed
        assert client.connection.info.principal == "User:alice"

    def test_twice_within_a_second_is_out_of_order(self) -> None:
        broker = broker_with(connections__max__reauth__ms=5000)
        client = broker.connect("SASL")
        log_in(client)
        assert log_in(client).error_code == 0
        assert handshake(client) == ILLEGAL_STATE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sasl.enabled.mechanisms": None}, "GSSAPI"),
        ({"sasl.enabled.mechanisms": "PLAIN,DIGEST-MD5"}, "DIGEST-MD5"),
        ({"listener.name.sasl.plain.sasl.jaas.config": "PlainLoginModule required;"}, "no users"),
        ({"listener.name.sasl.plain.sasl.jaas.config": None, "sasl.jaas.config": PLAIN}, "no users"),
        ({"listener.name.sasl.plain.sasl.jaas.config": "ScramLoginModule required;"}, "goes with it"),
        ({"listener.name.sasl.plain.sasl.jaas.config": "nonsense"}, "must"),
        ({"listener.name.sasl.plain.sasl.server.callback.handler.class": "x.Y"}, "Java class"),
        ({"listener.name.sasl.oauthbearer.sasl.jaas.config": None}, "jwks.endpoint.url"),
        ({"listener.name.sasl.oauthbearer.sasl.server.callback.handler.class": "x.Y"}, "Java class"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "http://example.org/keys"}, "https"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "file:///nowhere/keys"}, "cannot be used"),
        ({"sasl.oauthbearer.jwks.endpoint.url": "ftp://example.org/keys"}, "https"),
    ],
)
def test_what_cannot_be_offered_keeps_the_broker_from_starting(change: dict[str, str | None], says: str) -> None:
    settings = {name: value for name, value in {**SETTINGS, **change}.items() if value is not None}
    with pytest.raises(ConfigError, match=says) as caught:
        SaslListener(
            BrokerConfig(settings), "SASL", lambda mechanism: lambda name, is_token: None, print, JwksEndpoints()
        )
    assert "secret" not in str(caught.value).replace("[hidden]", "")


def test_unsigned_tokens_are_taken_only_where_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    broker = broker_with()
    assert any("nobody has signed" in line for line in broker.warnings)


def test_noise_logs_nobody_in(broker: CoreBroker) -> None:
    for seed in range(300):
        source = random.Random(seed)
        client = broker.connect("SASL")
        if seed % 2:
            handshake(client, source.choice(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]), source.choice([0, 1]))
        client.transport.write = lambda buffers: None
        for _ in range(5):
            frame = source.choice([b"\0\x24\0\x02", b"\0\x11\0\x01", b"\0\x12\0\x03", b""])
            frame += source.randbytes(source.choice([0, 3, 20, 200]))
            if not client.closed:
                client.send_bytes(len(frame).to_bytes(4, "big") + frame)
        broker.advance(0.2)
        assert client.connection.info.principal == "User:ANONYMOUS"
        assert not client.connection.info.is_authenticated
    assert not any("please report this" in line for line in broker.warnings)
