"""What an Apache Kafka 4.3.1 answered to requests of every API under many sets of ACLs: ours answers the same.

The first line of the file is the state that each question starts from, each other line a question: who asks what from
where, all ACLs that exist, and the answer without what differs from run to run (`projected`).
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.envelope import OF_QUORUMS
from barnabas.broker.handlers.registry import SERVED
from barnabas.broker.security.acl_binding import AclBinding
from barnabas.broker.security.request_rules import RULES
from barnabas.broker.zookeeper.controller.controller_apis import OF_BROKERS
from barnabas.broker.zookeeper.controller_pushes import PUSHED
from barnabas.protocol import kafka_uuid
from barnabas.protocol.api import ApiKey, request_class
from barnabas.protocol.json_view import from_bytes, to_message
from barnabas.protocol.kinds import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from barnabas.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from barnabas.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, produce
from tests.support.core_controller import CoreController, ask

PATH = Path(__file__).parent / "data" / "authorization-vectors.jsonl.gz"
WORLD, *QUESTIONS = map(json.loads, gzip.decompress(PATH.read_bytes()).splitlines())
WORLD = WORLD["world"]
NAMES = {"".join(part.title() for part in module.split("_")): key for key, (module, _, _) in SERVED.items()}
BY_API: dict[str, list[dict[str, Any]]] = {}
for question in QUESTIONS:
    BY_API.setdefault(question["api"], []).append(question)
KEPT = frozenset(
    """
    errorCode topicConfigErrorCode partitionErrorCode name topic topicName topicId groupId group
    transactionalId resourceType resourceName key user feature index partition partitionIndex groupState
    groupType protocolType transactionState numPartitions replicationFactor topicAuthorizedOperations
    clusterAuthorizedOperations authorizedOperations principalType principalName tokenRequesterPrincipalName
    isSensitive
    """.split()  # noqa: SIM905 - read as text
)
#: Where the answers differ for another reason: loggers have other names.
OTHERWISE = frozenset(
    {
        "DescribeConfigs-v4-broker-logger/CLUSTER_ALL_alone",
        "DescribeConfigs-v4-broker-logger/allow_for_every_user",
    }
)
#: A broker passes these on to its controller, in the client's name; one that is alone has no quorum.
OF_CONTROLLER = {request_class(key).NAME.removesuffix("Request"): key for key in sorted(OF_QUORUMS)}
LEFT_OUT = frozenset(
    """
    brokers endpoints nodes nodeEndpoints currentLeader acquiredRecords divergingEpoch snapshotId
    documentation synonyms members
    """.split()  # noqa: SIM905 - read as text
)


def projected(value: Any) -> Any:
    """What is compared of an answer."""
    if isinstance(value, list):
        found = [one for one in map(projected, value) if one not in ({}, [])]
        return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, inner in value.items():
        if name in LEFT_OUT:
            continue
        if isinstance(inner, (dict, list)):
            found = projected(inner)
            is_plain = isinstance(inner, list) and all(isinstance(one, (int, str)) for one in found)
            if found not in ({}, []) and not is_plain:
                kept[name] = found
        elif name in KEPT or (name == "value" and value.get("isSensitive")):
            kept[name] = inner
    return kept


class World:
    """A broker in the state that each question starts from."""

    def __init__(self) -> None:
        settings = {"authorizer.class.name": "standard", "super.users": ";".join(WORLD["superUsers"])}
        settings["delegation.token.secret.key"] = "a secret of the tests"
        self.broker = CoreBroker({**settings, "auto.create.topics.enable": True})
        admin = self.admin = self.client("User:admin", "127.0.0.1")
        for name, partitions in WORLD["topics"].items():
            admin.request(create(name, partitions, **{"retention.ms": "-1"}), 7)
            admin.request(produce(name, batch(b"v")), 12)
        for group, topic in WORLD["groups"].items():
            self.commit(group, topic)
        for name in WORLD["transactionalIds"]:
            request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            assert admin.request(request, 4).error_code == 0
        self.tokens = {owner: self.make_token(owner, **told) for owner, told in WORLD["delegationTokens"].items()}
        self.ids = {
            name: kafka_uuid.to_text(topic.id)
            for name in WORLD["topics"]
            if (topic := self.broker.node.metadata.topic(name)) is not None
        }

    def client(self, principal: str, host: str) -> CoreClient:
        client = self.broker.connect(host=host)
        client.connection.info.principal = principal
        is_anonymous = principal == "User:ANONYMOUS"
        client.connection.info.security_protocol = "PLAINTEXT" if is_anonymous else "SASL_PLAINTEXT"
        return client

    def commit(self, group: str, topic: str) -> None:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
        topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
        assert self.admin.request(request, 8).topics[0].partitions[0].error_code == 0

    def make_token(self, name: str, owner: str, renewers: list[str]) -> CreateDelegationTokenResponse:
        allowed = [CreatableRenewers(*renewer.split(":")) for renewer in renewers]
        response = self.client(owner, "127.0.0.1").request(CreateDelegationTokenRequest(renewers=allowed), 2)
        assert response.error_code == 0, name
        return response

    def replace_acls(self, acls: list[dict[str, str]]) -> None:
        authorization = self.broker.state.authorization
        authorization.delete(list(authorization._acls.values()), lambda problem: None)
        authorization.create([binding(acl) for acl in acls], lambda problem: None)

    def fill_in(self, text: str) -> str:
        for name, id in self.ids.items():
            text = text.replace("${topicId:" + name + "}", id)
        for owner, token in self.tokens.items():
            text = text.replace("${tokenId:" + owner + "}", token.token_id)
            text = text.replace("${tokenHmac:" + owner + "}", b64encode(token.hmac).decode())
        return text

    def ask(self, question: dict[str, Any]) -> Any:
        key, version = NAMES[question["api"]], question["version"]
        self.replace_acls(json.loads(self.fill_in(json.dumps(question["acls"]))))
        request = to_message(request_class(key), version, json.loads(self.fill_in(json.dumps(question["request"]))))
        client = self.client(question["principal"], question["host"])
        client.request(request, version)
        for _ in range(100):
            if client.responses or client.closed:
                break
            self.broker.advance(0.1)
        assert not client.closed, self.broker.warnings
        body = client.responses[-1].encode(version)
        answer = from_bytes(question["api"] + "Response", version, body)
        asks_for_all = key == ApiKey.LIST_CONFIG_RESOURCES or not question["request"].get("topics", ["one"])
        text = json.dumps(without_internal(answer) if asks_for_all else answer)
        for name, id in self.ids.items():
            text = text.replace(id, "${topicId:" + name + "}")
        return json.loads(text)


def without_internal(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {
            name: [one for one in value if not is_internal(one)] if isinstance(value, list) else value
            for name, value in answer.items()
        }
    return answer


def is_internal(one: Any) -> bool:
    name = (one.get("name") or one.get("resourceName")) if isinstance(one, dict) else None
    return isinstance(name, str) and name.startswith("__") and one.get("errorCode", 0) == 0


def binding(acl: dict[str, str]) -> AclBinding:
    return AclBinding(
        ResourceType[acl["resourceType"]],
        acl["resourceName"],
        PatternType[acl["patternType"]],
        acl["principal"],
        acl["host"],
        AclOperation[acl["operation"]],
        AclPermissionType[acl["permission"]],
    )


@pytest.mark.parametrize("api", [api for api in BY_API if api in NAMES])
def test_every_answer_is_that_of_apache_kafka(api: str) -> None:
    world = World()
    wrong = []
    for question in BY_API[api]:
        if question["id"] in OTHERWISE:
            continue
        answer = projected(world.ask(question))
        expected = projected(question["answer"])
        if question["after"] == "forget-missing" and answer["topics"][0]["errorCode"] == 0:
            # Apache Kafka's first answer is that the topic, which it is about to create, is not there.
            answer = expected
        if new_ids_hidden(answer) != new_ids_hidden(expected):
            wrong.append((question["id"], question["request"], question["acls"], answer, expected))
        if question["after"] is not None:
            world = World()
    assert not wrong, f"{len(wrong)} of {len(BY_API[api])}\n" + "\n".join(
        f"{id}\n  asked {json.dumps(asked)[:300]}\n  acls {[tuple(acl.values()) for acl in acls]}\n"
        f"  got  {json.dumps(got)}\n  want {json.dumps(want)}"
        for id, asked, acls, got, want in wrong[:8]
    )


def new_ids_hidden(value: Any) -> Any:
    if isinstance(value, dict):
        known = value.get("topicId")
        if known is not None and "${topicId" not in str(known) and value.get("errorCode") == 0:
            value = {**value, "topicId": "${newTopicId}"}
        return {name: new_ids_hidden(inner) for name, inner in value.items()}
    return [new_ids_hidden(one) for one in value] if isinstance(value, list) else value


def asked_of_a_controller(question: dict[str, Any]) -> Any:
    """What a controller answers, whose only state that matters here are the ACLs."""
    acls = {"authorizer.class.name": "standard", "super.users": ";".join(WORLD["superUsers"])}
    controller = CoreController(acls)

    def client(principal: str, host: str) -> CoreClient:
        found = controller.connect(host)
        found.connection.info.principal = principal
        return found

    creations = [AclCreation(*binding(acl)) for acl in question["acls"]]
    created = ask(controller, client("User:admin", "127.0.0.1"), CreateAclsRequest(creations), 3)
    assert not any(result.error_code for result in created.results)
    key, version = OF_CONTROLLER[question["api"]], question["version"]
    request = to_message(request_class(key), version, question["request"])
    answer = ask(controller, client(question["principal"], question["host"]), request, version)
    return from_bytes(question["api"] + "Response", version, answer.encode(version))


@pytest.mark.parametrize("api", sorted(OF_CONTROLLER))
def test_every_answer_of_the_controller_is_that_of_apache_kafka(api: str) -> None:
    for question in BY_API[api]:
        assert projected(asked_of_a_controller(question)) == projected(question["answer"]), question["id"]


def test_all_questions_are_asked() -> None:
    assert BY_API.keys() - NAMES.keys() - OF_CONTROLLER.keys() == set()


def test_each_api_has_a_rule() -> None:
    assert RULES.keys() == SERVED.keys() | OF_QUORUMS | PUSHED.keys() | OF_BROKERS.keys()
