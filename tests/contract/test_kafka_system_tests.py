"""System tests of Apache Kafka that count every record, retold on brokers of ours and, as a control, on theirs.

Their `replication_test` (each failure of a leader, with each kind of producer), `reassign_partitions_test`,
`controller_mutation_quota_test` and `replica_scale_test`. Minutes, so they are asked for:
`./run test -m slow tests/contract/test_kafka_system_tests.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from barnabas.admin import ClientQuotaEntity
from barnabas.errors import ThrottlingQuotaExceededError
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
#: Windows of quotas as Kafka's test wants them.
SETTINGS = {
    "controller.quota.window.num": "10",
    "controller.quota.window.size.seconds": "200",
}


class World:
    """Four brokers of one kind under one controller, and an admin client of them."""

    def __init__(self, cluster: MixedCluster, admin: AdminClient) -> None:
        self.brokers = cluster.brokers
        self.admin = admin
        self.settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **SOON}

    def create(self, topic: str, partitions: int, replicas: int = 3, **configs: str) -> None:
        """Create a topic on the first brokers, and wait for its replicas."""
        placed = {n: [(n + k) % 3 + 1 for k in range(replicas)] for n in range(partitions)}
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, replica_assignments=placed, configs=named)])
        eventually(lambda: self.is_whole(topic))

    def partitions(self, topic: str) -> list[Any]:
        """A topic's partitions; none while it is not known."""
        found = self.admin.describe_topics([topic], raise_errors=False)
        return list(found[topic].partitions) if topic in found else []

    def is_whole(self, topic: str) -> bool:
        """Every partition has a leader, and all its replicas are in sync."""
        found = self.partitions(topic)
        return bool(found) and all(
            part.leader is not None and len(part.in_sync_replicas) == len(part.replicas) for part in found
        )

    def leader(self, topic: str) -> int:
        """Who leads the first partition; waits for one."""
        eventually(lambda: self.partitions(topic) and self.partitions(topic)[0].leader is not None)
        return int(self.partitions(topic)[0].leader.id)


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing and request.param != "barnabas":
        pytest.skip(missing)
    ours = {"theirs": 0, "ours": 4, "controllers": 0, "our_controllers": 1}
    theirs = {"theirs": 4, "ours": 0, "controllers": 1}
    with MixedCluster(**(ours if request.param == "barnabas" else theirs), settings=SETTINGS) as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin:
        yield World(cluster, admin)
        for broker in cluster.brokers.values():
            if not broker.is_running:
                broker.start()
        for topic in [*admin.list_topics()]:
            admin.delete_topics([topic])
        eventually(lambda: not admin.list_topics())


# -- replication_test --------------------------------------------------------------------------------------------------


def _end(world: World, traffic: Traffic, *, kill: bool) -> None:
    """End the leader and leave it so."""
    world.brokers[world.leader(TOPIC)].stop(kill=kill)
    traffic.wait_until_read(traffic.sent + 50, 90)


def _bounce(world: World, traffic: Traffic, *, kill: bool) -> None:
    """Five times, end whoever leads and start it again."""
    for _ in range(5):
        broker = world.brokers[world.leader(TOPIC)]
        broker.stop(kill=kill)
        traffic.wait_until_read(traffic.sent + 20, 90)
        broker.start()
        eventually(lambda: world.is_whole(TOPIC), 90)


FAILURES: dict[str, Callable[[World, Traffic], None]] = {
    "clean-shutdown": lambda world, traffic: _end(world, traffic, kill=False),
    "hard-shutdown": lambda world, traffic: _end(world, traffic, kill=True),
    "clean-bounce": lambda world, traffic: _bounce(world, traffic, kill=False),
    "hard-bounce": lambda world, traffic: _bounce(world, traffic, kill=True),
}
PRODUCERS: dict[str, Mapping[str, Any]] = {
    "idempotent": {},
    "gzip": {"compression.type": "gzip"},
    "zstd": {"compression.type": "zstd"},
}


@pytest.mark.parametrize("failure", sorted(FAILURES))
@pytest.mark.parametrize("producer", sorted(PRODUCERS))
def test_replication_with_broker_failure(world: World, failure: str, producer: str) -> None:
    """Every record that is sent is acknowledged and read once, those of a partition in their order."""
    world.create(TOPIC, 3)
    group = f"{failure}-{producer}"
    with Traffic(world.settings, producer_settings=PRODUCERS[producer], **{"group.id": group}) as traffic:
        FAILURES[failure](world, traffic)


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_every_acknowledged_record_is_read_without_idempotence(world: World, failure: str) -> None:
    """A record may be there twice, as what was not acknowledged in time is sent again; none is lost."""
    world.create(TOPIC, 3)
    settings = {"enable.idempotence": False, "acks": "all"}
    group = {"group.id": f"{failure}-plain"}
    with Traffic(world.settings, producer_settings=settings, may_repeat=True, **group) as traffic:
        FAILURES[failure](world, traffic)


# -- reassign_partitions_test ------------------------------------------------------------------------------------------


def _move_start(world: World, partitions: int) -> None:
    """Have the logs begin later than at 0."""
    with Producer(world.settings) as producer:
        for number in range(partitions * 20):
            producer.send(TOPIC, b"old", partition=number % partitions)
    world.admin.delete_records({TopicPartition(TOPIC, index): -1 for index in range(partitions)})


@pytest.mark.parametrize("bounces", [False, True], ids=["calm", "bounced"])
@pytest.mark.parametrize("from_zero", [False, True], ids=["from-a-moved-start", "from-0"])
def test_reassign_partitions(world: World, bounces: bool, from_zero: bool) -> None:
    """Twenty partitions of which all replicas must be in sync are moved under load, while half of the brokers end."""
    partitions = 20
    world.create(TOPIC, partitions, min_insync_replicas="3")
    if not from_zero:
        _move_start(world, partitions)
    random = Random(partitions)
    target = {TopicPartition(TOPIC, index): random.sample([1, 2, 3, 4], 3) for index in range(partitions)}
    group = {"group.id": f"moved-{bounces}-{from_zero}"}
    # Nothing is acknowledged while a broker is away, and beside a load Java takes minutes to end and to start.
    patient = {"delivery.timeout.ms": 500_000}
    with Traffic(world.settings, producer_settings=patient, **group) as traffic:
        world.admin.alter_partition_reassignments(target)
        if bounces:
            for number in (1, 3):
                world.brokers[number].stop()
                world.brokers[number].start()
        eventually(lambda: not world.admin.list_partition_reassignments(), 120)
        eventually(lambda: world.is_whole(TOPIC), 60)
        traffic.wait_until_read(traffic.sent, 90)
    found = {part.partition: {node.id for node in part.replicas} for part in world.partitions(TOPIC)}
    assert found == {name.partition: set(replicas) for name, replicas in target.items()}


# -- controller_mutation_quota_test, replica_scale_test ----------------------------------------------------------------


def _mutate(admin: AdminClient, prefix: str) -> None:
    """Create ten partitions, add ten, delete all, and create one more."""
    admin.create_topics([NewTopic(prefix, 10, 1)])
    eventually(lambda: prefix in admin.list_topics())
    admin.create_partitions({prefix: 20})
    admin.delete_topics([prefix])
    admin.create_topics([NewTopic(f"{prefix}-b", 1, 1)])


def test_controller_mutation_quota(world: World) -> None:
    """What goes beyond the quota is refused, whichever broker is asked."""
    entity = ClientQuotaEntity.of(user=None)
    _mutate(world.admin, "without")
    world.admin.alter_client_quotas({entity: {"controller_mutation_rate": 3 * 10 / (10 * 200)}})
    try:
        time.sleep(1)  # brokers hear of the quota
        with (
            AdminClient({**world.settings, "retries": 0, "default.api.timeout.ms": 20_000}) as admin,
            pytest.raises(ThrottlingQuotaExceededError),
        ):
            _mutate(admin, "within")
    finally:
        world.admin.alter_client_quotas({entity: {"controller_mutation_rate": None}})


def test_fifty_topics_of_34_partitions_are_written_bounced_and_deleted(world: World) -> None:
    """1,700 partitions of three replicas; a broker that ends and comes back is in all ISRs again."""
    topics = [f"scale-{number:02}" for number in range(50)]
    for topic in topics:
        placed = {n: [(n + k) % 4 + 1 for k in range(3)] for n in range(34)}
        world.admin.create_topics([NewTopic(topic, replica_assignments=placed)])
    eventually(lambda: all(world.is_whole(topic) for topic in topics), 120)
    with Producer(world.settings) as producer:
        sent = [producer.send(topics[number % 3], b"%d" % number) for number in range(30_000)]
        assert all(future.result(60).offset >= 0 for future in sent)
    world.brokers[2].stop()
    world.brokers[2].start()
    eventually(lambda: all(world.is_whole(topic) for topic in topics), 120)
    found: list[int] = []
    reading = {**world.settings, "group.id": "scale", "auto.offset.reset": "earliest"}
    with Consumer(*topics[:3], reading) as consumer:
        eventually(lambda: found.extend(int(one.value) for one in consumer.poll(0.5)) or len(found) >= 30_000, 120)
    assert sorted(found) == list(range(30_000))
