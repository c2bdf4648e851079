"""Three brokers of ours under one and under three controllers of Apache Kafka 4.3.1, all of them processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.mixed_world import (
    World,
    a_paused_broker_of_ours_harms_nothing,
    brokers_of_both_kinds_die_in_turn,
    controllers_fail_in_turn,
    groups_and_transactions_move_with_their_leaders,
    records_go_through_every_leader,
    transactions_are_whole_while_brokers_die,
    world_of,
)
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not())),
    pytest.mark.timeout(300),
]


@pytest.fixture(scope="module", params=[1, 3], ids=["one controller", "three controllers"])
def cluster(request: pytest.FixtureRequest) -> Iterator[MixedCluster]:
    with MixedCluster(theirs=0, ours=3, controllers=request.param) as running:
        yield running
        for node in running.ours.values():
            assert "please report this" not in node.log


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def test_records_go_through_every_leader_to_every_replica(world: World) -> None:
    records_go_through_every_leader(world)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_and_transactions_live_on_whichever_broker_leads_them(world: World, protocol: str) -> None:
    groups_and_transactions_move_with_their_leaders(world, protocol)


def test_brokers_die_in_turn_and_nothing_is_lost(world: World) -> None:
    brokers_of_both_kinds_die_in_turn(world)


def test_a_paused_broker_leaves_the_isr_and_its_old_leadership_harms_nothing(world: World) -> None:
    a_paused_broker_of_ours_harms_nothing(world)


def test_transactions_are_whole_while_brokers_die(world: World) -> None:
    transactions_are_whole_while_brokers_die(world)


def test_controllers_fail_in_turn_and_the_brokers_follow_the_next(world: World) -> None:
    controllers_fail_in_turn(world)
