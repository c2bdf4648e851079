"""Delegation tokens: who makes them, how long they live, and who comes in by them (KIP-48, KIP-373)."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from typing import Any

import pytest

from barnabas.broker.metadata.image_store import ImageStore
from barnabas.broker.metadata.metadata_image import MetadataImage
from barnabas.errors import KafkaStorageError
from barnabas.network.security.scram_sasl_client import ScramSaslClient
from barnabas.protocol.messages.create_delegation_token_request import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from barnabas.protocol.messages.delegation_token_record import DelegationTokenRecord
from barnabas.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from barnabas.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.support.core_broker import CoreBroker, CoreClient

DISABLED, NOT_FOUND, MISMATCH, NOT_ALLOWED, EXPIRED, PRINCIPAL_TYPE, SASL_FAILED = 61, 62, 63, 64, 66, 67, 58
SECRET = "the key of this cluster"
DAY, WEEK = 86_400_000, 604_800_000
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    "delegation.token.secret.key": SECRET,
}


def broker_with(**more: Any) -> CoreBroker:
    broker = CoreBroker({**SETTINGS, **{name.replace("__", "."): value for name, value in more.items()}})
    broker.state.advertised["SASL"] = ("127.0.0.1", 9093)
    return broker


@pytest.fixture
def broker() -> CoreBroker:
    return broker_with()


def user(broker: CoreBroker, name: str, protocol: str = "SASL_PLAINTEXT") -> CoreClient:
    client = broker.connect()
    client.connection.info.principal = f"User:{name}"
    client.connection.info.security_protocol = protocol
    return client


def make(client: CoreClient, *renewers: str, lifetime: int = 0, version: int = 3, **more: Any) -> Any:
    wanted = [CreatableRenewers("User", name) for name in renewers]
    return client.request(
        CreateDelegationTokenRequest(
            **({"owner_principal_type": None, "owner_principal_name": None} if version >= 3 else {}) | more,
            renewers=wanted,
            max_lifetime_ms=lifetime,
        ),
        version,
    )


def renew(client: CoreClient, token: Any, period: int = 0) -> Any:
    return client.request(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period), 2)


def expire(client: CoreClient, token: Any, period: int = -1) -> Any:
    return client.request(ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period), 2)


def seen_by(client: CoreClient, *owners: str, version: int = 3) -> list[Any]:
    asked = [DescribeDelegationTokenOwner("User", name) for name in owners] or None
    response = client.request(DescribeDelegationTokenRequest(owners=asked), version)
    assert response.error_code == 0
    tokens: list[Any] = response.tokens
    return tokens


def log_in(broker: CoreBroker, token: Any, mechanism: str = "SCRAM-SHA-256", *, is_token: bool = True) -> CoreClient:
    """Come in by a token, as far as the broker lets."""
    client = broker.connect("SASL")
    assert client.request(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    password = b64encode(token.hmac).decode()
    exchange = ScramSaslClient(mechanism, token.token_id, password, "nonce", is_token=is_token)
    challenge = client.request(SaslAuthenticateRequest(auth_bytes=exchange.initial_response()), 2)
    client.request(SaslAuthenticateRequest(auth_bytes=exchange.evaluate_challenge(challenge.auth_bytes).run()), 2)
    broker.advance(0.2)
    return client


class TestMaking:
    def test_a_token_is_for_whoever_asks_and_its_secret_is_that_of_apache_kafka(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"))

        assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "alice")
        assert token.token_requester_principal_name == "alice"
        assert token.hmac == hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
        assert token.issue_timestamp_ms == broker.instant.now_ms
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY
        assert token.max_timestamp_ms - token.issue_timestamp_ms == WEEK

    @pytest.mark.parametrize(("asked", "given"), [(-1, WEEK), (0, WEEK), (60_000, 60_000), (2**62, WEEK)])
    def test_its_lifetime_is_at_most_the_brokers(self, broker: CoreBroker, asked: int, given: int) -> None:
        token = make(user(broker, "alice"), lifetime=asked)
        assert token.max_timestamp_ms - token.issue_timestamp_ms == given
        assert token.expiry_timestamp_ms <= token.max_timestamp_ms

    def test_the_settings_say_how_long(self) -> None:
        broker = broker_with(delegation__token__max__lifetime__ms="5000", delegation__token__expiry__time__ms="2000")
        token = make(user(broker, "alice"))
        assert token.max_timestamp_ms - token.issue_timestamp_ms == 5000
        assert token.expiry_timestamp_ms - token.issue_timestamp_ms == 2000

    def test_the_versions_before_3_know_no_requester(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"), version=1)
        assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "")
        assert [one.token_requester_principal_name for one in seen_by(user(broker, "alice"), version=2)] == [""]

    @pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
    def test_nobody_who_is_not_authenticated_has_any(self, broker: CoreBroker, protocol: str) -> None:
        client = user(broker, "ANONYMOUS", protocol)
        token = make(user(broker, "alice"))
        assert make(client).error_code == NOT_ALLOWED
        assert renew(client, token).error_code == expire(client, token).error_code == NOT_ALLOWED
        assert client.request(DescribeDelegationTokenRequest(owners=None), 3).error_code == NOT_ALLOWED

    def test_a_client_with_a_certificate_has(self, broker: CoreBroker) -> None:
        assert make(user(broker, "CN=alice", "SSL")).error_code == 0

    def test_only_users_own_and_renew(self, broker: CoreBroker) -> None:
        of_group = make(user(broker, "alice"), owner_principal_type="Group", owner_principal_name="admins")
        renewer = [CreatableRenewers("Group", "admins")]
        by_group = user(broker, "alice").request(CreateDelegationTokenRequest(renewers=renewer), 2)
        assert of_group.error_code == by_group.error_code == PRINCIPAL_TYPE
        assert not seen_by(user(broker, "alice"))

    def test_without_a_key_there_are_none(self) -> None:
        broker = broker_with(delegation__token__secret__key=None)
        client = user(broker, "alice")
        nothing = type("Token", (), {"hmac": b"x"})
        assert make(client).error_code == DISABLED
        assert renew(client, nothing).error_code == expire(client, nothing).error_code == DISABLED
        assert client.request(DescribeDelegationTokenRequest(owners=None), 3).error_code == DISABLED


class TestLife:
    def test_owner_and_renewers_renew_it_and_no_one_else(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"), "carol")
        broker.advance(60)
        for name in ("alice", "carol"):
            assert renew(user(broker, name), token, 30_000).expiry_timestamp_ms == broker.instant.now_ms + 30_000
        assert renew(user(broker, "mallory"), token).error_code == MISMATCH
        assert expire(user(broker, "mallory"), token).error_code == MISMATCH

    def test_it_is_not_renewed_beyond_its_longest_lifetime(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"), lifetime=90_000)
        broker.advance(60)
        assert renew(user(broker, "alice"), token).expiry_timestamp_ms == token.max_timestamp_ms

    def test_what_has_expired_is_neither_renewed_nor_prolonged(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"), lifetime=90_000)
        broker.advance(91)
        assert renew(user(broker, "alice"), token).error_code == EXPIRED
        assert expire(user(broker, "alice"), token, 60_000).error_code == EXPIRED
        assert expire(user(broker, "alice"), token).error_code == 0

    def test_it_ends_at_once_or_after_a_period(self, broker: CoreBroker) -> None:
        client = user(broker, "alice")
        first, second = make(client), make(client)
        assert expire(client, first).expiry_timestamp_ms == broker.instant.now_ms
        assert expire(client, second, 5000).expiry_timestamp_ms == broker.instant.now_ms + 5000
        assert renew(client, first).error_code == NOT_FOUND
        assert [one.token_id for one in seen_by(client)] == [second.token_id]

    def test_an_unknown_secret_is_no_token(self, broker: CoreBroker) -> None:
        nothing = type("Token", (), {"hmac": b"guessed"})
        assert renew(user(broker, "alice"), nothing).error_code == NOT_FOUND
        assert expire(user(broker, "alice"), nothing).error_code == NOT_FOUND

    def test_the_broker_takes_away_what_has_expired(self) -> None:
        broker = broker_with(delegation__token__expiry__check__interval__ms="10000")
        short, long = make(user(broker, "alice"), lifetime=5000), make(user(broker, "alice"))
        broker.advance(11)
        assert [one.token_id for one in seen_by(user(broker, "alice"))] == [long.token_id]
        assert renew(user(broker, "alice"), short).error_code == NOT_FOUND

    def test_what_the_metadata_store_refuses_is_told_and_holds_nowhere(
        self, broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = user(broker, "alice")
        token = make(client)
        before = seen_by(client)

        def full(*arguments: Any, **keywords: Any) -> Any:
            raise KafkaStorageError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(broker.store, "write", full)
            answers = [make(client), renew(client, token, 1000), expire(client, token), expire(client, token, 1000)]
            broker.advance(WEEK / 1000 + 1)
        assert [one.error_code for one in answers] == [KafkaStorageError.code] * 4
        assert not answers[0].hmac
        assert seen_by(user(broker, "alice")) == before
        broker.advance(3600)
        assert seen_by(user(broker, "alice")) == [], "it has expired, and is taken away at the next look"

    def test_tokens_outlive_the_broker(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"), "carol")
        again = broker.crashed()
        again.state.advertised["SASL"] = ("127.0.0.1", 9093)
        assert renew(user(again, "carol"), token).error_code == 0
        assert log_in(again, token).connection.info.principal == "User:alice"


class TestSeeing:
    def test_owners_and_renewers_see_theirs(self, broker: CoreBroker) -> None:
        # Without an authorizer everybody may describe all.
        broker = broker_with(authorizer__class__name="standard", super__users="User:admin")
        token = make(user(broker, "alice"), "carol")
        make(user(broker, "bob"))
        for name in ("alice", "carol"):
            (found,) = seen_by(user(broker, name))
            assert (found.token_id, found.hmac, found.principal_name) == (token.token_id, token.hmac, "alice")
            assert [one.principal_name for one in found.renewers] == ["carol"]
        assert seen_by(user(broker, "mallory")) == []
        assert len(seen_by(user(broker, "admin"))) == 2

    def test_asking_for_owners_finds_what_they_own_or_renew(self, broker: CoreBroker) -> None:
        client = user(broker, "alice")
        make(client, "carol")
        assert len(seen_by(client, "carol")) == len(seen_by(client, "nobody", "alice")) == 1
        assert seen_by(client, "nobody") == []
        none = client.request(DescribeDelegationTokenRequest(owners=[]), 3)
        assert (none.error_code, none.tokens) == (0, [])

    def test_many_are_described_a_piece_at_a_time(self, broker: CoreBroker, monkeypatch: pytest.MonkeyPatch) -> None:
        tokens = broker.state.delegation_tokens
        monkeypatch.setattr(tokens, "_prepare_beside", lambda id: None)
        for _ in range(1000):
            token = tokens.new(broker.state.random, ("User:alice", "User:alice"), (), (broker.instant.now_ms, 0))
            tokens.put(token, lambda problem: None)
        client = user(broker, "alice")
        client.send(DescribeDelegationTokenRequest(owners=None), 3)
        assert not client.responses, "others have their turn in between"
        assert broker.state.large_responses.next_deadline() <= broker.now
        assert len(seen_by(user(broker, "alice"))) == 1000


class TestComingIn:
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    def test_whoever_has_the_token_is_its_owner(self, broker: CoreBroker, mechanism: str) -> None:
        client = log_in(broker, make(user(broker, "alice")), mechanism)
        assert client.connection.info.principal == "User:alice"
        assert client.request(MetadataRequest(topics=[]), 12).brokers

    def test_a_token_makes_no_tokens_and_does_not_see_any(self, broker: CoreBroker) -> None:
        token = make(user(broker, "alice"))
        client = log_in(broker, token)
        assert make(client).error_code == renew(client, token).error_code == NOT_ALLOWED
        assert expire(client, token).error_code == NOT_ALLOWED
        assert client.request(DescribeDelegationTokenRequest(owners=None), 3).error_code == NOT_ALLOWED

    def test_its_id_is_no_user(self, broker: CoreBroker) -> None:
        client = log_in(broker, make(user(broker, "alice")), is_token=False)
        assert client.closed or client.responses[-1].error_code == SASL_FAILED

    @pytest.mark.parametrize("way", ["expired", "ended", "guessed"])
    def test_a_token_that_is_of_no_use_lets_nobody_in(self, broker: CoreBroker, way: str) -> None:
        token = make(user(broker, "alice"), lifetime=60_000)
        if way == "expired":
            broker.advance(61)
        elif way == "ended":
            expire(user(broker, "alice"), token)
        else:
            token.hmac = bytes(64)
        client = log_in(broker, token)
        assert client.responses[-1].error_code == SASL_FAILED  # type: ignore[attr-defined]
        assert client.connection.info.principal != "User:alice"

    def test_a_session_ends_with_its_token(self, broker: CoreBroker) -> None:
        client = log_in(broker, make(user(broker, "alice"), lifetime=60_000))
        assert client.responses[-1].session_lifetime_ms == 60_000  # type: ignore[attr-defined]
        assert client.request(MetadataRequest(topics=[]), 12).brokers
        broker.advance(61)
        client.request(MetadataRequest(topics=[]), 12)
        assert client.closed


def test_the_tokens_of_a_cluster_come_from_its_metadata() -> None:
    record = DelegationTokenRecord("User:alice", "User:bob", ["User:carol"], 1, 3, 2, "id")
    store = ImageStore("cluster", MetadataImage())
    heard: list[Any] = []
    store.subscribe(heard.append)

    store.publish_image(MetadataImage(delegation_tokens={"id": record}))
    store.publish_image(MetadataImage(delegation_tokens={}))

    value = {"owner": "User:alice", "requester": "User:bob", "renewers": ["User:carol"]}
    times = {"issue_ms": 1, "max_ms": 3, "expiry_ms": 2}
    assert [(one.key, one.value) for changes in heard for one in changes.changes] == [
        ("delegation_tokens/id", value | times),
        ("delegation_tokens/id", None),
    ]
