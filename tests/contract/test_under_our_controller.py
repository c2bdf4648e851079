"""Brokers of Apache Kafka 4.3.1 and of ours under a controller of ours, which is a voter of our Raft."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

import pytest

from barnabas import AdminClient
from tests.contract.mixed_world import (
    World,
    a_killed_broker_of_ours_catches_up,
    a_topic_that_goes_leaves_no_log,
    brokers_of_both_kinds_die_in_turn,
    groups_and_transactions_move_with_their_leaders,
    ours_hands_its_leaderships_over,
    records_go_through_every_leader,
    settings_reach_our_logs,
    world_of,
)
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.our_controller import NODE_ID, OurController

pytestmark = pytest.mark.slow

_CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMQ"
_LEVELS = {"metadata.version": 30, "group.version": 1, "transaction.version": 2}


class ClusterUnderOurs(MixedCluster):
    """Brokers of both kinds; the one controller is ours."""

    def __init__(self, theirs: int = 2, ours: int = 1) -> None:
        super().__init__(theirs, ours)
        settings = {"default.replication.factor": "3", "min.insync.replicas": "2"}
        self.controller = OurController(_CLUSTER_ID, _LEVELS, settings)
        self.controllers = {}
        for broker in self.brokers.values():
            broker.settings["controller.quorum.voters"] = f"{NODE_ID}@127.0.0.1:{self.controller.port}"

    def __enter__(self) -> Self:
        self.controller.__enter__()
        with ThreadPoolExecutor(max(1, len(self.theirs))) as threads:
            list(threads.map(ApacheKafka.start, self.theirs.values()))
        for broker in self.ours.values():
            broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in self.brokers.values():
            node.stop(kill=True)
            shutil.rmtree(node.folder, ignore_errors=True)
        self.controller.__exit__(kind, error, trace)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterUnderOurs]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with ClusterUnderOurs() as running:
        yield running
        assert not running.controller.reports


@pytest.fixture
def world(cluster: ClusterUnderOurs) -> Iterator[World]:
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


def test_three_brokers_of_ours_under_our_controller() -> None:
    with (
        ClusterUnderOurs(theirs=0, ours=3) as cluster,
        AdminClient({"bootstrap.servers": cluster.bootstrap_servers}) as admin,
    ):
        assert {node.id for node in admin.describe_cluster().nodes} == {1, 2, 3}
