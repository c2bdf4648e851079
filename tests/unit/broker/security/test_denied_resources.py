"""What a principal may not see it cannot tell from what is not there, and cannot change: for every API, by the schema.

A topic, a group or a transactional id is denied, all else is allowed. Whether it exists makes no difference to any
response, and no request changes it. So a handler that touches what the rule of its API does not name is found.
"""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.handlers.registry import SERVED
from barnabas.broker.security import request_rules
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.security.standard_authorizer import StandardAuthorizer
from barnabas.protocol.api import request_class
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import Plan
from barnabas.protocol.json_view import from_bytes
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.plan import plan_of
from barnabas.protocol.topic_partition import TopicPartition
from tests.support import worst_cases
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, produce
from tests.support.worst_cases import BIG_TOPIC, GROUP, STRINGS, Generator
from tests.vectors.test_authorization_vectors import projected

TRANSACTIONAL_ID = STRINGS["transactional_id"]
SECRETS = {ResourceType.TOPIC: BIG_TOPIC, ResourceType.GROUP: GROUP, ResourceType.TRANSACTIONAL_ID: TRANSACTIONAL_ID}
CONFIGURED = {ResourceType.TOPIC: 2, ResourceType.GROUP: 32}
OTHER_TOPIC = "other"
#: Tokens are their owner's, whom the handlers know; the answers of the others leave out what may not be seen.
FOR_EVERYBODY = {
    ApiKey.API_VERSIONS,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_TRANSACTIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
#: It tells of itself, and of nobody else.
NOT_ASKED = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}


class World:
    """A broker with a topic, a group and a transactional id, one of which is denied and perhaps not there."""

    def __init__(self, secret: ResourceType, *, is_there: bool) -> None:
        self.broker = CoreBroker({"authorizer.class.name": "standard", "super.users": "User:admin"})
        self.admin = self.client("User:admin")
        there = set(SECRETS) - (set() if is_there else {secret})
        self._ask(create(OTHER_TOPIC, 1), 7)
        if ResourceType.TOPIC in there:
            self._ask(create(BIG_TOPIC, 1), 7)
            self._ask(produce(BIG_TOPIC, batch(b"v")), 12)
        if ResourceType.GROUP in there:
            committed = [OffsetCommitRequestPartition(partition_index=0, committed_offset=0)]
            topics = [OffsetCommitRequestTopic(name=OTHER_TOPIC, partitions=committed)]
            self._ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 8)
        if ResourceType.TRANSACTIONAL_ID in there:
            request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000)
            self._ask(request, 4)
        allowed = [_acl(kind, "*", AclPermissionType.ALLOW) for kind in SECRETS]
        denied = _acl(secret, str(SECRETS[secret]), AclPermissionType.DENY)
        assert self.broker.state.authorization is not None
        self.broker.state.authorization.create([*allowed, denied], lambda _problem: None)
        self.alice = self.client("User:alice")

    def client(self, principal: str) -> CoreClient:
        client = self.broker.connect()
        client.connection.info.principal = principal
        client.connection.info.security_protocol = "SASL_PLAINTEXT"
        return client

    def _ask(self, request: Any, version: int) -> Any:
        before = len(self.admin.responses)
        self.admin.send(request, version)
        for _ in range(100):
            self.broker.node.core.settle(self.broker.instant)
            if len(self.admin.responses) > before:
                return self.admin.responses[-1]
            self.broker.advance(0.1)
        raise AssertionError(f"no answer to {request}")

    def topic_id(self) -> bytes:
        topic = self.broker.node.metadata.topic(BIG_TOPIC)
        return b"\1" * 16 if topic is None else topic.id

    def asked(self, key: int, version: int) -> Any:
        """What alice is answered, without what differs from run to run."""
        self.alice.send(Generator(key, version, self.topic_id()).request(), version)
        for _ in range(200):
            self.broker.node.core.settle(self.broker.instant)
            if self.alice.responses or self.alice.closed:
                break
            self.broker.advance(0.1)
        if not self.alice.responses:
            return "closed" if self.alice.closed else "no answer"
        name = "".join(part.title() for part in SERVED[key][0].split("_"))
        return projected(from_bytes(name + "Response", version, self.alice.responses[-1].encode(version)))

    def secret_state(self) -> Any:
        """What there is to change of the topic, the group and the transactional id."""
        node = self.broker.node
        topic = node.metadata.topic(BIG_TOPIC)
        log = None if topic is None else node.logs.get_log(TopicPartition(BIG_TOPIC, 0))
        return (
            topic,
            None if log is None else (log.log_start_offset, log.log_end_offset, log.config),
            node.metadata.group_configs(GROUP),
            self._records("__consumer_offsets"),
            self._records("__transaction_state"),
        )

    def _records(self, topic: str) -> list[bytes]:
        logs = self.broker.node.logs.logs
        return [bytes(log.read(0, 1 << 20).records) for name, log in sorted(logs.items()) if name.topic == topic]


def _acl(kind: ResourceType, name: str, permission: AclPermissionType) -> AclBinding:
    return AclBinding(kind, name, PatternType.LITERAL, "User:alice", "*", AclOperation.ALL, permission)


#: Which fields of requests name a resource; `name` and `key` do in some structs only.
FIELDS = {
    ResourceType.TOPIC: {"topic", "topic_name", "topic_names", "subscribed_topic_names", "topic_id"},
    ResourceType.GROUP: {"group_id", "group_ids", "groups", "groups_names", "coordinator_keys"},
    ResourceType.TRANSACTIONAL_ID: {"transactional_id", "transactional_ids", "v3_and_below_transactional_id"},
}
TOPIC_ARRAYS = {"topics", "topic_data"}
#: What these requests do not come to: the batch of Produce belongs to no transaction, and a share session is needed
#: before its topics are (tests/vectors has both).
ASKED_LATER = {
    (ApiKey.PRODUCE, ResourceType.TRANSACTIONAL_ID),
    (ApiKey.SHARE_FETCH, ResourceType.TOPIC),
    (ApiKey.SHARE_ACKNOWLEDGE, ResourceType.TOPIC),
}


def named_kinds(plan: Plan, array: str = "") -> set[ResourceType]:
    """The kinds of resources that a request names somewhere."""
    found = {ResourceType.TOPIC} if array in TOPIC_ARRAYS else set()
    for field in plan.present:
        found |= {kind for kind, names in FIELDS.items() if field.name in names}
        for one in (field, field.element):
            if one is not None and one.plan is not None:
                found |= named_kinds(one.plan, field.name)
    return found


def must_ask(key: int, version: int, kind: ResourceType) -> bool:
    """Whether a request names a resource of the kind that is not looked at before it is asked about."""
    return (key, kind) not in ASKED_LATER and kind in named_kinds(plan_of(request_class(key), version))


def note_questions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, tuple[int, str]]]:
    """What the authorizer is asked: whether that was about the cluster and denied, and kind and name."""
    questions: list[tuple[bool, tuple[int, str]]] = []
    ask = StandardAuthorizer.allows

    def allows(self: StandardAuthorizer, principal: str, host: str, operation: int, kind: int, name: str) -> bool:
        answer = ask(self, principal, host, operation, kind, name)
        questions.append((kind == ResourceType.CLUSTER and not answer, (kind, name)))
        return answer

    monkeypatch.setattr(StandardAuthorizer, "allows", allows)
    return questions


def _has_topic_id(plan: Plan) -> bool:
    return any(
        field.name == "topic_id" or (field.plan is not None and _has_topic_id(field.plan))
        for one in plan.present
        for field in (one, *([one.element] if one.element is not None else []))
    )


def cases() -> list[Any]:
    found = []
    for key, (name, lowest, highest) in SERVED.items():
        if key in NOT_ASKED:
            continue
        for version in sorted({lowest, highest}):
            for kind in SECRETS:
                found.append(pytest.param(key, version, kind, id=f"{name}-v{version}-{kind.name}"))
    return found


@pytest.mark.parametrize(("key", "version", "kind"), cases())
def test_what_is_denied_is_as_if_it_were_not_there(
    key: int, version: int, kind: ResourceType, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind in CONFIGURED:
        monkeypatch.setitem(STRINGS, "resource_name", SECRETS[kind])
        monkeypatch.setitem(worst_cases.NUMBERS, "resource_type", CONFIGURED[kind])
    there, not_there = World(kind, is_there=True), World(kind, is_there=False)
    before = there.secret_state()
    questions = note_questions(monkeypatch)
    told = there.asked(key, version)
    if must_ask(key, version, kind) and not any(cluster for cluster, _ in questions):
        assert (kind, SECRETS[kind]) in {question for _, question in questions}, "nobody asked about it"
    if kind == ResourceType.TOPIC:
        assert there.secret_state()[:2] == before[:2]
    elif kind == ResourceType.GROUP:
        assert there.secret_state()[2:4] == before[2:4]
    else:
        assert there.secret_state()[4] == before[4]
    if kind != ResourceType.TOPIC or not _has_topic_id(plan_of(request_class(key), version)):
        assert told == not_there.asked(key, version)


def test_every_api_asks_the_authorizer_but_those_that_are_everybodys(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = set()
    for key, (_, _, version) in SERVED.items():
        if key not in NOT_ASKED:
            world = World(ResourceType.TOPIC, is_there=True)
            with monkeypatch.context() as patched:
                questions = note_questions(patched)
                world.asked(key, version)
            if not questions:
                silent.add(ApiKey(key))
    assert silent == FOR_EVERYBODY


@pytest.mark.parametrize("key", sorted({ApiKey.DELETE_GROUPS, ApiKey.OFFSET_FETCH, ApiKey.END_TXN, ApiKey.JOIN_GROUP}))
def test_an_api_whose_rule_is_forgotten_is_found(key: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(request_rules.RULES, key, lambda _asked: None)
    version = SERVED[key][2]
    [kind, *_] = [kind for kind in SECRETS if must_ask(key, version, kind)]
    with pytest.raises(AssertionError, match="nobody asked"):
        test_what_is_denied_is_as_if_it_were_not_there(key, version, kind, monkeypatch)
