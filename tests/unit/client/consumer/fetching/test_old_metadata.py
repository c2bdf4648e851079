"""A position that follows a record of a later leader epoch than the metadata know: they are old, and not the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import Consumer, OffsetAndMetadata, TopicPartition
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

T0 = TopicPartition("t", 0)


def subscribed(cluster: ScriptedCluster) -> Consumer:
    cluster.committed[T0] = (3, 2, "")
    consumer = cluster.consumer(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.subscribe(["t"])
    return consumer


def assigned(cluster: ScriptedCluster) -> Consumer:
    cluster.committed[T0] = (3, 2, "")
    consumer = cluster.consumer(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer.assign([T0])
    return consumer


def sought(cluster: ScriptedCluster) -> Consumer:
    consumer = cluster.consumer(auto_offset_reset="earliest")
    consumer.assign([T0])
    consumer.poll(0)
    consumer.seek(T0, OffsetAndMetadata(3, "", 2))
    return consumer


def isolated_leader(cluster: ScriptedCluster) -> None:
    """What a leader tells that the others have replaced: its own epoch, and what it has of the log."""
    cluster.topics = {"t": 1}
    cluster.leader_epoch = 1
    cluster.append("t", 0, b"a", epoch=1)
    cluster.epoch_ends[T0] = (-1, -1)


def next_leader(cluster: ScriptedCluster) -> None:
    cluster.leader_epoch = 2
    cluster.append("t", 0, b"b", b"c", epoch=2)
    cluster.append("t", 0, b"d", epoch=2)
    cluster.epoch_ends[T0] = (2, 4)


@pytest.mark.parametrize("reader", [subscribed, assigned, sought])
def test_the_next_leader_is_waited_for(cluster: ScriptedCluster, reader: Callable[[ScriptedCluster], Consumer]) -> None:
    isolated_leader(cluster)
    consumer = reader(cluster)
    cluster.at(5.0, lambda: next_leader(cluster))

    found = [record.value for _ in range(20) for record in consumer.poll(1.0)]

    assert found == [b"d"], "what was read before does not come again"
    fetched = [asked.fetch_offset for request in cluster.asked(ApiKey.FETCH) for asked in request.topics[0].partitions]
    assert set(fetched) <= ({0, 3, 4} if reader is sought else {3, 4})
    asked = cluster.asked(ApiKey.OFFSET_FOR_LEADER_EPOCH)[0].topics[0].partitions[0]
    assert (asked.leader_epoch, asked.current_leader_epoch) == (2, 2), "nobody else can confirm it"


@pytest.mark.parametrize("reader", [subscribed, assigned, sought])
def test_an_epoch_that_no_leader_has_within_a_minute_is_of_another_log(
    cluster: ScriptedCluster, reader: Callable[[ScriptedCluster], Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    isolated_leader(cluster)
    consumer = reader(cluster)
    consumer.poll(50.0)
    assert "follows leader epoch 2" not in caplog.text

    found = [record.value for _ in range(20) for record in consumer.poll(1.0)]

    assert found == [b"a"], "auto.offset.reset says where to begin"
    assert "t-0: the position, 3, follows leader epoch 2, and for 60 s no broker has known one after 1" in caplog.text
