"""Our broker with two data directories in an Apache Kafka 4.3 cluster whose consumers read in their own racks.

Asked for (`slow`): it starts a cluster of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, Producer
from barnabas.admin import TopicPartitionReplica
from barnabas.broker.replication.replica_selector import RACK_AWARE
from barnabas.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from tests.contract.mixed_world import OURS, SOON, World
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster
from tests.support.core_broker import SocketClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PARTITIONS, RECORDS = 4, 400


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    cluster = MixedCluster(settings={"replica.selector.class": RACK_AWARE})
    folder = cluster.ours[OURS].folder
    cluster.ours[OURS].settings["log.dirs"] = f"{folder}/one,{folder}/two"
    with cluster, AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **SOON}) as admin:
        yield World(cluster, admin)


def write(world: World, topic: str) -> None:
    with Producer({**world.settings, "acks": "all"}) as producer:
        for future in [producer.send(topic, b"%d" % n, partition=n % PARTITIONS) for n in range(RECORDS)]:
            future.result(30)


def read(world: World, topic: str, settings: dict[str, Any]) -> None:
    found: set[bytes | None] = set()
    with Consumer(topic, {**world.settings, "auto.offset.reset": "earliest", **settings}) as consumer:

        def has_all() -> bool:
            found.update(record.value for record in consumer.poll(0.2))
            return len(found) == RECORDS

        eventually(has_all)


def places(world: World, topic: str) -> dict[str, set[int]]:
    """The last part of a directory's path → the partitions that lie there with our broker."""
    described = world.admin.describe_log_dirs([OURS])[OURS]
    return {
        path.rpartition("/")[2]: {
            name.partition
            for name, found in directory.replica_infos.items()
            if name.topic == topic and not found.is_future
        }
        for path, directory in described.items()
    }


def preferred(world: World, leader: int, topic_id: bytes, rack: str) -> int:
    """Where a leader sends a consumer of a rack; -1: it serves the consumer itself."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    request = FetchRequest(
        max_wait_ms=100, max_bytes=1000, rack_id=rack, topics=[FetchTopic(topic_id=topic_id, partitions=[part])]
    )
    with SocketClient(world.brokers[leader].bootstrap_servers) as client:
        found: int = client.request(request, 13).responses[0].partitions[0].preferred_read_replica
        return found


def test_logs_move_between_directories_under_load_and_a_lost_one_costs_only_what_lies_there(world: World) -> None:
    topic = world.create("in-two", {n: [OURS, 1, 2] for n in range(PARTITIONS)})
    write(world, topic)
    before = places(world, topic)
    assert {name: len(found) for name, found in before.items()} == {"one": 2, "two": 2}

    moved = min(before["one"])
    folder = world.cluster.ours[OURS].folder
    world.admin.alter_replica_log_dirs({TopicPartitionReplica(topic, moved, OURS): f"{folder}/two"})
    write(world, topic)
    eventually(lambda: places(world, topic)["two"] == before["two"] | {moved})
    world.prefer(topic)
    write(world, topic)
    read(world, topic, {"group.id": "moved"})

    ours, lost = world.cluster.ours[OURS], before["two"] | {moved}
    ours.stop()
    (folder / "two").rename(folder / "away")
    (folder / "two").write_text("no directory")
    ours.start()

    def only_what_is_there_is_in_sync() -> bool:
        parts = world.partitions(topic)
        return len(parts) == PARTITIONS and all(
            (OURS in {node.id for node in part.in_sync_replicas}) == (part.partition not in lost) for part in parts
        )

    eventually(only_what_is_there_is_in_sync, 60)
    write(world, topic)
    assert places(world, topic)["one"] == before["one"] - {moved}

    ours.stop()
    (folder / "two").unlink()
    (folder / "away").rename(folder / "two")
    ours.start()
    eventually(lambda: world.is_whole(topic), 60)
    read(world, topic, {"group.id": "back"})


@pytest.mark.parametrize(("leader", "follower"), [(1, OURS), (OURS, 1)], ids=["theirs leads", "ours leads"])
def test_consumers_read_from_the_follower_in_their_rack(world: World, leader: int, follower: int) -> None:
    topic = world.create(f"led-by-{leader}", {n: [leader, follower] for n in range(PARTITIONS)})
    write(world, topic)
    topic_id = world.admin.describe_topics([topic])[topic].topic_id
    assert topic_id is not None
    eventually(lambda: preferred(world, leader, topic_id, f"rack-{follower}") == follower)
    assert preferred(world, leader, topic_id, f"rack-{leader}") == -1
    assert preferred(world, leader, topic_id, "") == -1
    read(world, topic, {"group.id": f"near-{follower}", "client.rack": f"rack-{follower}"})
