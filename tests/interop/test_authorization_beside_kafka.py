"""Both brokers are asked the same under ACLs drawn at random: what Apache Kafka answers, ours answers.

The requests are those of the authorization vectors that change nothing; the ACLs are new ones. The vectors themselves
(`tests/vectors`) were made once; this asks in one run.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, NewTopic
from barnabas.admin import AclBinding, AclBindingFilter, AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.protocol import kafka_uuid
from barnabas.protocol.api import request_class
from barnabas.protocol.json_view import from_bytes, to_message
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.init_producer_id_request import InitProducerIdRequest
from barnabas.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.peers import apache_kafka
from tests.support.core_broker import SocketClient, batch, produce
from tests.support.secured_broker import secured_broker
from tests.vectors.test_authorization_vectors import (
    NAMES,
    OTHERWISE,
    QUESTIONS,
    WORLD,
    projected,
    without_internal,
)

USERS = sorted(WORLD["users"])
#: They end a member's session, or tell of brokers and times; as vectors they were asked of a fresh world.
NOT_ASKED = {"JoinGroup", "ConsumerGroupHeartbeat", "DescribeLogDirs", "DescribeDelegationToken", "AlterReplicaLogDirs"}
SCENARIOS, QUESTIONS_EACH = 12, 25


def questions() -> list[dict[str, Any]]:
    """Each request once, without those that change the world or name what a run makes."""
    found: dict[str, dict[str, Any]] = {}
    for question in QUESTIONS:
        text = json.dumps(question["request"])
        skipped = question["api"] in NOT_ASKED or question["id"] in OTHERWISE
        # Loggers have other names.
        skipped = skipped or "broker-logger" in question["id"]
        if not (skipped or "${" in text or question["after"] or question["api"] not in NAMES):
            found.setdefault(f"{question['api']}{question['version']}{text}", question)
    return [found[key] for key in sorted(found) if not changes(found[key])]


def changes(question: dict[str, Any]) -> bool:
    """Whether a request would change the world of those that follow, where it is allowed."""
    name = question["api"]
    is_tried = question["request"].get("validateOnly") is True
    return not is_tried and name.startswith(
        ("Alter", "Create", "Delete", "IncrementalAlter", "Update", "Elect", "Write")
    )


class Peer:
    """One of the two brokers: what asks it as whom."""

    def __init__(self, inner: str, clients: str) -> None:
        self.inner, self.clients = inner, clients
        self.ids: dict[str, str] = {}

    def make_world(self) -> None:
        """See `WORLD`."""
        with AdminClient(bootstrap_servers=self.inner) as admin, SocketClient(self.inner) as client:
            admin.create_topics([NewTopic(name, count, 1) for name, count in WORLD["topics"].items()])
            for name in WORLD["topics"]:
                until_no_error(client, produce(name, batch(b"v", now_ms=int(time.time() * 1000))), 12)
            described = admin.describe_topics(list(WORLD["topics"]))
            self.ids = {str(name): kafka_uuid.to_text(found.topic_id or b"") for name, found in described.items()}
            for kind, keys in enumerate((WORLD["groups"], WORLD["transactionalIds"])):
                for key in keys:
                    # The topic of a coordinator is made when it is asked for.
                    until_no_error(client, FindCoordinatorRequest(key=key, key_type=kind), 2)
            for group, topic in WORLD["groups"].items():
                partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
                topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
                commit = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
                until_no_error(client, commit, 8)
            for name in WORLD["transactionalIds"]:
                request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
                until_no_error(client, request, 4)

    def replace_acls(self, acls: list[AclBinding]) -> None:
        with AdminClient(bootstrap_servers=self.inner) as admin:
            admin.delete_acls([AclBindingFilter()])
            if acls:
                admin.create_acls(acls)
            end = time.monotonic() + 20
            while set(admin.describe_acls()) != set(acls):
                assert time.monotonic() < end
                time.sleep(0.05)

    def ask(self, user: str, question: dict[str, Any]) -> Any:
        key, version = NAMES[question["api"]], question["version"]
        message = to_message(request_class(key), version, question["request"])
        with SocketClient(self.clients) as client:
            assert client.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
            login = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}-secret".encode())
            assert client.request(login, 2).error_code == 0
            body = client.request(message, version).encode(version)
        answer = from_bytes(question["api"] + "Response", version, body)
        text = json.dumps(answer)
        for name, id in self.ids.items():
            text = text.replace(id, f"the id of {name}")
        answer = json.loads(text)
        asks_for_all = question["api"] == "ListConfigResources" or not question["request"].get("topics", ["one"])
        return projected(without_internal(answer) if asks_for_all else answer)


def until_no_error(client: SocketClient, message: Any, version: int) -> None:
    """Send it until it is done; coordinators and leaders of a new cluster take a moment."""
    end = time.monotonic() + 60
    while '"errorCode": 0' not in (text := told(client.request(message, version), version)):
        assert time.monotonic() < end, text
        time.sleep(0.2)


def told(response: Any, version: int) -> str:
    found = json.dumps(from_bytes(type(response).NAME, version, response.encode(version)))
    codes = {part.split(",")[0].split("}")[0] for part in found.split('"errorCode": ')[1:]}
    return '"errorCode": 0' if codes == {"0"} else found


def settings() -> dict[str, str]:
    users = " ".join(f'user_{name}="{name}-secret"' for name in USERS)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "log.retention.ms": "-1",
    }


@contextmanager
def both(folder: Path) -> Iterator[list[Peer]]:
    port = apache_kafka.free_port()
    theirs = apache_kafka.ApacheKafka(settings(), heap="512m")
    clients = f"PLAINTEXT://127.0.0.1:{theirs.port},CLIENTS://127.0.0.1:{port}"
    theirs.settings["listeners"] = f"{clients},CONTROLLER://127.0.0.1:{theirs.controller_port}"
    theirs.settings["advertised.listeners"] = clients
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0"}
    with secured_broker(folder, {**settings(), **listeners}) as ours, theirs:
        peers = [
            Peer(ours.servers["PLAINTEXT"], ours.servers["CLIENTS"]),
            Peer(theirs.bootstrap_servers, f"127.0.0.1:{port}"),
        ]
        for peer in peers:
            peer.make_world()
        yield peers


def drawn(source: random.Random) -> list[AclBinding]:
    """Some ACLs, near to what is asked for."""
    names = {
        ResourceType.TOPIC: ["orders", "orders-eu", "payments", "*", "order", "missing", "o"],
        ResourceType.GROUP: ["billing", "billing-2", "*", "bill"],
        ResourceType.TRANSACTIONAL_ID: ["shop-tx", "shop-", "*"],
        ResourceType.CLUSTER: ["kafka-cluster"],
    }
    operations = {
        ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
        ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS ALL",
        ResourceType.TRANSACTIONAL_ID: "WRITE DESCRIBE ALL",
        ResourceType.CLUSTER: (
            "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALL"
        ),
    }
    found = []
    for _ in range(source.randint(1, 9)):
        kind = source.choice([ResourceType.TOPIC, ResourceType.TOPIC, *names])
        is_cluster = kind is ResourceType.CLUSTER
        found.append(
            AclBinding(
                kind,
                source.choice(names[kind]),
                source.choice(["User:alice", "User:alice", "User:bob", "User:*"]),
                AclOperation[source.choice(operations[kind].split())],
                source.choice([AclPermissionType.ALLOW] * 3 + [AclPermissionType.DENY]),
                source.choice(["*", "*", "127.0.0.1", "10.9.9.9"]),
                PatternType.LITERAL if is_cluster else source.choice([PatternType.LITERAL, PatternType.PREFIXED]),
            )
        )
    return list(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_both_brokers_decide_the_same_under_acls_drawn_at_random(tmp_path: Path) -> None:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    seed = int(os.environ.get("BARNABAS_SEED", "1"))
    source, asked = random.Random(seed), questions()
    differing: list[str] = []
    with both(tmp_path / "ours") as (ours, theirs):
        for number in range(SCENARIOS):
            acls = drawn(source)
            for peer in (ours, theirs):
                peer.replace_acls(acls)
            for question in source.sample(asked, QUESTIONS_EACH):
                user = source.choice(["alice", "alice", "bob"])
                answers = [peer.ask(user, question) for peer in (ours, theirs)]
                if answers[0] != answers[1]:
                    differing.append(
                        f"scenario {number} of seed {seed}: {user} asks {question['id']}\n  under {acls}\n"
                        f"  ours:   {json.dumps(answers[0])}\n  theirs: {json.dumps(answers[1])}"
                    )
    assert not differing, "\n".join(differing)
