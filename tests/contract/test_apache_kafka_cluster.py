"""Clients of a cluster: three brokers that replicate, and of which one may be gone, of Apache Kafka and of ours.

Minutes, so they are asked for: `./run test -m slow tests/contract/test_apache_kafka_cluster.py`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer, TopicPartition
from barnabas.aio import Consumer as AioConsumer
from barnabas.aio import Producer as AioProducer
from barnabas.client.admin.configs import ConfigResource
from barnabas.client.consumer.fetching.offset_fetcher import TruncatedLogError
from barnabas.errors import InvalidReplicationFactorError, NotEnoughReplicasError, PreferredLeaderNotAvailableError
from barnabas.protocol.kinds import ElectionType
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.apache_kafka_cluster import ApacheKafkaCluster
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ONE_REPLICA = {"min.insync.replicas": "1"}
SOON = {"reconnect.backoff.max.ms": 500, "retry.backoff.max.ms": 500}
NEAR_BY = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
AnyBroker = ApacheKafka | BarnabasBroker
AnyCluster = ApacheKafkaCluster | MixedCluster


class World:
    """The cluster, and an admin client of it."""

    def __init__(self, cluster: AnyCluster, admin: AdminClient) -> None:
        self.brokers: Mapping[int, AnyBroker] = cluster.brokers
        #: Apache Kafka's brokers are controllers, too.
        self.controllers = cluster.controllers if isinstance(cluster, MixedCluster) else self.brokers
        self.admin = admin
        self.settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **SOON}

    def create(self, topic: str, partitions: int = 6, **configs: str) -> str:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        self.admin.create_topics([NewTopic(topic, partitions, configs=named)])
        eventually(lambda: self.is_whole(topic))
        return topic

    def replicas(self, topic: str) -> list[Any]:
        found = self.admin.describe_topics([topic], raise_errors=False)
        return found[topic].partitions if topic in found else []

    def is_whole(self, topic: str) -> bool:
        """Every partition has a leader, and all its replicas are in sync."""
        found = self.replicas(topic)
        return bool(found) and all(
            part.leader is not None and len(part.in_sync_replicas) == len(part.replicas) for part in found
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        leader = self.replicas(topic)[partition].leader
        return -1 if leader is None else leader.id

    def wait_until_led_by_others(self, topic: str, number: int) -> None:
        eventually(lambda: all(part.leader and part.leader.id != number for part in self.replicas(topic)))


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    if request.param == "barnabas":
        with MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=3, settings=NEAR_BY) as ours:
            yield ours
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with ApacheKafkaCluster() as theirs:
        yield theirs


@pytest.fixture
def world(cluster: AnyCluster) -> Iterator[World]:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin:
        world = World(cluster, admin)
        yield world
        for node in {**world.controllers, **world.brokers}.values():
            if not node.is_running:
                node.start()
        for topic in [*admin.list_topics()]:
            admin.delete_topics([topic])


def killed(broker: AnyBroker) -> None:
    broker.stop(kill=True)


def shut_down(broker: AnyBroker) -> None:
    broker.stop()


@pytest.mark.parametrize("stop", [killed, shut_down], ids=lambda stop: stop.__name__)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_broker_goes_in_turn_and_no_record_is_lost_or_doubled(
    world: World, stop: Callable[[AnyBroker], None], protocol: str
) -> None:
    world.create(TOPIC)
    group = {"group.protocol": protocol, "group.id": f"{protocol}-{stop.__name__}"}
    with Traffic(world.settings, **group) as traffic:
        for number, broker in world.brokers.items():
            stop(broker)
            world.wait_until_led_by_others(TOPIC, number)
            traffic.wait_until_read(traffic.sent + 50, 60)
            broker.start()
            eventually(lambda: world.is_whole(TOPIC))
        traffic.wait_until_read(traffic.sent, 60)


def test_asyncio_clients_go_on_when_a_leader_dies(world: World) -> None:
    topic = world.create("asyncio")

    async def work() -> tuple[list[int], int]:
        found: list[int] = []
        async with (
            AioProducer(world.settings) as producer,
            AioConsumer(topic, {**world.settings, "group.id": "aio", "auto.offset.reset": "earliest"}) as consumer,
        ):
            sent = 0
            for turn in range(60):
                futures = [await producer.send(topic, b"%d" % number) for number in range(sent, sent + 10)]
                sent += len(futures)
                if turn == 10:
                    await asyncio.to_thread(killed, world.brokers[world.leader(topic)])
                await asyncio.gather(*futures)
                found.extend([int(record.value) for record in await consumer.poll(0.05)])
            while len(found) < sent:
                found.extend([int(record.value) for record in await consumer.poll(1.0)])
        return found, sent

    found, sent = asyncio.run(asyncio.wait_for(work(), 120))

    assert sorted(found) == list(range(sent))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_keeps_its_offsets_and_its_members_when_its_coordinator_dies(world: World, protocol: str) -> None:
    topic = world.create("coordinated", 2)
    group = {"group.id": f"kept-{protocol}", "group.protocol": protocol, "enable.auto.commit": False}
    settings = {**world.settings, **group, "auto.offset.reset": "earliest"}
    with Producer(world.settings) as producer, Consumer(topic, settings) as consumer:
        eventually(lambda: consumer.poll(0.1) is not None and len(consumer.assignment()) == 2)
        producer.send(topic, b"1", partition=0).result(10)
        eventually(lambda: len(consumer.poll(0.1)) == 1)
        consumer.commit()
        before = world.admin.describe_groups([f"kept-{protocol}"])[f"kept-{protocol}"]
        killed(world.brokers[before.coordinator.id])
        producer.send(topic, b"2", partition=0).result(60)
        eventually(lambda: len(consumer.poll(0.1)) == 1)
        consumer.commit(timeout=120)
        after = world.admin.describe_groups([f"kept-{protocol}"])[f"kept-{protocol}"]

        assert after.coordinator.id != before.coordinator.id
        assert [member.member_id for member in after.members] == [member.member_id for member in before.members]
        assert consumer.committed([TopicPartition(topic, 0)])[TopicPartition(topic, 0)].offset == 2


def test_transactions_are_whole_when_their_coordinator_and_a_leader_die(world: World) -> None:
    source, target = world.create("source", 3), world.create("target", 3)
    with Producer(world.settings) as producer:
        for number in range(600):
            producer.send(source, b"%d" % number)
    settings = {**world.settings, "group.id": "etl", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    with (
        Producer({**world.settings, "transactional.id": "etl"}) as producer,
        Consumer(source, {**settings, "max.poll.records": 20}) as consumer,
    ):
        producer.init_transactions()
        for turn in itertools.count():
            records = consumer.poll(0.5)
            producer.begin_transaction()
            for record in records:
                producer.send(target, record.value)
            if turn % 3 == 2:
                producer.abort_transaction()
                for partition, committed in consumer.committed(consumer.assignment()).items():
                    consumer.seek(partition, committed or 0)
                continue
            offsets = {partition: consumer.position(partition) for partition in consumer.assignment()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            producer.commit_transaction()
            if sum(offsets.values()) == 600:
                break
            if turn == 6:
                killed(world.brokers[world.admin.describe_transactions(["etl"])["etl"].coordinator_id])
    read = {**settings, "group.id": "check", "isolation.level": "read_committed"}
    with Consumer(target, read) as consumer:
        found: list[int] = []
        eventually(lambda: found.extend(int(r.value) for r in consumer.poll(0.5)) or len(found) >= 600)

        assert sorted(found) == list(range(600))


def test_a_consumer_reads_from_the_replica_of_its_rack_and_from_the_leader_when_that_dies(world: World) -> None:
    topic = world.create("racks", 1)
    leader = world.leader(topic)
    follower = leader % 3 + 1
    partition = TopicPartition(topic, 0)
    with (
        Producer(world.settings) as producer,
        Consumer({**world.settings, "client.rack": f"rack-{follower}", "metadata.max.age.ms": 2000}) as consumer,
    ):
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        for number in range(100):
            producer.send(topic, b"%d" % number).result(10)
        found: list[int] = []
        eventually(lambda: found.extend(int(r.value) for r in consumer.poll(0.1)) or len(found) >= 100)
        eventually(
            lambda: (
                consumer.poll(0.1) is not None
                and consumer.partition_metrics()[partition]["preferred-read-replica"] == follower
            )
        )
        killed(world.brokers[follower])
        for number in range(100, 200):
            producer.send(topic, b"%d" % number).result(60)
        eventually(lambda: found.extend(int(r.value) for r in consumer.poll(0.1)) or len(found) >= 200)

        assert found == list(range(200))


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_members_get_the_partitions_that_lie_in_their_racks(world: World, strategy: str) -> None:
    topic = f"near-{strategy}"
    world.admin.create_topics([NewTopic(topic, replica_assignments={0: [2], 1: [3]}, configs=ONE_REPLICA)])
    eventually(lambda: world.is_whole(topic))
    group = {**world.settings, "group.id": f"near-{strategy}", "partition.assignment.strategy": strategy}
    # Without racks the first member by its id would get the first partition.
    with (
        Consumer(topic, {**group, "client.id": "a", "client.rack": "rack-3"}) as first,
        Consumer(topic, {**group, "client.id": "b", "client.rack": "rack-2"}) as second,
    ):

        def each_reads_near_by() -> bool:
            first.poll(0.1)
            second.poll(0.1)
            return first.assignment() == {TopicPartition(topic, 1)} and second.assignment() == {
                TopicPartition(topic, 0)
            }

        eventually(each_reads_near_by)


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_a_consumer_ahead_of_a_truncated_log_hears_of_it_or_goes_back(world: World, reset: str) -> None:
    first, second = world.brokers[1], world.brokers[2]
    topic = f"cut-{reset}"
    world.admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]}, configs=ONE_REPLICA)])
    eventually(lambda: world.is_whole(topic))
    partition = TopicPartition(topic, 0)
    with Consumer({**world.settings, "auto.offset.reset": reset, "client.id": "reader"}) as consumer:
        consumer.assign([partition])
        consumer.seek(partition, 0)
        with Producer(world.settings) as producer:
            producer.send(topic, b"kept").result(10)
            eventually(lambda: len(consumer.poll(0.1)) == 1)
            killed(second)
            eventually(lambda: len(world.replicas(topic)[0].in_sync_replicas) == 1)
            producer.send(topic, b"lost").result(10)
            eventually(lambda: len(consumer.poll(0.1)) == 1)
        killed(first)
        second.start()
        eventually(lambda: world.leader(topic) == -1)
        world.admin.elect_leaders(ElectionType.UNCLEAN, [partition])
        eventually(lambda: world.leader(topic) == 2)
        with Producer(world.settings) as producer:
            producer.send(topic, b"new").result(60)
        found: list[bytes] = []

        def read() -> bool:
            found.extend(record.value for record in consumer.poll(0.1))
            return bool(found)

        if reset == "none":
            with pytest.raises(TruncatedLogError, match=topic) as raised:
                eventually(read)
            assert raised.value.divergent_offsets[partition].offset == 1
            consumer.seek(partition, raised.value.divergent_offsets[partition])
            eventually(read)
            assert found == [b"new"]
        else:
            eventually(read)
            assert found == [b"new"]


def test_too_few_replicas_hold_a_record_back_until_they_are_there_again(world: World) -> None:
    topic = "held-back"
    world.admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]})])
    eventually(lambda: world.is_whole(topic))
    with Producer(world.settings) as patient, Producer({**world.settings, "retries": 0}) as hasty:
        patient.send(topic, b"1").result(10)
        killed(world.brokers[2])
        eventually(lambda: len(world.replicas(topic)[0].in_sync_replicas) == 1)
        with pytest.raises(NotEnoughReplicasError):
            hasty.send(topic, b"refused").result(30)
        held_back = patient.send(topic, b"2")
        world.brokers[2].start()

        assert held_back.result(60).offset == 1


def test_the_admin_client_sees_and_moves_leaders_and_replicas(world: World) -> None:
    topic = "moved"
    world.admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]})])
    eventually(lambda: world.is_whole(topic))
    partition = TopicPartition(topic, 0)
    shut_down(world.brokers[1])
    eventually(lambda: world.leader(topic) == 2)
    with pytest.raises(PreferredLeaderNotAvailableError):
        world.admin.elect_leaders(ElectionType.PREFERRED, [partition])
    world.brokers[1].start()
    eventually(lambda: world.is_whole(topic))
    world.admin.elect_leaders(ElectionType.PREFERRED, [partition])
    eventually(lambda: world.leader(topic) == 1)
    world.admin.alter_partition_reassignments({partition: [3, 2]})
    eventually(lambda: not world.admin.list_partition_reassignments())
    eventually(lambda: [node.id for node in world.replicas(topic)[0].replicas] == [3, 2])

    def who_has_it() -> set[int]:
        logs = world.admin.describe_log_dirs([1, 2, 3]).items()
        return {number for number, dirs in logs for found in dirs.values() if partition in found.replica_infos}

    # A broker hears a moment later that it has lost a replica.
    eventually(lambda: who_has_it() == {2, 3})
    assert {voter.replica_id for voter in world.admin.describe_metadata_quorum().voters} == set(world.controllers)


def test_the_admin_client_sees_who_may_lead_and_which_brokers_are_gone(world: World) -> None:
    topic, partition = "eligible", TopicPartition("eligible", 0)
    world.admin.create_topics([NewTopic(topic, replica_assignments={0: [1, 2]})])
    eventually(lambda: world.is_whole(topic))
    with pytest.raises(InvalidReplicationFactorError):
        world.admin.alter_partition_reassignments({partition: [1, 2, 3]}, allow_replication_factor_change=False)
    assert world.replicas(topic)[0].elr == []

    killed(world.brokers[2])
    eventually(lambda: [node.id for node in world.replicas(topic)[0].elr or ()] == [2])
    eventually(lambda: world.admin.describe_cluster(include_fenced_brokers=True).fenced == {2})
    eventually(lambda: {node.id for node in world.admin.describe_cluster().nodes} == {1, 3})
    world.admin.unregister_broker(2)
    eventually(lambda: world.admin.describe_cluster(include_fenced_brokers=True).fenced == frozenset())
    world.brokers[2].start()
    eventually(lambda: world.is_whole(topic))


def test_controllers_are_found_again_when_the_active_one_dies(world: World) -> None:
    ports = [one.controller_port if isinstance(one, ApacheKafka) else one.port for one in world.controllers.values()]
    controllers = ",".join(f"127.0.0.1:{port}" for port in ports)
    with AdminClient({"bootstrap.controllers": controllers, **SOON}) as admin:
        described = admin.describe_cluster()
        assert {node.id for node in described.nodes} == set(world.controllers)
        assert described.controller is not None
        assert described.controller.id == admin.describe_metadata_quorum().leader_id

        killed(world.controllers[described.controller.id])
        quorum = admin.describe_metadata_quorum()
        assert quorum.leader_id != described.controller.id
        everybody = ConfigResource.broker(None)
        admin.incremental_alter_configs({everybody: {"log.cleaner.threads": 2}})
        eventually(lambda: admin.describe_configs([everybody])[everybody]["log.cleaner.threads"].value == "2")
        admin.incremental_alter_configs({everybody: {"log.cleaner.threads": None}})
