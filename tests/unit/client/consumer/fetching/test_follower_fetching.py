"""Reading from the replica that the leader recommends (KIP-392), on a scripted cluster of two nodes."""

from __future__ import annotations

from collections import deque

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import FOLLOWER, NODE, ScriptedCluster

T0 = TopicPartition("t", 0)
LEADER_ID, FOLLOWER_ID = NODE[0], FOLLOWER[0]


@pytest.fixture
def two(cluster: ScriptedCluster) -> ScriptedCluster:
    cluster.nodes = [NODE, FOLLOWER]
    cluster.preferred_replica = FOLLOWER_ID
    cluster.append("t", 0, b"a")
    return cluster


def reader(cluster: ScriptedCluster, **settings: object) -> Consumer:
    consumer = cluster.consumer(**{"auto_offset_reset": "earliest", "client_rack": "here", **settings})
    consumer.assign([T0])
    return consumer


def read(consumer: Consumer, count: int = 10) -> list[bytes]:
    return [record.value for _ in range(count) for record in consumer.poll(0.2)]


def test_a_reader_with_a_rack_goes_where_the_leader_sends_it(two: ScriptedCluster) -> None:
    consumer = reader(two)

    assert read(consumer) == [b"a"]
    assert two.fetched_from[0] == LEADER_ID
    assert set(two.fetched_from[1:]) == {FOLLOWER_ID}
    assert two.asked(ApiKey.FETCH)[0].rack_id == "here"


def test_after_metadata_max_age_the_leader_is_asked_again(two: ScriptedCluster) -> None:
    consumer = reader(two, metadata_max_age_ms=3000)
    read(consumer)
    two.preferred_replica = -1
    read(consumer, 20)

    assert two.fetched_from[-1] == LEADER_ID
    assert two.fetched_from.count(LEADER_ID) >= 2


def test_an_offset_that_the_follower_does_not_have_is_asked_of_the_leader_and_not_reset(two: ScriptedCluster) -> None:
    consumer = reader(two)
    read(consumer, 2)
    two.preferred_replica = -1
    two.errors[ApiKey.FETCH] = deque([1])
    two.append("t", 0, b"b")

    assert read(consumer) == [b"b"]
    assert two.fetched_from[-1] == LEADER_ID
    assert len(two.asked(ApiKey.LIST_OFFSETS)) == 1


def test_a_follower_that_is_gone_is_left_for_the_leader(two: ScriptedCluster) -> None:
    consumer = reader(two)
    read(consumer, 2)
    two.preferred_replica = -1
    assert two.app_selector is not None
    two.app_selector.refusing.add(FOLLOWER[2])
    two.app_selector.break_connection(FOLLOWER_ID)
    two.append("t", 0, b"b")

    assert read(consumer) == [b"b"]
    assert two.fetched_from[-1] == LEADER_ID
