"""Brokers of ours as controller under a real ZooKeeper: of their own alone, and of Apache Kafka 3.9's.

One short test is part of the ordinary run where Java and kazoo are there; the others are asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from barnabas import AdminClient
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.client.admin.topics import NewTopic
from barnabas.errors import UnknownTopicOrPartitionError
from barnabas.protocol.kinds import ConfigResourceType
from barnabas.protocol.topic_partition import TopicPartition
from tests.contract.mixed_world import (
    OURS,
    SOON,
    World,
    a_killed_broker_of_ours_catches_up,
    a_paused_broker_of_ours_harms_nothing,
    a_topic_that_goes_leaves_no_log,
    brokers_of_both_kinds_die_in_turn,
    groups_and_transactions_move_with_their_leaders,
    ours_hands_its_leaderships_over,
    records_go_through_every_leader,
    settings_reach_our_logs,
    transactions_are_whole_while_brokers_die,
    world_of,
)
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.peers import zookeeper
from tests.peers.zookeeper import ZooKeeperCluster

pytestmark = [pytest.mark.timeout(300)]

_REPLICAS = {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)}


def running(theirs: int, ours: int) -> Iterator[ZooKeeperCluster]:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    # Apache Kafka's brokers lose shorter sessions on a machine that has much to do.
    settings = {} if theirs else {"zookeeper.session.timeout.ms": "1500"}
    with ZooKeeperCluster(theirs, ours, settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def ours_alone() -> Iterator[ZooKeeperCluster]:
    yield from running(0, 3)


@pytest.fixture(scope="module")
def two_of_theirs() -> Iterator[ZooKeeperCluster]:
    yield from running(2, 1)


@pytest.fixture(scope="module")
def one_of_theirs() -> Iterator[ZooKeeperCluster]:
    yield from running(1, 2)


def kill_the_controller(world: World, cluster: ZooKeeperCluster) -> int:
    number = cluster.controller
    assert number is not None
    world.brokers[number].stop(kill=True)
    eventually(lambda: cluster.controller not in (None, number), 30)
    return number


def controllers_die_in_turn(world: World, cluster: ZooKeeperCluster, turns: int) -> set[int]:
    """Kill the controller, again and again under load; returns who was."""
    world.create(TOPIC, _REPLICAS)
    killed = set()
    with Traffic(world.settings, **{"group.id": "controllers"}) as traffic:
        for turn in range(turns):
            traffic.wait_until_read(traffic.sent + 30, 60)
            number = kill_the_controller(world, cluster)
            killed.add(number)
            topic = f"under-the-next-{turn}"
            alive = [one for one in world.brokers if one != number]
            world.create(topic, {0: alive, 1: alive[::-1]})
            traffic.wait_until_read(traffic.sent + 30, 60)
            world.brokers[number].start()
            eventually(lambda: world.is_whole(TOPIC), 60)
            world.admin.delete_topics([topic])
        traffic.wait_until_read(traffic.sent, 60)
    world.prefer(TOPIC)
    world.check_replicas_are_equal(TOPIC)
    return killed


def _setting(admin: AdminClient, resource: ConfigResource, name: str) -> str | None:
    """A setting as a broker tells it, None while that does not know the topic yet."""
    try:
        return str(admin.describe_configs([resource])[resource][name].value)
    except UnknownTopicOrPartitionError:
        return None


# -- ours alone ------------------------------------------------------------------------------------------------------


def test_three_of_ours_are_a_cluster_under_zookeeper_that_survives_its_controller(
    ours_alone: ZooKeeperCluster,
) -> None:
    with world_of(ours_alone) as world:
        topic = world.create("first", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
        world.is_led_by(topic, [1, 2, 3])
        killed = kill_the_controller(world, ours_alone)
        eventually(lambda: killed not in world.leaders(topic) and -1 not in world.leaders(topic))
        world.admin.create_topics([NewTopic("second", num_partitions=2, replication_factor=2)])
        eventually(lambda: world.is_whole("second"))
        assert killed not in world.leaders("second")
        world.brokers[killed].start()
        world.prefer(topic)
        world.is_led_by(topic, [1, 2, 3])
        world.admin.delete_topics(["second"])
        assert "second" not in world.admin.list_topics()


@pytest.mark.slow
def test_controllers_of_ours_die_in_turn_and_nothing_is_lost(ours_alone: ZooKeeperCluster) -> None:
    with world_of(ours_alone) as world:
        controllers_die_in_turn(world, ours_alone, 5)


@pytest.mark.slow
def test_leaderships_go_back_by_themselves() -> None:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    settings = {"auto.leader.rebalance.enable": "true", "leader.imbalance.check.interval.seconds": "1"}
    with ZooKeeperCluster(0, 3, settings) as cluster, world_of(cluster) as world:
        topic = world.create("balanced", {0: [1, 2, 3]})
        world.brokers[1].stop()
        eventually(lambda: world.leaders(topic) != [1])
        world.brokers[1].start()
        eventually(lambda: world.leaders(topic) == [1], 30)


# -- Apache Kafka's brokers under a controller of ours ---------------------------------------------------------------

_SCENARIOS: dict[str, Callable[[World], None]] = {
    "records": records_go_through_every_leader,
    "groups and transactions": lambda world: groups_and_transactions_move_with_their_leaders(world, "classic"),
    "deletion": a_topic_that_goes_leaves_no_log,
    "settings": settings_reach_our_logs,
}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", sorted(_SCENARIOS))
def test_brokers_of_both_kinds_work_under_our_controller(two_of_theirs: ZooKeeperCluster, scenario: str) -> None:
    with world_of(two_of_theirs) as world:
        two_of_theirs.hand_over_to(OURS)
        _SCENARIOS[scenario](world)
        assert two_of_theirs.controller == OURS


@pytest.mark.slow
@pytest.mark.parametrize("stops", [True, False])
def test_a_broker_of_theirs_ends_and_comes_back_under_our_controller(
    two_of_theirs: ZooKeeperCluster, stops: bool
) -> None:
    with world_of(two_of_theirs) as world:
        two_of_theirs.hand_over_to(OURS)
        topic = world.create("theirs-ends", {0: [1, 2, OURS], 1: [1, OURS, 2]})
        began = time.monotonic()
        world.brokers[1].stop(kill=not stops)
        eventually(lambda: 1 not in world.leaders(topic) and -1 not in world.leaders(topic), 30)
        assert time.monotonic() - began < 15
        two_of_theirs.wait_until_gone(1)
        world.brokers[1].start()
        world.prefer(topic)
        eventually(lambda: world.leaders(topic) == [1, 1])
        assert two_of_theirs.controller == OURS


@pytest.mark.slow
def test_partitions_move_between_both_kinds_under_our_controller(two_of_theirs: ZooKeeperCluster) -> None:
    with world_of(two_of_theirs) as world:
        two_of_theirs.hand_over_to(OURS)
        world.create(TOPIC, {n: [n % 2 + 1] for n in range(4)})
        with Traffic(world.settings, **{"group.id": "moved"}) as traffic:
            for target in ([OURS], [1, OURS], [2, 1, OURS]):
                traffic.wait_until_read(traffic.sent + 50, 60)
                world.admin.alter_partition_reassignments({TopicPartition(TOPIC, n): target for n in range(4)})
                eventually(lambda: not world.admin.list_partition_reassignments(), 60)
                wanted = set(target)
                eventually(lambda: all({r.id for r in p.replicas} == wanted for p in world.partitions(TOPIC)))  # noqa: B023
            traffic.wait_until_read(traffic.sent, 60)
        world.check_replicas_are_equal(TOPIC)


@pytest.mark.slow
def test_settings_are_written_by_our_controller(two_of_theirs: ZooKeeperCluster) -> None:
    with world_of(two_of_theirs) as world:
        two_of_theirs.hand_over_to(OURS)
        topic = world.create("set-by-ours", {0: [1, 2, OURS]})
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        world.admin.incremental_alter_configs({resource: [AlterConfigOp("retention.ms", "7654321")]})
        for broker in world.brokers.values():
            with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **SOON}) as admin:
                eventually(lambda: _setting(admin, resource, "retention.ms") == "7654321")


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    [
        ours_hands_its_leaderships_over,
        a_killed_broker_of_ours_catches_up,
        a_paused_broker_of_ours_harms_nothing,
        brokers_of_both_kinds_die_in_turn,
        transactions_are_whole_while_brokers_die,
    ],
)
def test_our_controller_dies_itself(two_of_theirs: ZooKeeperCluster, scenario: Callable[[World], None]) -> None:
    """These end, kill or pause our broker, which is controller when they begin."""
    with world_of(two_of_theirs) as world:
        two_of_theirs.hand_over_to(OURS)
        scenario(world)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_controllers_of_both_kinds_die_in_turn_and_nothing_is_lost(one_of_theirs: ZooKeeperCluster, first: str) -> None:
    with world_of(one_of_theirs) as world:
        one_of_theirs.hand_over_to(*(one_of_theirs.ours if first == "ours" else one_of_theirs.theirs))
        controllers_die_in_turn(world, one_of_theirs, 5)
