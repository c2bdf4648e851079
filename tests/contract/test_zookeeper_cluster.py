"""Our broker as a member of an Apache Kafka 3.9 cluster under ZooKeeper: two of theirs; any of them is controller.

The short form is part of the ordinary run where Java and kazoo are there; the long one is asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from barnabas import AdminClient
from barnabas.client.admin.configs import AlterConfigOp, ConfigResource
from barnabas.protocol.kinds import ConfigResourceType
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[ZooKeeperCluster]:
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    with ZooKeeperCluster() as running:
        yield running


@pytest.fixture
def world(cluster: ZooKeeperCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def test_one_cluster_with_one_controller_is_seen_through_every_broker(world: World) -> None:
    controllers = set()
    for broker in world.brokers.values():
        with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **SOON}) as admin:
            found = admin.describe_cluster()
            assert {node.id: node.rack for node in found.nodes} == {1: "rack-1", 2: "rack-2", 3: "rack-3"}
            assert found.cluster_id == world.admin.describe_cluster().cluster_id
            assert found.controller is not None
            controllers.add(found.controller.id)
    assert len(controllers) == 1


def test_records_go_through_every_leader_to_every_replica(world: World) -> None:
    records_go_through_every_leader(world)


@pytest.mark.slow
def test_groups_and_transactions_live_on_whichever_broker_leads_them(world: World) -> None:
    groups_and_transactions_move_with_their_leaders(world, "classic")


@pytest.mark.slow
def test_our_broker_hands_its_leaderships_over_when_it_ends_and_comes_back(world: World) -> None:
    ours_hands_its_leaderships_over(world)


def test_a_killed_broker_of_ours_catches_up(world: World) -> None:
    a_killed_broker_of_ours_catches_up(world)


@pytest.mark.slow
def test_a_broker_of_ours_that_starts_within_its_old_session_does_not_wait_for_its_end(world: World) -> None:
    topic = world.create("restarted", {0: [OURS, 1, 2]})
    world.brokers[OURS].stop(kill=True)
    world.brokers[OURS].start()
    assert "another process with broker.id=3 is registered" not in world.cluster.ours[OURS].log
    eventually(lambda: world.is_whole(topic), 30)
    world.prefer(topic)
    world.is_led_by(topic, [OURS])


@pytest.mark.slow
def test_a_topic_that_is_deleted_or_moved_away_leaves_no_log_with_us(world: World) -> None:
    a_topic_that_goes_leaves_no_log(world)


@pytest.mark.slow
def test_settings_reach_our_logs_through_their_notifications(world: World) -> None:
    settings_reach_our_logs(world)


@pytest.mark.slow
def test_settings_that_are_written_through_ours_hold_on_all_brokers(world: World) -> None:
    topic = world.create("set-here", {0: [1, 2, OURS]})
    wanted = {
        ConfigResource(ConfigResourceType.TOPIC, topic): ("retention.ms", "1234567"),
        ConfigResource(ConfigResourceType.BROKER, ""): ("log.cleaner.threads", "2"),
        ConfigResource(ConfigResourceType.BROKER, str(OURS)): ("log.flush.interval.messages", "765"),
    }
    with AdminClient({"bootstrap.servers": world.brokers[OURS].bootstrap_servers, **SOON}) as admin:
        admin.incremental_alter_configs({one: [AlterConfigOp(*change)] for one, change in wanted.items()})
    for resource, (name, value) in wanted.items():
        asked = [OURS] if resource.name == str(OURS) else [1, 2, OURS]
        for number in asked:
            with AdminClient({"bootstrap.servers": world.brokers[number].bootstrap_servers, **SOON}) as admin:
                eventually(lambda: admin.describe_configs([resource])[resource][name].value == value)  # noqa: B023


@pytest.mark.slow
def test_brokers_of_both_kinds_die_in_turn_and_nothing_is_lost(world: World) -> None:
    brokers_of_both_kinds_die_in_turn(world)


@pytest.mark.slow
def test_a_paused_broker_of_ours_leaves_the_isr_and_its_old_leadership_harms_nothing(world: World) -> None:
    a_paused_broker_of_ours_harms_nothing(world)


@pytest.mark.slow
def test_transactions_are_whole_while_brokers_of_both_kinds_die(world: World) -> None:
    transactions_are_whole_while_brokers_die(world)


@pytest.mark.slow
def test_the_next_controller_is_followed_when_one_is_killed(world: World) -> None:
    first = world.admin.describe_cluster().controller
    assert first is not None
    world.brokers[first.id].stop(kill=True)

    def is_replaced() -> bool:
        found = world.admin.describe_cluster().controller
        return found is not None and found.id not in (-1, first.id)

    eventually(is_replaced, 30)
    one, other = (number for number in world.brokers if number != first.id)
    topic = world.create("under-the-next", {0: [one, other], 1: [other, one]})
    world.is_led_by(topic, [one, other])
    world.brokers[first.id].start()
    eventually(lambda: world.is_whole(topic), 60)


@pytest.mark.slow
def test_a_topic_deleted_while_ours_is_away_is_gone_here_when_it_is_back(world: World) -> None:
    topic = world.create("deleted-meanwhile", {0: [1, OURS], 1: [OURS, 2]})
    data = world.cluster.data_of(OURS)
    world.brokers[OURS].stop()
    world.admin.delete_topics([topic])
    world.brokers[OURS].start()
    eventually(lambda: not list(data.glob(f"{topic}-*[01]")), 30)
    world.create(topic, {0: [OURS, 1]})
    world.is_led_by(topic, [OURS])


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.5, 6.0])
def test_records_flow_on_when_zookeeper_was_away_for_less_or_more_than_a_session(
    world: World, cluster: ZooKeeperCluster, seconds: float
) -> None:
    world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(3)})
    with Traffic(world.settings, **{"group.id": f"away-{seconds}"}) as traffic:
        traffic.wait_until_read(50, 30)
        cluster.zookeeper.stop()
        time.sleep(seconds)
        cluster.zookeeper.start()
        traffic.wait_until_read(traffic.sent + 50, 60)
        eventually(lambda: world.is_whole(TOPIC), 60)
        topic = world.create(f"after-{int(seconds)}", {0: [OURS, 1, 2]})
        world.is_led_by(topic, [OURS])
        world.brokers[OURS].stop(kill=True)
        world.brokers[OURS].start()
        eventually(lambda: world.is_whole(TOPIC) and world.is_whole(topic), 60)
        traffic.wait_until_read(traffic.sent, 60)
    world.check_replicas_are_equal(TOPIC)


@pytest.mark.slow
def test_a_data_directory_goes_from_java_to_ours_and_back(world: World, cluster: ZooKeeperCluster) -> None:
    world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)})
    controller = world.admin.describe_cluster().controller
    assert controller is not None
    number = 2 if controller.id == 1 else 1
    java = cluster.theirs[number]
    with Traffic(world.settings, **{"group.id": "rolling"}) as traffic:
        traffic.wait_until_read(100, 30)
        with cluster.replaced_by_ours(number):
            eventually(lambda: world.is_whole(TOPIC), 90)
            world.prefer(TOPIC)
            eventually(lambda: world.leaders(TOPIC) == [1, 2, 3, 1, 2, 3], 30)
            traffic.wait_until_read(traffic.sent + 100, 60)
        java.start()
        eventually(lambda: world.is_whole(TOPIC), 90)
        traffic.wait_until_read(traffic.sent, 60)
    world.prefer(TOPIC)
    world.check_replicas_are_equal(TOPIC)


@pytest.fixture
def other_mixture() -> Iterator[World]:
    """One broker of theirs, which is controller first, and two of ours."""
    missing = zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    with ZooKeeperCluster(theirs=1, ours=2) as cluster, world_of(cluster) as world:
        yield world


@pytest.mark.slow
def test_two_of_ours_die_in_turn_under_a_java_controller(other_mixture: World) -> None:
    world = other_mixture
    world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(6)})
    with Traffic(world.settings, **{"group.id": "two-of-ours"}) as traffic:
        for turn, number in enumerate((2, 3, 2, 3)):
            traffic.wait_until_read(traffic.sent + 50, 60)
            world.brokers[number].stop(kill=turn % 2 == 0)
            traffic.wait_until_read(traffic.sent + 50, 60)
            world.brokers[number].start()
            eventually(lambda: world.is_whole(TOPIC), 60)
        traffic.wait_until_read(traffic.sent, 60)
    world.prefer(TOPIC)
    world.check_replicas_are_equal(TOPIC)
