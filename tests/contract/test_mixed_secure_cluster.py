"""A mixed cluster whose brokers and controllers speak TLS with SASL to each other, with Apache Kafka's authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import AdminClient, Consumer, Producer, TopicPartition
from barnabas.admin import AclBinding, AclOperation, ResourceType
from barnabas.errors import TopicAuthorizationError
from tests.contract.mixed_world import (
    OURS,
    SOON,
    World,
    a_killed_broker_of_ours_catches_up,
    groups_and_transactions_move_with_their_leaders,
    ours_hands_its_leaderships_over,
    records_go_through_every_leader,
    world_of,
)
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.secure_kafka import Certificates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

_LOGIN = "org.apache.kafka.common.security"
_PLAIN = f'{_LOGIN}.plain.PlainLoginModule required username="node" password="s3" user_node="s3";'


def settings_of(certificates: Certificates) -> dict[str, str]:
    """Between brokers SCRAM, to controllers PLAIN, all over TLS; clients come as they are, or as users by SCRAM."""
    scram = f"{_LOGIN}.scram.ScramLoginModule required"
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL,CONTROLLER:SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.brokers.scram-sha-512.sasl.jaas.config": f'{scram} username="node" password="s3";',
        "listener.name.controller.plain.sasl.jaas.config": _PLAIN,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.broker),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:ANONYMOUS",
    }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(certificates: Certificates) -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    users = [f"SCRAM-SHA-512=[name={name},password=s3]" for name in ("node", "alice")]
    options = [part for user in users for part in ("--add-scram", user)]
    with MixedCluster(settings=settings_of(certificates), inner="BROKERS", format_options=options) as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def test_records_go_through_every_leader_to_every_replica(world: World) -> None:
    records_go_through_every_leader(world)


def test_groups_and_transactions_live_on_whichever_broker_leads_them(world: World) -> None:
    groups_and_transactions_move_with_their_leaders(world, "classic")


def test_our_broker_hands_its_leaderships_over_when_it_ends_and_comes_back(world: World) -> None:
    ours_hands_its_leaderships_over(world)


def test_a_killed_broker_of_ours_catches_up(world: World) -> None:
    a_killed_broker_of_ours_catches_up(world)


def test_users_and_acls_of_the_cluster_hold_on_our_broker(world: World, certificates: Certificates) -> None:
    """SCRAM users and ACLs come with the image; without an ACL a user is denied, with one served, then denied again."""
    topic = world.create("guarded", {0: [OURS, 1, 2]})
    inner = next(
        text for text in world.brokers[OURS].settings["listeners"].split(",") if text.startswith("BROKERS")
    ).partition("://")[2]
    alice = {
        "bootstrap.servers": inner,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "s3",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.authority),
        **SOON,
    }
    everything = AclBinding(ResourceType.TOPIC, topic, "User:alice", AclOperation.ALL)

    def may_send() -> bool:
        with Producer({**alice, "max.block.ms": 5000, "enable.idempotence": False}) as producer:
            try:
                producer.send(topic, b"x").result(30)
            except TopicAuthorizationError:
                return False
        return True

    assert not may_send()
    with AdminClient({"bootstrap.servers": world.brokers[OURS].bootstrap_servers}) as admin:
        admin.create_acls([everything])
    eventually(may_send)
    with Consumer({**alice}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        eventually(lambda: bool(consumer.poll(0.5)))
    with AdminClient({"bootstrap.servers": world.brokers[1].bootstrap_servers}) as admin:
        admin.delete_acls([everything.to_filter()])
    eventually(lambda: not may_send())
    assert "failed" not in world.brokers[OURS].log, "our broker was let in everywhere"
