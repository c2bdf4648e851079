"""What an attacker may try, and what comes of it: nothing gets in, crashes, blocks or fills anything.

Logins are attacked in `test_logging_in` and `test_oauth_bearer_tokens`, handshakes in
`tests/contract/broker/test_tls_listeners`, keys of tokens in `test_jwks`; bytes of all kinds come from
`tools/fuzz/logins`.
"""

from __future__ import annotations

import hmac
import time
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.network.unauthenticated_connections import LOGIN_SECONDS
from barnabas.broker.security import scram_sasl_server
from barnabas.broker.security.listener_security import ListenerSecurities
from barnabas.broker.security.scram_arguments import parse_scram
from barnabas.broker.security.scram_users import ScramUsers
from barnabas.broker.security.ssl_principal_mapper import SslPrincipalMapper
from barnabas.broker.storage_threads import InlineStorage
from barnabas.config.config_def import definitions
from barnabas.network.security import scram
from barnabas.network.security.oauth_bearer_token import unsecured_jwt
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import PatternType, ResourceType
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from barnabas.protocol.messages.end_txn_request import EndTxnRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from barnabas.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from barnabas.records import compression
from tests.support.core_broker import START_MS, CoreBroker, CoreClient, batch, create, fetch, produce
from tests.support.sasl_conversation import (
    Scram,
    add_user,
    bearer,
    broker_with,
    handshake,
    is_served,
    say,
)

TOPIC_DENIED, GROUP_DENIED, TRANSACTION_DENIED, INVALID_TOPIC = 29, 30, 53, 17
INVALID_PRODUCER_ID_MAPPING = 49
ACLS = {"authorizer.class.name": "standard", "super.users": "User:admin"}


class TestBeforeTheLogin:
    def test_what_is_compressed_is_not_unpacked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = broker_with()
        monkeypatch.setattr(compression, "decompress", None)
        client = broker.connect("SASL")
        bomb = batch(b"\0" * 900_000, compression="gzip")
        assert client.request(produce("t", bomb), 12) is None
        broker.advance(0.2)
        assert client.closed
        assert not client.responses

    @pytest.mark.parametrize(
        "body",
        [
            # SaslHandshake whose header announces 2^28 tagged fields, and one whose name has 2 GB.
            b"\0\x11\0\1\0\0\0\1\0\1c" + b"\x7f\xff",
            # ApiVersions of a flexible version: tagged fields without end, a name of 2^32 bytes.
            b"\0\x12\0\3\0\0\0\1\0\1c" + b"\xff\xff\xff\xff\x0f",
            b"\0\x12\0\3\0\0\0\1\0\1c\0" + b"\xff\xff\xff\xff\x0f",
            # Many tagged fields of no bytes each.
            b"\0\x12\0\3\0\0\0\1\0\1c" + b"\xa0\x8d\x06" + b"\0\0" * 100_000,
        ],
    )
    def test_counts_that_are_only_claimed_cost_nothing(self, body: bytes) -> None:
        broker = broker_with()
        client = broker.connect("SASL")
        started = time.process_time()
        client.send_bytes(len(body).to_bytes(4, "big") + body)
        broker.advance(0.2)
        assert client.closed
        assert time.process_time() - started < 0.5
        assert not [warning for warning in broker.warnings if "report this" in warning]

    def test_thousands_that_announce_a_large_token_hold_what_they_have_sent(self) -> None:
        broker = broker_with()
        crowd = [broker.connect("SASL") for _ in range(2000)]
        for client in crowd:
            client.send_bytes((500_000).to_bytes(4, "big") + b"\0\x11")
        held = sum(client.connection.buffer.memory for client in crowd)
        # A buffer of 64 KB and one of four times that, which the system gives when it is written to.
        assert held <= 2000 * 5 * 65536
        assert is_served(broker.connect())
        assert LOGIN_SECONDS <= 60

    def test_an_unknown_user_costs_what_a_known_one_does(self, monkeypatch: pytest.MonkeyPatch) -> None:
        broker = broker_with()
        add_user(broker, "carol", "hunter2")
        calls: list[str] = []
        for name in ("hmac", "digest", "compare_digest", "signature"):
            for module in (scram_sasl_server, hmac):
                there = getattr(module, name, None)
                if callable(there):
                    monkeypatch.setattr(module, name, counting(calls, name, there))
        costs = []
        for user in ("carol", "dave"):
            calls.clear()
            assert Scram(broker, user, "wrong").run().error_code
            costs.append(sorted(calls))
        assert costs[0] == costs[1]
        assert "compare_digest" in costs[0]


def counting(calls: list[str], name: str, there: Any) -> Any:
    def counted(*args: Any, **named: Any) -> Any:
        calls.append(name)
        return there(*args, **named)

    return counted


class TestSessions:
    NOW = START_MS // 1000

    def test_a_token_that_expires_while_a_request_is_in_flight(self) -> None:
        broker = broker_with()
        admin, client = broker.connect(), broker.connect("SASL")
        admin.request(create("t"), 7)
        handshake(client, "OAUTHBEARER")
        answer = say(client, bearer(unsecured_jwt({"sub": "dora", "exp": self.NOW + 5})))
        assert 0 < answer.session_lifetime_ms <= 5000
        # Parked until long after the token's end.
        assert client.request(fetch("t", max_wait_ms=20_000), 12) is None
        broker.advance(21)
        assert len(client.responses) == 3
        assert client.request(MetadataRequest(topics=[]), 12) is None
        assert client.closed
        assert "its session has ended" in broker.warnings[-1]

    def test_what_was_sent_behind_the_end_of_a_session_is_not_worked_on(self) -> None:
        broker = broker_with()
        admin, client = broker.connect(), broker.connect("SASL")
        admin.request(create("t"), 7)
        handshake(client, "OAUTHBEARER")
        say(client, bearer(unsecured_jwt({"sub": "dora", "exp": self.NOW + 5})))
        # While the first waits, the others lie in the buffer.
        client.send(fetch("t", max_wait_ms=20_000), 12)
        client.send(produce("t", batch(b"too late")), 12)
        broker.advance(30)
        assert client.closed
        assert broker.state.replica_manager.partition("t", 0).log.log_end_offset == 0


class Guarded:
    """A broker with ACLs, two topics with a record each, and clients by name."""

    def __init__(self) -> None:
        self.broker = CoreBroker(ACLS)
        self.admin = self.client("admin")
        for name in ("open", "secret"):
            self.admin.request(create(name), 7)
            self.admin.request(produce(name, batch(b"v")), 12)

    def client(self, name: str) -> CoreClient:
        client = self.broker.connect()
        client.connection.info.principal = f"User:{name}"
        return client

    def allow(self, name: str, operation: int, resource: str, kind: int = ResourceType.TOPIC) -> None:
        one = AclCreation(kind, resource, PatternType.LITERAL, f"User:{name}", "*", operation, 3)
        assert self.admin.request(CreateAclsRequest([one]), 3).results[0].error_code == 0

    def forbid(self, resource: str) -> None:
        one = DeleteAclsFilter(ResourceType.TOPIC, resource, PatternType.ANY, None, None, Op.ANY, 1)
        self.admin.request(DeleteAclsRequest([one]), 3)


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


class TestWaysAroundAcls:
    def test_the_fetch_session_of_somebody_else_shows_only_ones_own(self, guarded: Guarded) -> None:
        for name, topic in (("alice", "secret"), ("alice", "open"), ("bob", "open")):
            guarded.allow(name, Op.READ, topic)
        request = fetch("secret")
        request.topics += fetch("open").topics
        request.session_epoch = 0
        session = guarded.client("alice").request(request, 12).session_id
        again = FetchRequest(session_id=session, session_epoch=1, max_wait_ms=0)
        found = guarded.client("bob").request(again, 12)
        told = {one.topic: one.partitions[0] for one in found.responses}
        assert told["secret"].error_code == TOPIC_DENIED
        assert not told["secret"].records

    @pytest.mark.parametrize("version", [12, 13])
    def test_records_by_a_topics_id(self, guarded: Guarded, version: int) -> None:
        id = guarded.broker.state.metadata.topic("secret").id
        found = guarded.client("bob").request(fetch("secret", topic_id=id), version).responses[0]
        assert (found.partitions[0].error_code, not found.partitions[0].records) == (TOPIC_DENIED, True)
        written = guarded.client("bob").request(produce("secret", batch(b"x"), topic_id=id), version)
        assert written.responses[0].partition_responses[0].error_code == TOPIC_DENIED
        named = guarded.client("bob").request(MetadataRequest(topics=None), 12)
        assert named.topics == []

    def test_describing_partitions_from_a_topic_that_is_hidden(self, guarded: Guarded) -> None:
        guarded.allow("bob", Op.DESCRIBE, "open")
        for request in (
            DescribeTopicPartitionsRequest(topics=[], cursor=Cursor(topic_name="secret", partition_index=0)),
            DescribeTopicPartitionsRequest(topics=[]),
        ):
            found = guarded.client("bob").request(request, 0)
            assert {one.name for one in found.topics} <= {"open"}
        named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="secret"), TopicRequest(name="nowhere")])
        found = guarded.client("bob").request(named, 0)
        assert {(one.name, one.error_code, len(one.partitions)) for one in found.topics} == {
            ("secret", TOPIC_DENIED, 0),
            ("nowhere", TOPIC_DENIED, 0),
        }

    def test_the_transaction_of_somebody_else(self, guarded: Guarded) -> None:
        guarded.allow("alice", Op.WRITE, "hers", ResourceType.TRANSACTIONAL_ID)
        guarded.allow("bob", Op.WRITE, "his", ResourceType.TRANSACTIONAL_ID)
        alice, bob = guarded.client("alice"), guarded.client("bob")
        hers = alice.request(InitProducerIdRequest(transactional_id="hers", transaction_timeout_ms=60_000), 4)
        bob.request(InitProducerIdRequest(transactional_id="his", transaction_timeout_ms=60_000), 4)
        for name, code in (("hers", TRANSACTION_DENIED), ("his", INVALID_PRODUCER_ID_MAPPING)):
            request = EndTxnRequest(
                transactional_id=name, producer_id=hers.producer_id, producer_epoch=hers.producer_epoch, committed=True
            )
            assert bob.request(request, 3).error_code == code
        fencing = InitProducerIdRequest(transactional_id="hers", transaction_timeout_ms=60_000)
        assert bob.request(fencing, 4).error_code == TRANSACTION_DENIED

    def test_the_offsets_of_somebody_else(self, guarded: Guarded) -> None:
        guarded.allow("bob", Op.READ, "his", ResourceType.GROUP)
        groups = [OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("hers", "his")]
        found = guarded.client("bob").request(OffsetFetchRequest(groups=groups), 8)
        assert {one.group_id: one.error_code for one in found.groups} == {"hers": GROUP_DENIED, "his": 0}

    def test_internal_topics_are_not_written_to_by_clients(self, guarded: Guarded) -> None:
        guarded.allow("bob", Op.WRITE, "*")
        for topic in ("__consumer_offsets", "__transaction_state"):
            found = guarded.client("bob").request(produce(topic, batch(b"x")), 12)
            code = found.responses[0].partition_responses[0].error_code
            assert code in (INVALID_TOPIC, 3), code

    def test_records_are_not_deleted_by_who_may_read(self, guarded: Guarded) -> None:
        guarded.allow("bob", Op.READ, "secret")
        part = DeleteRecordsPartition(partition_index=0, offset=-1)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="secret", partitions=[part])])
        assert guarded.client("bob").request(request, 2).topics[0].partitions[0].error_code == TOPIC_DENIED
        assert guarded.broker.state.replica_manager.partition("secret", 0).log.log_start_offset == 0

    @pytest.mark.parametrize("name", ["a\0b", "a\nb", "*", "\x1b[2J", "n" * 30_000, "ä" * 100, "a/b", "../t"])
    def test_names_in_acls_mean_what_they_say(self, guarded: Guarded, name: str) -> None:
        one = AclCreation(ResourceType.TOPIC, name, PatternType.PREFIXED, "User:bob", "*", Op.READ, 3)
        code = guarded.admin.request(CreateAclsRequest([one]), 3).results[0].error_code
        allows = guarded.broker.state.authorization.authorizer.allows
        assert allows("User:bob", "h", Op.READ, ResourceType.TOPIC, f"{name}x") == (code == 0)
        assert not allows("User:bob", "h", Op.READ, ResourceType.TOPIC, "open")
        assert not allows("User:bob", "h", Op.READ, ResourceType.TOPIC, "a")

    def test_a_right_that_is_gone_is_gone_for_every_way_to_read(self, guarded: Guarded) -> None:
        guarded.allow("bob", Op.READ, "secret")
        bob, id = guarded.client("bob"), guarded.broker.state.metadata.topic("secret").id
        assert bob.request(fetch("secret", topic_id=id), 13).responses[0].partitions[0].error_code == 0
        guarded.forbid("secret")
        for version in (4, 11, 12, 13):
            code = bob.request(fetch("secret", topic_id=id), version).responses[0].partitions[0].error_code
            assert code == TOPIC_DENIED, version


SECRETS = {
    name: f"hidden-{number}"
    for number, name in enumerate(sorted(definitions("broker").keys))
    if definitions("broker").keys[name].type.lower() == "password"
}


def test_the_broker_has_settings_that_are_secret() -> None:
    assert len(SECRETS) >= 8


def test_the_settings_of_a_broker_show_no_secret_to_its_administrator() -> None:
    broker = broker_with(delegation__token__secret__key="hidden-key", ssl__keystore__password="hidden-store")
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)],
        include_synonyms=True,
        include_documentation=True,
    )
    found = broker.connect().request(request, 4)
    raw = found.encode(4)
    assert b"delegation.token.secret.key" in raw
    for secret in (b"hidden-key", b"hidden-store", b"user_alice", b'"secret"'):
        assert secret not in raw
    by_name = {config.name: config for config in found.results[0].configs}
    assert all(by_name[name].is_sensitive and by_name[name].value is None for name in SECRETS if name in by_name)


@pytest.mark.parametrize(
    "rule", ["RULE:^CN=(a+)+$/$1/", "RULE:^CN=(.*)*,OU=x$/$1/", "RULE:^(CN=)?(a|aa)+$/$2/", r"RULE:^CN=(\w+\s?)*$/$1/"]
)
def test_a_subject_cannot_hold_up_the_rules_that_map_it(rule: str) -> None:
    mapper = SslPrincipalMapper(f"{rule},DEFAULT")
    started = time.process_time()
    assert mapper.name(f"CN={'a' * 600}!").endswith("!")
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    ("listeners", "settings", "told"),
    [
        ("PLAINTEXT://127.0.0.1:0", {}, []),
        ("PLAINTEXT://127.0.0.1:0", ACLS, ["listener PLAINTEXT: its clients do not authenticate"]),
        (
            "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://0.0.0.0:0",
            {**ACLS, "sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            ["listener PLAINTEXT: its clients do not authenticate"],
        ),
        (
            "SASL_PLAINTEXT://0.0.0.0:0",
            {
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": 'PlainLoginModule required user_a="b";',
            },
            ["listener SASL_PLAINTEXT: what proves identity by PLAIN can be read on the way"],
        ),
    ],
)
def test_a_listener_that_an_attacker_would_choose_is_told_at_the_start(
    listeners: str, settings: dict[str, str], told: list[str]
) -> None:
    said: list[str] = []
    config = BrokerConfig({"listeners": listeners, **settings})
    ListenerSecurities(config, ScramUsers(ClusterMetadata(MemoryStore())).finder, InlineStorage(), said.append)
    assert len(said) == len(told)
    assert all(one in line for one, line in zip(told, said, strict=True))


def test_who_may_write_cannot_make_the_broker_keep_what_a_bomb_unpacks_to() -> None:
    broker = CoreBroker()
    client = broker.connect()
    client.request(create("t"), 7)
    bomb = batch(bytes(200 << 20), compression="gzip")
    assert len(bomb) < 1 << 20
    started = time.process_time()
    client.request(produce("t", bomb), 12)
    assert time.process_time() - started < 10
    assert broker.state.replica_manager.partition("t", 0).log.size <= len(bomb)


def test_the_salt_of_an_unknown_user_is_as_long_as_that_of_a_known_one() -> None:
    credential = parse_scram("SCRAM-SHA-256=[name=carol,password=x]")[1]
    broker = broker_with()
    challenge = say(Scram(broker, "dave", "x").client, b"n,,n=dave,r=abc").auth_bytes
    imitated = scram.fields(challenge)["s"]
    assert len(scram.from_base64(imitated)) == len(credential.salt)
