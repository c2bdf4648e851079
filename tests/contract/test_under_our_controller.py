"""Brokers of Apache Kafka 4.3.1 and of ours under three controllers of ours, all of them processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.mixed_world import (
    World,
    a_killed_broker_of_ours_catches_up,
    a_topic_that_goes_leaves_no_log,
    brokers_of_both_kinds_die_in_turn,
    controllers_fail_in_turn,
    groups_and_transactions_move_with_their_leaders,
    ours_hands_its_leaderships_over,
    records_go_through_every_leader,
    settings_reach_our_logs,
    world_of,
)
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with MixedCluster(controllers=0, our_controllers=3) as running:
        yield running
        for node in running.controllers.values():
            assert isinstance(node, BarnabasBroker)
            assert "ERROR" not in node.log


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def test_records_go_through_every_leader_to_every_replica(world: World) -> None:
    records_go_through_every_leader(world)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_and_transactions_live_on_whichever_broker_leads_them(world: World, protocol: str) -> None:
    groups_and_transactions_move_with_their_leaders(world, protocol)


def test_a_broker_hands_its_leaderships_over_when_it_ends_and_comes_back(world: World) -> None:
    ours_hands_its_leaderships_over(world)


def test_a_killed_broker_catches_up(world: World) -> None:
    a_killed_broker_of_ours_catches_up(world)


def test_a_topic_that_is_deleted_or_moved_away_leaves_no_log(world: World) -> None:
    a_topic_that_goes_leaves_no_log(world)


def test_settings_reach_logs_through_the_metadata(world: World) -> None:
    settings_reach_our_logs(world)


def test_brokers_of_both_kinds_die_in_turn_and_nothing_is_lost(world: World) -> None:
    brokers_of_both_kinds_die_in_turn(world)


def test_controllers_of_ours_fail_in_turn_and_brokers_of_both_kinds_follow_the_next(world: World) -> None:
    controllers_fail_in_turn(world)
