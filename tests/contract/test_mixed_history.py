"""One broker of Apache Kafka and two of ours: kills, pauses and cuts in turn, and no anomaly in what clients saw.

The history of transactional and plain writers and of readers is judged as Jepsen's queue workload is
(`tests/support/histories.py`), and the files of all replicas are compared.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from barnabas import AdminClient
from tests.contract.history_load import HistoryLoad
from tests.contract.mixed_world import SOON, World
from tests.contract.waiting import eventually
from tests.peers import apache_kafka, zookeeper
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(580)]

TOPIC, PARTITIONS = "history", 6
_INNER = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT,CONTROLLER:PLAINTEXT"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with MixedCluster(theirs=1, ours=2, settings=_INNER, inner="INNER", can_be_cut=True) as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin:
        yield World(cluster, admin)


def kill(cluster: MixedCluster, number: int) -> None:
    cluster.brokers[number].stop(kill=True)
    time.sleep(1)
    cluster.brokers[number].start()


def pause(cluster: MixedCluster, number: int) -> None:
    """Longer than its session lasts: it comes back and takes itself for the leader still."""
    pid = cluster.brokers[number].pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(5)
    os.kill(pid, signal.SIGCONT)


def cut(cluster: MixedCluster, number: int) -> None:
    """No other broker reaches it, so its followers leave the ISRs; it still reaches them, and the controller."""
    proxy = cluster.proxies[number]
    proxy.freeze()
    time.sleep(6)
    proxy.cut()
    proxy.heal()


@pytest.mark.parametrize("fault", [kill, pause, cut])
def test_a_history_under_faults_in_turn_has_no_anomaly(world: World, fault: object) -> None:
    cluster = world.cluster
    assert isinstance(cluster, MixedCluster)
    assert callable(fault)
    topic = world.create(
        f"{TOPIC}-{fault.__name__}", {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(PARTITIONS)}
    )
    with HistoryLoad(world.settings, topic, PARTITIONS) as load:
        for number in (2, 1, 3, 2):
            fault(cluster, number)
            eventually(lambda: world.is_whole(topic), 60)
            load.wait_for(50)
            world.prefer(topic)
    assert len(load.history) > 500
    world.check_replicas_are_equal(topic)


@pytest.fixture(params=["quorum", "zookeeper"])
def all_theirs(request: pytest.FixtureRequest) -> Iterator[World]:
    """Three brokers of Apache Kafka, 4.3 under a controller or 3.9 under ZooKeeper."""
    is_quorum = request.param == "quorum"
    missing = apache_kafka.why_not() if is_quorum else zookeeper.why_not()
    if missing:
        pytest.skip(missing)
    with (
        MixedCluster(theirs=3, ours=0) if is_quorum else zookeeper.ZooKeeperCluster(theirs=3, ours=0) as cluster,
        AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin,
    ):
        yield World(cluster, admin)


def test_a_whole_cluster_goes_from_java_to_barnabas_and_back_with_its_data(all_theirs: World) -> None:
    """One broker after the other, each with its data directory, while producers and consumers run."""
    world, cluster = all_theirs, all_theirs.cluster
    topic = world.create("rolling", {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(PARTITIONS)})
    with HistoryLoad(world.settings, topic, PARTITIONS) as load:
        for change in (cluster.replacements.replace, cluster.replacements.give_back):
            for number in (1, 2, 3):
                change(number)
                eventually(lambda: world.is_whole(topic), 90)
                world.prefer(topic)
                load.wait_for(50)
    world.check_replicas_are_equal(topic)
