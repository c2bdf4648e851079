"""What each broker is asked for follows every change, at a cost that does not grow with the assignment."""

from __future__ import annotations

import gc
import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.auto_offset_reset_strategy import LATEST
from barnabas.client.consumer.fetching.fetch_plan import FetchPlan
from barnabas.client.consumer.fetching.fetch_session_handler import FetchPartitionData, FetchSessionHandler
from barnabas.client.consumer.offsets import FetchPosition
from barnabas.protocol.messages.fetch_response import FetchResponse
from tests.support.scripted_cluster import NODE, ScriptedCluster, metadata_response
from tests.unit.client.consumer.fetching.test_fetcher_send_fetches import two_leaders

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
CHANGES = ("pause", "resume", "seek", "reset", "metadata", "epoch", "replica", "back off", "fetch", "assign")


def reading(cluster: ScriptedCluster, partitions: int) -> Consumer:
    """A consumer at offset 7 of every partition, all of them on one node that granted a fetch session."""
    consumer = cluster.consumer()
    assigned = [TopicPartition("t", number) for number in range(partitions)]
    consumer.assign(assigned)
    for partition in assigned:
        consumer.seek(partition, 7)
    consumer._parts.metadata.update(metadata_response([NODE], {"t": partitions}), cluster.now)
    ((_, request, _),) = consumer._parts.fetcher.prepare_fetch_requests(cluster.now)
    assert len(request.to_send) == partitions
    consumer._parts.fetcher._session(NODE[0]).handle_response(FetchResponse(session_id=7))
    return consumer


def calls_of_next_request(consumer: Consumer, now: float) -> tuple[int, Any]:
    """The next request, and how many functions are called to make it."""
    count = 0

    def called(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(called)
    try:
        ((_, request, _),) = consumer._parts.fetcher.prepare_fetch_requests(now)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count, request


def test_the_work_for_a_fetch_does_not_grow_with_the_partitions_that_are_assigned() -> None:
    counts = []
    for partitions in (10, 1000):
        cluster = ScriptedCluster()
        consumer = reading(cluster, partitions)
        consumer.seek(TopicPartition("t", 3), 9)
        consumer.pause([TopicPartition("t", 5)])
        count, request = calls_of_next_request(consumer, cluster.now)
        assert list(request.to_send) == [TopicPartition("t", 3)]
        assert [partition for partition, _ in request.to_forget] == [TopicPartition("t", 5)]
        counts.append(count)

    # A call for every partition would be a thousand more.
    assert counts[1] < counts[0] + 100


def apply(consumer: Consumer, change: str, partition: TopicPartition, offset: int, now: float) -> None:
    """Change what is to be fetched."""
    parts = consumer._parts
    if change == "pause":
        consumer.pause([partition])
    elif change == "resume":
        consumer.resume([partition])
    elif change == "seek":
        parts.subscriptions.seek_validated(partition, FetchPosition(offset))
    elif change == "reset":
        parts.subscriptions.request_offset_reset(partition, LATEST)
    elif change == "metadata":
        parts.metadata.update(two_leaders(), now)
    elif change == "epoch":
        parts.metadata.update_last_seen_epoch_if_newer(partition, offset)
    elif change == "replica":
        parts.subscriptions.preferred_read_replicas.update(partition, offset % 3, now + offset)
    elif change == "back off":
        parts.fetcher._plan.back_off(partition, now + offset)


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(PARTITIONS), st.integers(0, 9)), max_size=30))
def test_after_any_changes_brokers_are_asked_as_by_a_plan_made_anew(
    steps: list[tuple[str, TopicPartition, int]],
) -> None:
    cluster = ScriptedCluster()
    consumer = cluster.consumer()
    consumer.assign(PARTITIONS)
    parts = consumer._parts
    parts.metadata.update(two_leaders(), cluster.now)
    plan, now = parts.fetcher._plan, cluster.now
    sessions: dict[int, FetchSessionHandler] = {}
    known: dict[int, dict[TopicPartition, FetchPartitionData]] = {}

    for change, partition, offset in steps:
        now += 1
        if change == "assign":
            consumer.assign(PARTITIONS[offset % 3 :])
        elif change != "fetch" and consumer._parts.subscriptions.is_assigned(partition):
            apply(consumer, change, partition, offset, now)
        parts.subscriptions.preferred_read_replicas.expire(now)
        plan.update(parts.metadata.fetch(), now)

        anew = FetchPlan(parts.metadata, parts.subscriptions, parts.fetcher._config.max_partition_bytes)
        for waiting, until in plan._retry_at.items():
            anew.back_off(waiting, until)
        anew.update(parts.metadata.fetch(), now)
        assert {n: one.partitions for n, one in plan.nodes.items()} == {
            n: one.partitions for n, one in anew.nodes.items()
        }
        assert plan.leaderless == anew.leaderless
        for node_id, node_plan in plan.nodes.items():
            if change == "fetch":
                session = sessions.setdefault(node_id, FetchSessionHandler(node_id))
                request = node_plan.request(session)
                there = {} if request.is_full else known[node_id]
                for gone, _ in request.to_forget:
                    del there[gone]
                there.update(request.to_send)
                known[node_id] = there
                session.handle_response(FetchResponse(session_id=7))
                assert there == node_plan.partitions
                asked = {name: (data.fetch_offset, parts.subscriptions.seek_id(name)) for name, data in there.items()}
                assert node_plan.asked == asked
