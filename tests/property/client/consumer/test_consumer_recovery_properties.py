"""Whatever the coordinator and the leader answer for a while, a member recovers and loses no record."""

from __future__ import annotations

from collections import deque

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from barnabas import TopicPartition
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

PASSING = {
    ApiKey.FIND_COORDINATOR: [14, 15],
    ApiKey.JOIN_GROUP: [14, 15, 16, 25, 27],
    ApiKey.SYNC_GROUP: [14, 15, 16, 22, 25, 27],
    ApiKey.HEARTBEAT: [15, 16, 22, 25, 27],
    ApiKey.OFFSET_COMMIT: [14, 15, 16, 22, 25, 27],
    ApiKey.OFFSET_FETCH: [14, 16, 88],
    ApiKey.LIST_OFFSETS: [5, 6, 74, 78],
    ApiKey.FETCH: [3, 5, 6, 74, 78],
}
FAULTS = st.fixed_dictionaries(
    {key: st.lists(st.sampled_from([0, *codes]), max_size=5) for key, codes in PASSING.items()}
)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    faults=FAULTS,
    strategy=st.sampled_from(["range", "cooperative-sticky"]),
    static=st.booleans(),
    breaks=st.lists(st.floats(0.1, 20.0), max_size=4),
)
def test_recovers_from_failures_that_pass(
    faults: dict[ApiKey, list[int]], strategy: str, static: bool, breaks: list[float]
) -> None:
    cluster = ScriptedCluster()
    cluster.errors = {key: deque(codes) for key, codes in faults.items()}
    consumer = cluster.consumer(
        group_id="g",
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1_000,
        partition_assignment_strategy=strategy,
        max_poll_records=2,
        **({"group_instance_id": "i"} if static else {}),
    )
    consumer.subscribe(["t"])
    for delay in breaks:
        cluster.at(delay, lambda: cluster.group_selector and cluster.group_selector.break_connection(0))
        cluster.at(delay + 0.5, lambda: cluster.app_selector and cluster.app_selector.break_connection(0))
    for number in range(20):
        cluster.at(number, lambda number=number: cluster.append("t", number % 2, b"%d" % number))
    seen: dict[tuple[int, int], bytes] = {}
    while cluster.now < 1_070.0:
        for record in consumer.poll(1.0):
            seen[record.partition, record.offset] = record.value

    assert consumer.assignment() == {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert seen == {(number % 2, number // 2): b"%d" % number for number in range(20)}
    consumer.close()
    assert {p.partition: found[0] for p, found in cluster.committed.items()} == {0: 10, 1: 10}
    assert len(cluster.requests) < 2_500
