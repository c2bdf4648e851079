"""Apache Kafka's tools on brokers of both softwares, reached through one of ours, under a controller of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas import Producer
from barnabas.broker.kraft.formatter import default_levels
from barnabas.broker.metadata.metadata_version import NAMES
from tests.contract.mixed_world import OURS, World, world_of
from tests.contract.traffic import TOPIC, Traffic
from tests.contract.waiting import eventually
from tests.interop.test_kafkas_own_tools import table
from tests.peers import apache_kafka
from tests.peers.java_tools import JavaTools
from tests.peers.mixed_cluster import CLUSTER_ID, MixedCluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not())),
    pytest.mark.timeout(300),
]

Run = Callable[..., str]


_CONTROLLERS = {"their controller": (1, 0), "our controller": (0, 1)}


@pytest.fixture(scope="module", params=_CONTROLLERS)
def cluster(request: pytest.FixtureRequest) -> Iterator[MixedCluster]:
    theirs, ours = _CONTROLLERS[request.param]
    with MixedCluster(theirs=1, ours=2, controllers=theirs, our_controllers=ours) as running:
        yield running


@pytest.fixture
def world(cluster: MixedCluster) -> Iterator[World]:
    with world_of(cluster) as world:
        yield world


def _runner(java: JavaTools, world: World) -> Run:
    """Runs a tool that must succeed, by way of one of our brokers; what it prints."""

    def call(tool: str, *arguments: str) -> str:
        server = ("--bootstrap-server", world.brokers[OURS].bootstrap_servers)
        ordered = (*arguments, *server) if tool == "ClusterTool" else (*server, *arguments)
        done = java.run(f"org.apache.kafka.tools.{tool}", *ordered)
        assert done.code == 0, done.out[-2000:] + done.err[-2000:]
        return done.out

    return call


@pytest.fixture
def run(java: JavaTools, world: World) -> Run:
    return _runner(java, world)


def test_kafka_metadata_quorum(world: World, run: Run) -> None:
    (controller,) = world.cluster.controllers  # type: ignore[union-attr]
    status = run("MetadataQuorumCommand", "describe", "--status")
    found = dict(re.findall(r"^(\w+): +(.*)$", status, re.MULTILINE))
    assert (found["ClusterId"], found["LeaderId"]) == (CLUSTER_ID, str(controller))
    assert [voter["id"] for voter in json.loads(found["CurrentVoters"])] == [controller]
    assert {observer["id"] for observer in json.loads(found["CurrentObservers"])} == {1, 2, 3}

    def rows() -> list[dict[str, str]]:
        return table(run("MetadataQuorumCommand", "describe", "--replication"), "NodeId")

    assert {row["NodeId"]: row["Status"] for row in rows()} == {
        str(controller): "Leader", "1": "Observer", "2": "Observer", "3": "Observer",
    }  # fmt: skip
    eventually(lambda: all(int(row["Lag"]) <= 1 for row in rows()), 60)


def _finalized(run: Run) -> dict[str, int]:
    found = re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", run("FeatureCommand", "describe"))
    numbers = {name: level for level, name in NAMES.items()}
    levels = {name: numbers[level] if level in numbers else int(level) for name, level in found}
    return {name: level for name, level in levels.items() if level}


def _is_known_to_ours(world: World, levels: dict[str, int]) -> bool:
    found = world.admin.describe_features(node_id=OURS).finalized
    return {name: level.max_version for name, level in found.items()} == levels


def test_kafka_features_changes_a_level_back_and_forth(world: World, run: Run) -> None:
    for how, level in (("downgrade", 1), ("upgrade", 2)):
        run("FeatureCommand", how, "--feature", f"transaction.version={level}")
        eventually(lambda level=level: _finalized(run)["transaction.version"] == level)  # type: ignore[misc]
        eventually(lambda: _is_known_to_ours(world, _finalized(run)))


@pytest.mark.parametrize("controllers", _CONTROLLERS)
def test_kafka_features_takes_a_cluster_from_4_0_to_4_3_while_records_come(java: JavaTools, controllers: str) -> None:
    theirs, ours = _CONTROLLERS[controllers]
    old = ("--release-version", "4.0")
    cluster = MixedCluster(theirs=1, ours=2, controllers=theirs, our_controllers=ours, format_options=old)
    with cluster, world_of(cluster) as world:
        run = _runner(java, world)
        assert _finalized(run) == default_levels("4.0")
        world.create(TOPIC, {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(3)})
        with Traffic(world.settings, **{"group.id": "upgrade"}) as traffic:
            run("FeatureCommand", "upgrade", "--release-version", "4.3")
            eventually(lambda: _finalized(run) == default_levels("4.3"))
            eventually(lambda: _is_known_to_ours(world, default_levels("4.3")))
            traffic.wait_until_read(traffic.sent + 50)
            for number in (1, OURS):
                world.brokers[number].stop(kill=True)
                traffic.wait_until_read(traffic.sent + 50, 60)
                world.brokers[number].start()
                eventually(lambda: world.is_whole(TOPIC), 60)
        world.check_replicas_are_equal(TOPIC)


def test_kafka_reassign_partitions(world: World, run: Run, tmp_path: Path) -> None:
    topic = world.create("moved", {0: [1, 2], 1: [2, 1]})
    with Producer({**world.settings, "acks": "all"}) as producer:
        for number in range(80):
            producer.send(topic, bytes(100_000), partition=number % 2)
    topics, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}], "version": 1}))

    def reassign(*options: str) -> str:
        return run("reassign.ReassignPartitionsCommand", *options)

    def placed() -> dict[int, list[int]]:
        return {part.partition: [node.id for node in part.replicas] for part in world.partitions(topic)}

    made = reassign("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "2,3")
    plan.write_text(made.partition("Proposed partition reassignment configuration")[2].strip())
    wanted = {part["partition"]: part["replicas"] for part in json.loads(plan.read_text())["partitions"]}
    execute = ("--execute", "--reassignment-json-file", str(plan), "--throttle")
    # Too slow to end by itself: Apache Kafka's first fetch brings a megabyte all the same.
    assert "Successfully started" in reassign(*execute, "1000")
    assert f"{topic}-" in reassign("--list")
    assert "still in progress" in reassign("--verify", "--reassignment-json-file", str(plan))
    assert "Successfully cancelled" in reassign("--cancel", "--reassignment-json-file", str(plan))
    eventually(lambda: [set(replicas) for replicas in placed().values()] == [{1, 2}, {1, 2}])

    assert "Successfully started" in reassign(*execute, "100000000")
    eventually(lambda: "in progress" not in reassign("--verify", "--reassignment-json-file", str(plan)), 60)
    assert placed() == wanted
    assert "No partition reassignments found" in reassign("--list")
    world.check_replicas_are_equal(topic)


def test_kafka_leader_election(world: World, run: Run) -> None:
    topic = world.create("led", {0: [OURS, 1]})
    world.brokers[OURS].stop()
    eventually(lambda: world.leaders(topic) == [1])
    world.brokers[OURS].start()
    eventually(lambda: world.is_whole(topic))
    one = ("--topic", topic, "--partition", "0")
    assert "Successfully completed" in run("LeaderElectionCommand", "--election-type", "preferred", *one)
    eventually(lambda: world.leaders(topic) == [OURS])


def test_kafka_cluster_forgets_a_broker_that_is_gone_and_takes_it_again(world: World, run: Run) -> None:
    def brokers() -> set[str]:
        shown = run("ClusterTool", "list-endpoints", "--include-fenced-brokers")
        return {row["ID"] for row in table(shown, "ID")}

    assert CLUSTER_ID in run("ClusterTool", "cluster-id")
    assert brokers() == {"1", "2", "3"}
    world.brokers[2].stop()
    assert brokers() == {"1", "2", "3"}
    assert "no longer registered" in run("ClusterTool", "unregister", "--id", "2")
    eventually(lambda: brokers() == {"1", "3"})
    world.brokers[2].start()
    eventually(lambda: brokers() == {"1", "2", "3"})
    world.create("on-the-one-that-came-back", {0: [2, 3]})
