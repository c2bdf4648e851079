"""Who may do what: decisions by ACLs, what they come to in requests and sessions, and what is told of denials."""

from __future__ import annotations

import logging
import random
import time
from typing import Any

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.metadata.cluster_metadata import ClusterMetadata
from barnabas.broker.metadata.memory_store import MemoryStore
from barnabas.broker.security.acl_binding import AclBinding, AclFilter
from barnabas.broker.security.authorization import make_authorization
from barnabas.broker.security.standard_authorizer import StandardAuthorizer
from barnabas.errors import ConfigError, KafkaStorageError
from barnabas.protocol.kinds import AclOperation as Op
from barnabas.protocol.kinds import AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from barnabas.protocol.messages.describe_acls_request import DescribeAclsRequest
from barnabas.protocol.messages.fetch_request import FetchRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC = ResourceType.TOPIC
TOPIC_DENIED, SECURITY_DISABLED, INVALID_REQUEST = 29, 54, 42
SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:admin;User:CN=x,O=y"}


def acl(name: str = "t", operation: int = Op.READ, permission: int = ALLOW, **more: Any) -> AclBinding:
    given = {"pattern_type": LITERAL, "principal": "User:alice", "host": "*", "resource_type": TOPIC, **more}
    return AclBinding(resource_name=name, operation=operation, permission=permission, **given)


def naive(acls: list[AclBinding], principal: str, host: str, operation: int, name: str, *, otherwise: bool) -> bool:
    """The rules, read from Kafka's documentation, one ACL after the other."""
    fitting = [
        one
        for one in acls
        if one.resource_type == TOPIC
        and (one.resource_name in (name, "*") if one.pattern_type == LITERAL else name.startswith(one.resource_name))
    ]
    mine = [one for one in fitting if one.principal in (principal, "User:*") and one.host in (host, "*")]
    implied = {
        Op.DESCRIBE: {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}, Op.DESCRIBE_CONFIGS: {Op.ALTER_CONFIGS},
    }.get(Op(operation), set())  # fmt: skip
    if any(one.permission == DENY and one.operation in (operation, Op.ALL) for one in mine):
        return False
    if any(one.permission == ALLOW and one.operation in {operation, Op.ALL, *implied} for one in mine):
        return True
    return otherwise and not fitting


@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_those_of_the_rules_while_acls_come_and_go(seed: int) -> None:
    source = random.Random(seed)
    otherwise = bool(seed % 2)
    authorizer, there = StandardAuthorizer(["User:admin"], allow_if_no_acl=otherwise), list[AclBinding]()
    names, principals, hosts = ["a", "ab", "abc", "b", "*"], ["User:alice", "User:bob", "User:*"], ["h1", "h2", "*"]
    for _ in range(60):
        if there and source.random() < 0.4:
            gone = there.pop(source.randrange(len(there)))
            authorizer.remove(gone)
        else:
            one = AclBinding(
                source.choice([TOPIC, ResourceType.GROUP]), source.choice(names), source.choice([LITERAL, PREFIXED]),
                source.choice(principals), source.choice(hosts), source.choice(list(Op)[2:12]),
                source.choice([ALLOW, ALLOW, DENY]),
            )  # fmt: skip
            there.append(one)
            authorizer.add(one)
        for name in ("a", "abcd", "b", "c"):
            question = (source.choice(principals[:2]), source.choice(hosts[:2]), source.choice(list(Op)[3:12]))
            found = authorizer.allows(question[0], question[1], question[2], TOPIC, name)
            assert found == naive(there, *question, name, otherwise=otherwise), (question, name, there)
        assert authorizer.allows("User:admin", "h1", Op.WRITE, TOPIC, "a")


def test_a_decision_takes_no_longer_with_many_acls() -> None:
    def cost(count: int) -> float:
        authorizer = StandardAuthorizer()
        for number in range(count):
            authorizer.add(acl(f"topic-{number}"))
            authorizer.add(acl(f"prefix-{number}", pattern_type=PREFIXED))
        best = float("inf")
        for attempt in range(5):
            started = time.process_time()
            for number in range(500):
                authorizer.allows("User:alice", "h", Op.READ, TOPIC, f"topic-{attempt}-{number}")
            best = min(best, time.process_time() - started)
        return best

    assert cost(20_000) < 10 * cost(20) + 0.01


class TestRequests:
    @pytest.fixture
    def broker(self) -> CoreBroker:
        broker = CoreBroker(SETTINGS)
        self.admin = self.client(broker, "User:admin")
        for name in ("open", "secret"):
            self.admin.request(create(name), 7)
            self.admin.request(produce(name, batch(b"v")), 12)
        return broker

    def client(self, broker: CoreBroker, principal: str) -> CoreClient:
        client = broker.connect()
        client.connection.info.principal = principal
        return client

    def allow(self, *acls: AclBinding) -> list[int]:
        creations = [
            AclCreation(
                one.resource_type, one.resource_name, one.pattern_type, one.principal, one.host, one.operation,
                one.permission,
            )
            for one in acls
        ]  # fmt: skip
        return [result.error_code for result in self.admin.request(CreateAclsRequest(creations), 3).results]

    def forbid(self, name: str) -> Any:
        one = DeleteAclsFilter(TOPIC, name, PatternType.ANY, None, None, Op.ANY, AclPermissionType.ANY)
        return self.admin.request(DeleteAclsRequest([one]), 3).filter_results[0]

    def test_acls_are_created_described_and_deleted_over_a_crash(self, broker: CoreBroker) -> None:
        one, other = acl("open"), acl("open", Op.WRITE, DENY, host="10.0.0.9")
        assert self.allow(one, other, one) == [0, 0, 0]
        self.admin = self.client(broker.crashed(), "User:admin")
        everything = DescribeAclsRequest(ResourceType.ANY, None, PatternType.ANY, None, None, Op.ANY, 1)
        [resource] = self.admin.request(everything, 3).resources
        found = {(found.principal, found.host, found.operation, found.permission_type) for found in resource.acls}
        assert found == {("User:alice", "*", Op.READ, ALLOW), ("User:alice", "10.0.0.9", Op.WRITE, DENY)}
        assert len(self.forbid("open").matching_acls) == 2
        assert self.admin.request(everything, 3).resources == []

    @pytest.mark.parametrize(
        "wrong",
        [acl(""), acl(operation=Op.ANY), acl(permission=1), acl(pattern_type=PatternType.MATCH), acl(resource_type=1),
         acl(principal="alice"), acl("x", resource_type=ResourceType.CLUSTER), acl("x" * 5000)],
    )  # fmt: skip
    def test_acls_that_make_no_sense_are_refused(self, broker: CoreBroker, wrong: AclBinding) -> None:
        assert self.allow(wrong, acl("fine")) == [INVALID_REQUEST, 0]

    def test_what_the_metadata_store_refuses_is_told_and_holds_nowhere(
        self, broker: CoreBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.allow(acl("open"))

        def full(*arguments: Any, **keywords: Any) -> Any:
            raise KafkaStorageError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(broker.store, "write", full)
            assert self.allow(acl("secret")) == [KafkaStorageError.code]
            assert self.forbid("open").error_code == KafkaStorageError.code
        assert broker.state.authorization.matching(AclFilter(1, None, PatternType.ANY, None, None, 1, 1)) == [
            acl("open")
        ]

    def test_names_that_look_like_others_stay_apart(self, broker: CoreBroker) -> None:
        assert self.allow(acl("a\tb"), acl("a\\tb"), acl("a\n"), acl("*", pattern_type=PREFIXED)) == [0] * 4
        assert len(broker.state.authorization.matching(AclFilter(1, None, PatternType.ANY, None, None, 1, 1))) == 4

    def test_a_session_notices_that_a_right_is_gone(self, broker: CoreBroker) -> None:
        self.allow(acl("open"), acl("secret"))
        alice = self.client(broker, "User:alice")
        request = fetch("secret")
        request.session_epoch = 0
        first = alice.request(request, 12)
        assert first.responses[0].partitions[0].error_code == 0
        self.forbid("secret")
        again = FetchRequest(session_id=first.session_id, session_epoch=1, max_wait_ms=0)
        assert alice.request(again, 12).responses[0].partitions[0].error_code == TOPIC_DENIED

    def test_nobody_may_anything_without_an_acl(self, broker: CoreBroker) -> None:
        mallory = self.client(broker, "User:mallory")
        assert mallory.request(MetadataRequest(topics=None), 12).topics == []
        assert mallory.request(produce("open", batch(b"x")), 12).responses[0].partition_responses[0].error_code == 29

    def test_records_without_an_answer_end_the_connection(self, broker: CoreBroker) -> None:
        alice = self.client(broker, "User:alice")
        alice.send(produce("open", batch(b"x"), acks=0), 12)
        assert alice.closed
        assert broker.node.state.replica_manager.partition("open", 0).log.log_end_offset == 1

    def test_without_an_authorizer_there_are_no_acls(self) -> None:
        broker = CoreBroker()
        self.admin = broker.connect()
        assert self.allow(acl()) == [SECURITY_DISABLED]
        assert self.forbid("t").error_code == SECURITY_DISABLED

    def test_denials_are_told_but_do_not_fill_the_log(
        self, broker: CoreBroker, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "barnabas.authorizer")
        mallory = self.client(broker, "User:mallory")
        for _ in range(100):
            mallory.request(produce("open", batch(b"x")), 12)
        lines = [record.getMessage() for record in caplog.records if record.name == "barnabas.authorizer"]
        assert len(lines) == 1
        assert "Principal = User:mallory is denied operation = WRITE" in lines[0]
        assert "resource = TOPIC:open" in lines[0]


class OnlyBob:
    """An authorizer of the user's own."""

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        return principal == "User:bob"

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        return principal == "User:bob"


def test_an_authorizer_of_ones_own() -> None:
    broker = CoreBroker({"authorizer.class.name": f"{__name__}:OnlyBob"})
    for principal, code in (("User:bob", 0), ("User:alice", TOPIC_DENIED)):
        client = broker.connect()
        client.connection.info.principal = principal
        assert client.request(create(principal[5:]), 7).topics[0].error_code == code


def test_everyone_where_no_acl_is_found() -> None:
    broker = CoreBroker({**SETTINGS, "allow.everyone.if.no.acl.found": "true"})
    assert broker.connect().request(create("t"), 7).topics[0].error_code == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"authorizer.class.name": "org.example.Mine"}, "is a Java class"),
        ({"authorizer.class.name": "nowhere:Mine"}, "cannot be loaded"),
        ({"super.users": "User:a"}, "authorizer.class.name"),
        ({"authorizer.class.name": "standard", "super.users": "User:a;b"}, "TYPE:NAME"),
    ],
)
def test_what_cannot_be_used_keeps_the_broker_from_starting(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_authorization(BrokerConfig(settings), ClusterMetadata(MemoryStore()))


def test_names_with_commas_are_super_users(broker_of: CoreBroker) -> None:
    client = broker_of.connect()
    client.connection.info.principal = "User:CN=x,O=y"
    assert client.request(create("t"), 7).topics[0].error_code == 0


@pytest.fixture
def broker_of() -> CoreBroker:
    return CoreBroker(SETTINGS)
