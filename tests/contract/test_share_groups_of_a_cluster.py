"""Share groups on several brokers: three of ours, and brokers of Apache Kafka 4.3.1 with ours, which ask each other.

Who leads a partition keeps what is in flight; who leads the partition of `__share_group_state` for it keeps its state.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from barnabas import AdminClient, Broker, NewTopic
from barnabas.broker.share.persister import SharePartitionKey
from barnabas.errors import KafkaError
from barnabas.protocol.coordinator_partition import partition_for
from tests.contract.mixed_world import World, world_of
from tests.contract.queue import EXPLICIT, Queue, eventually, values
from tests.peers import apache_kafka
from tests.peers.java_tools import JavaTools
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

QUICK = {
    "group.share.heartbeat.interval.ms": "200",
    "group.share.min.heartbeat.interval.ms": "100",
    "share.coordinator.state.topic.num.partitions": "6",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "offsets.topic.num.partitions": "4",
}
STATES = "__share_group_state"


def leaders_of(admin: AdminClient, topic: str) -> dict[int, int]:
    found = admin.describe_topics([topic])[topic]
    return {one.partition: -1 if one.leader is None else one.leader.id for one in found.partitions}


def coordinators_of(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    """Which broker keeps the state of each partition, by FindCoordinator's rule."""
    states = leaders_of(admin, STATES)
    found = admin.describe_topics([topic])[topic]
    return {
        one.partition: states[
            partition_for(SharePartitionKey(group, found.topic_id, one.partition).coordinator_key, len(states))
        ]
        for one in found.partitions
    }


def send(queue: Queue, first: int, count: int, partitions: int) -> None:
    for index in range(partitions):
        queue.send(*(b"%d" % n for n in range(first, first + count) if n % partitions == index), partition=index)


def accepted(queue: Queue, count: int, seconds: float = 60) -> Counter[bytes]:
    """What is delivered to a new member until so many different records were, all accepted."""
    found: Counter[bytes] = Counter()
    deadline = time.monotonic() + seconds
    with queue.consumer() as member:
        while len(found) < count and time.monotonic() < deadline:
            found.update(values(member.poll(0.3)))
        member.commit_sync()
    return found


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with Broker(brokers=3, config=QUICK) as running:
        yield running
        assert "please report this" not in running.log_text()


def test_every_record_comes_once_whoever_leads_and_whoever_keeps_the_state(ours: Broker) -> None:
    with AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("spread", replica_assignments={n: [n % 3 + 1] for n in range(6)})])
        queue = Queue(ours.bootstrap_servers, "spread", "spread-group")
        send(queue, 0, 600, 6)
        assert accepted(queue, 600) == Counter({b"%d" % n: 1 for n in range(600)})
        led, kept = leaders_of(admin, "spread"), coordinators_of(admin, "spread-group", "spread")
        assert any(led[n] != kept[n] for n in led), "somebody must have asked another broker"
        described = admin.list_share_group_offsets({"spread-group": None})["spread-group"]
        assert {one.lag for one in described.values()} == {0}
        admin.delete_groups(["spread-group"])
        assert "spread-group" not in {one.group_id for one in admin.list_groups()}


def test_under_a_limit_the_brokers_are_asked_in_turn(ours: Broker) -> None:
    with AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("limited", replica_assignments={n: [n + 1] for n in range(3)})])
    queue = Queue(ours.bootstrap_servers, "limited", "limited-group")
    send(queue, 0, 90, 3)
    found: Counter[bytes] = Counter()
    served: list[int] = []
    deadline = time.monotonic() + 60
    with queue.consumer(max_poll_records=5, share_acquire_mode="record_limit") as member:
        while found.total() < 90 and time.monotonic() < deadline:
            records = list(member.poll(1.0))
            assert len(records) <= 5
            assert len({record.partition for record in records}) <= 1, "one broker at a time"
            found.update(values(records))
            served += [records[0].partition] if records else []
    assert found == Counter({b"%d" % n: 1 for n in range(90)})
    # A broker that has nothing in its turn loses it, as one that still loads the state.
    turns = served[3:12]
    assert set(turns) == {0, 1, 2}, served
    assert all(before != after for before, after in pairwise(turns)), served


@pytest.mark.parametrize("victim", ["leader", "share coordinator", "group coordinator"])
def test_a_broker_that_is_killed_costs_no_record(ours: Broker, victim: str) -> None:
    topic = group = f"without-{victim.replace(' ', '-')}"
    with AdminClient(bootstrap_servers=ours.bootstrap_servers) as admin:
        replicas = {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(3)}
        admin.create_topics([NewTopic(topic, replica_assignments=replicas)])
        queue = Queue(ours.bootstrap_servers, topic, group, share_record_lock_duration_ms="15000")
        send(queue, 0, 300, 3)
        done: Counter[bytes] = Counter()
        with queue.consumer(**EXPLICIT) as member:
            take(member, done, 150)
            doomed = {
                "leader": lambda: leaders_of(admin, topic)[0],
                "share coordinator": lambda: coordinators_of(admin, group, topic)[0],
                "group coordinator": lambda: admin.describe_share_groups([group])[group].coordinator.id,
            }[victim]()
            ours.kill(doomed)
            try:
                send(queue, 300, 300, 3)
                take(member, done, 600)
            finally:
                ours.start(doomed)
        assert sorted(done, key=int) == [b"%d" % n for n in range(600)]
        assert set(done.values()) == {1}, "what was acknowledged came again"


@pytest.fixture(scope="module")
def mixed() -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with MixedCluster(settings=QUICK) as running:
        yield running


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools() as running:
        yield running


@pytest.fixture
def world(mixed: MixedCluster) -> Iterator[World]:
    with world_of(mixed) as world:
        yield world


OURS = 3


def eventually_some(member: Any) -> list[Any]:
    found: list[Any] = []
    assert eventually(lambda: bool(found.extend(member.poll(0.2)) or found))
    return found


def pairs(world: World, group: str, topic: str) -> set[tuple[bool, bool]]:
    """Whether ours leads, and whether ours keeps the state, of each partition."""
    kept = coordinators_of(world.admin, group, topic)
    return {(leader == OURS, kept[n] == OURS) for n, leader in leaders_of(world.admin, topic).items()}


def test_brokers_of_both_softwares_lead_and_keep_the_states_of_each_other(world: World) -> None:
    topic = world.create("shared", {n: [[1, 2, 3], [3, 1, 2]][n % 2] for n in range(12)})
    servers = world.cluster.bootstrap_servers
    seen: set[tuple[bool, bool]] = set()
    for number in range(3):
        group = f"both-{number}"
        queue = Queue(servers, topic, group)
        send(queue, 240 * number, 240, 12)
        wanted = 240 * (number + 1)
        with queue.consumer(**EXPLICIT) as member:
            for record in (given_back := eventually_some(member)):
                member.acknowledge(record, "release")
            assert set(member.commit_sync().values()) == {None}
            done: Counter[bytes] = Counter()
            take(member, done, wanted)
            assert {record.value for record in given_back} <= set(done)
            assert sorted(done.items(), key=lambda one: int(one[0])) == [(b"%d" % n, 1) for n in range(wanted)]
        offsets = world.admin.list_share_group_offsets({group: None})[group]
        assert {one.lag for one in offsets.values()} == {0}, offsets
        seen |= pairs(world, group, topic)
    assert seen == {(False, False), (False, True), (True, False), (True, True)}


def test_javas_share_consumer_reads_from_both(world: World, java: JavaTools) -> None:
    topic = world.create("for-java", {0: [1, 2, 3], 1: [3, 1, 2], 2: [2, 3, 1], 3: [3, 2, 1]})
    queue = Queue(world.cluster.bootstrap_servers, topic, "java-group")
    send(queue, 0, 400, 4)
    limits = ("--max-messages", "400", "--timeout-ms", "30000", "--group", "java-group", "--topic", topic)
    servers = ("--bootstrap-server", world.cluster.bootstrap_servers)
    found = java.run("org.apache.kafka.tools.consumer.ConsoleShareConsumer", *servers, *limits)
    assert sorted(int(one) for one in found.out.split() if one.isdigit())[:400] == list(range(400)), found.err


def test_both_softwares_die_in_turn(world: World) -> None:
    topic = world.create("survives", {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)})
    queue = Queue(world.cluster.bootstrap_servers, topic, "survivors", share_record_lock_duration_ms="15000")
    done: Counter[bytes] = Counter()
    sent = 0
    with queue.consumer(**EXPLICIT) as member:
        for number, broker in sorted(world.brokers.items()):
            send(queue, sent, 300, 6)
            sent += 300
            take(member, done, sent - 150)
            broker.stop(kill=True)
            send(queue, sent, 150, 6)
            sent += 150
            take(member, done, sent)
            broker.start()
            assert eventually(lambda: world.is_whole(topic) and world.is_whole(STATES), 60), number
    assert sorted(done, key=int) == [b"%d" % n for n in range(sent)]
    assert set(done.values()) == {1}, "what was acknowledged came again"


def take(member: Any, done: Counter[bytes], count: int, seconds: float = 90) -> None:
    """Read and accept until so many records are accepted; only those count whose acknowledgement was stored."""
    deadline = time.monotonic() + seconds
    while len(done) < count and time.monotonic() < deadline:
        found = member.poll(0.3)
        for record in found:
            member.acknowledge(record)
        results: dict[Any, KafkaError | None] = member.commit_sync()
        stored = {(one.topic, one.partition) for one, problem in results.items() if problem is None}
        done.update(record.value for record in found if (record.topic, record.partition) in stored)
    assert len(done) >= count, f"{len(done)} of {count}"
