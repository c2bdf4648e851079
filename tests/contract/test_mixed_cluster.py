"""Our broker as a member of an Apache Kafka 4.3 cluster: two of theirs and one of ours, under their controller.

The short form is part of the ordinary run where Java is there; the long one, with kills in rotation, is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import AdminClient
from tests.contract.mixed_world import (
    SOON,
    World,
    a_killed_broker_of_ours_catches_up,
    a_paused_broker_of_ours_harms_nothing,
    a_topic_that_goes_leaves_no_log,
    brokers_of_both_kinds_die_in_turn,
    controllers_fail_in_turn,
    groups_and_transactions_move_with_their_leaders,
    ours_hands_its_leaderships_over,
    records_go_through_every_leader,
    settings_reach_our_logs,
    transactions_are_whole_while_brokers_die,
    world_of,
)
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with MixedCluster() as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def test_one_cluster_is_seen_through_every_broker(world: World) -> None:
    for broker in world.brokers.values():
        with AdminClient({"bootstrap.servers": broker.bootstrap_servers, **SOON}) as admin:
            found = admin.describe_cluster()
            assert {node.id: node.rack for node in found.nodes} == {1: "rack-1", 2: "rack-2", 3: "rack-3"}
            assert found.cluster_id == world.admin.describe_cluster().cluster_id
            quorum = admin.describe_metadata_quorum()
            assert quorum.leader_id in world.cluster.controllers
            assert {observer.replica_id for observer in quorum.observers} == {1, 2, 3}


def test_records_go_through_every_leader_to_every_replica(world: World) -> None:
    records_go_through_every_leader(world)


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.slow)])
def test_groups_and_transactions_live_on_whichever_broker_leads_them(world: World, protocol: str) -> None:
    groups_and_transactions_move_with_their_leaders(world, protocol)


@pytest.mark.slow
def test_our_broker_hands_its_leaderships_over_when_it_ends_and_comes_back(world: World) -> None:
    ours_hands_its_leaderships_over(world)


def test_a_killed_broker_of_ours_catches_up(world: World) -> None:
    a_killed_broker_of_ours_catches_up(world)


def test_a_topic_that_is_deleted_or_moved_away_leaves_no_log_with_us(world: World) -> None:
    a_topic_that_goes_leaves_no_log(world)


def test_settings_reach_our_logs_through_the_metadata(world: World) -> None:
    settings_reach_our_logs(world)


@pytest.mark.slow
def test_brokers_of_both_kinds_die_in_turn_and_nothing_is_lost(world: World) -> None:
    brokers_of_both_kinds_die_in_turn(world)


@pytest.mark.slow
def test_a_paused_broker_of_ours_leaves_the_isr_and_its_old_leadership_harms_nothing(world: World) -> None:
    a_paused_broker_of_ours_harms_nothing(world)


@pytest.fixture
def other_mixture() -> Iterator[World]:
    """One broker of theirs and two of ours, under three controllers."""
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with (
        MixedCluster(theirs=1, ours=2, controllers=3) as cluster,
        AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin,
    ):
        yield World(cluster, admin)


@pytest.mark.slow
def test_controllers_fail_in_turn_and_brokers_of_both_kinds_follow_the_next(other_mixture: World) -> None:
    controllers_fail_in_turn(other_mixture)


@pytest.mark.slow
def test_transactions_are_whole_while_brokers_of_both_kinds_die(world: World) -> None:
    transactions_are_whole_while_brokers_die(world)
