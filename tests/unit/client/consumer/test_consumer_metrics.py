"""What a consumer counts, on a scripted cluster."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.errors import KafkaTimeoutError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

COORDINATOR_LOAD_IN_PROGRESS = 14
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member(cluster: ScriptedCluster, **settings: object) -> Consumer:
    return cluster.consumer("t", **{"group_id": "g", "auto_offset_reset": "earliest", **settings})


def test_records_bytes_fetches_and_lag_are_counted(cluster: ScriptedCluster) -> None:
    for _ in range(3):
        cluster.append("t", 0, b"a" * 100, b"b" * 100)
    consumer = member(cluster, max_poll_records=3)
    while not consumer.poll(1):
        pass

    found = consumer.metrics()
    assert found["records-consumed-total"] == 3
    assert found["records-lag-max"] == 3
    assert found["fetch-total"] >= 1
    assert 400 < found["fetch-size-max"] < 600
    while consumer.poll(1):
        pass
    assert consumer.metrics()["records-consumed-total"] == 6
    assert 600 < consumer.metrics()["bytes-consumed-total"] < 900
    assert 600 < consumer.metrics()["bytes-consumed-rate"] * 30 < 900, "a sample counts as full until there are two"
    assert consumer.metrics()["records-per-request-avg"] == 3, "4 and 2, whatever the polls gave"
    at_the_end = consumer.partition_metrics()[T0]
    assert (at_the_end["records-lag"], at_the_end["records-lag-max"]) == (0, 3)
    assert at_the_end["records-lag-avg"] == pytest.approx((3 + 2 + 0) / 3), "after each part that was handed out"
    cluster.sleep(61)
    assert math.isnan(consumer.metrics()["records-lag-max"]), "the window has moved on"
    assert consumer.metrics()["records-consumed-rate"] == 0
    assert consumer.metrics()["records-consumed-total"] == 6


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_heartbeats_commits_and_rebalances_are_counted(cluster: ScriptedCluster, protocol: str) -> None:
    consumer = member(cluster, group_protocol=protocol)
    consumer.poll(1)
    consumer.commit({T0: 1})
    consumer.poll(10)

    found = consumer.metrics()
    assert found["heartbeat-total"] >= 3
    assert found["commit-total"] == 1 + len(cluster.asked(ApiKey.OFFSET_COMMIT)) - 1
    assert found["rebalance-total"] == 1
    assert found["assigned-partitions"] == 2
    assert 0 <= found["last-rebalance-seconds-ago"] <= 12
    assert found["last-heartbeat-seconds-ago"] <= 5.1
    assert found["join-total"] == (2 if protocol == "classic" else 0)
    assert found["sync-total"] == (1 if protocol == "classic" else 0)


def test_a_rebalance_that_led_nowhere_counts_as_failed(cluster: ScriptedCluster) -> None:
    cluster.errors[ApiKey.JOIN_GROUP] = deque([30])
    consumer = member(cluster)
    with pytest.raises(Exception, match="authorized"):
        consumer.poll(1)

    assert consumer.metrics()["failed-rebalance-total"] == 1
    assert consumer.metrics()["rebalance-total"] == 0
    assert math.isnan(consumer.metrics()["rebalance-latency-avg"])


def test_time_between_polls_and_time_spent_in_them_is_told(cluster: ScriptedCluster) -> None:
    consumer = member(cluster)
    consumer.poll(2)
    cluster.sleep(6)
    consumer.poll(2)
    cluster.sleep(1)

    found = consumer.metrics()
    assert found["time-between-poll-max"] == pytest.approx(8000, abs=100)
    assert found["last-poll-seconds-ago"] == pytest.approx(3, abs=0.1)
    assert found["poll-idle-ratio-avg"] == pytest.approx(0.25, abs=0.02), "of the time from poll to poll"


def test_the_lag_of_a_partition_that_is_not_read_is_asked_for(cluster: ScriptedCluster) -> None:
    cluster.append("t", 1, b"a", b"b", b"c")
    consumer = cluster.consumer(enable_auto_commit=False)
    consumer.assign([T0, T1])
    consumer.seek(T0, 0)
    consumer.seek(T1, 1)
    consumer.pause(T1)
    consumer.poll(0.1)

    assert consumer.current_lag(T1) is None
    assert consumer.current_lag(T1) is None
    consumer.poll(1)
    assert consumer.current_lag(T1) == 2
    asked = [topic.partitions for request in cluster.asked(ApiKey.LIST_OFFSETS) for topic in request.topics]
    assert [[entry.partition_index for entry in partitions] for partitions in asked] == [[1]]


def test_lag_and_lead_are_told_by_partition_and_their_extremes_for_all(cluster: ScriptedCluster) -> None:
    cluster.log_start[T0] = 10
    cluster.append("t", 0, b"a", b"b", b"c")
    cluster.append("t", 1, b"a", b"b", b"c", b"d", b"e")
    consumer = cluster.consumer(auto_offset_reset="earliest", max_poll_records=2)
    consumer.assign([T0, T1])
    assert math.isnan(consumer.partition_metrics()[T0]["records-lag"])
    assert math.isnan(consumer.metrics()["records-lead-min"])
    consumer.pause(T1)
    while not consumer.poll(1):
        pass
    consumer.pause(T0)
    consumer.resume(T1)
    read_all(consumer, 4)

    found = consumer.partition_metrics()
    assert found[T0] == {
        "records-lag": 1,
        "records-lag-avg": 1,
        "records-lag-max": 1,
        "records-lead": 2,
        "records-lead-avg": 2,
        "records-lead-min": 2,
        "preferred-read-replica": -1,
    }
    of_t1 = {
        name: found[T1][f"records-{name}"] for name in ("lag", "lag-avg", "lag-max", "lead", "lead-avg", "lead-min")
    }
    assert of_t1 == {"lag": 1, "lag-avg": 3, "lag-max": 3, "lead": 4, "lead-avg": 2, "lead-min": 2}
    assert consumer.metrics()["records-lag-max"] == 3
    assert consumer.metrics()["records-lead-min"] == 2


def read_all(consumer: Consumer, count: int) -> None:
    read = 0
    while read < count:
        read += len(consumer.poll(1))


def test_bytes_records_and_fetches_are_counted_by_topic(cluster: ScriptedCluster) -> None:
    cluster.topics["u.v"] = 1
    cluster.append("t", 0, b"a" * 100, b"b" * 100)
    cluster.append("t", 1, b"c" * 100)
    cluster.append("u.v", 0, b"d" * 1000)
    consumer = cluster.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, T1, TopicPartition("u.v", 0)])
    read_all(consumer, 4)
    consumer.poll(1)

    found, total = consumer.topic_metrics(), consumer.metrics()
    assert list(found) == ["t", "u.v"]
    assert [found[topic]["records-consumed-total"] for topic in found] == [3, 1]
    assert 300 < found["t"]["bytes-consumed-total"] < 600 < 1000 < found["u.v"]["bytes-consumed-total"] < 1200
    assert sum(topic["bytes-consumed-total"] for topic in found.values()) == total["bytes-consumed-total"]
    assert found["u.v"]["fetch-size-avg"] == found["u.v"]["fetch-size-max"] == found["u.v"]["bytes-consumed-total"]


def test_nothing_is_told_or_kept_of_what_is_not_assigned_any_more(cluster: ScriptedCluster) -> None:
    cluster.topics["u"] = 1
    cluster.append("t", 0, b"a", b"b")
    cluster.append("u", 0, b"c")
    consumer = cluster.consumer(auto_offset_reset="earliest")
    consumer.assign([T0, T1])
    read_all(consumer, 2)

    consumer.assign([T1, TopicPartition("u", 0)])
    assert consumer.partition_metrics().keys() == {T1, TopicPartition("u", 0)}
    assert consumer.topic_metrics().keys() == {"t"}, "one of its partitions is still read"
    consumer.assign([TopicPartition("u", 0)])
    assert consumer.topic_metrics() == {}
    read_all(consumer, 1)
    consumer.assign([T0])
    cluster.append("t", 0, b"d")
    consumer.seek(T0, 2)
    read_all(consumer, 1)
    assert consumer.topic_metrics()["t"]["records-consumed-total"] == 1, "counted anew"


def test_a_rebalance_in_which_a_topic_comes_back_goes_on_counting(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    consumer = member(cluster, partition_assignment_strategy="range")
    read_all(consumer, 2)
    # Nothing is assigned meanwhile, and the fetch on its way is answered.
    cluster.errors[ApiKey.JOIN_GROUP] = deque([COORDINATOR_LOAD_IN_PROGRESS] * 20)
    consumer.enforce_rebalance()
    while consumer.metrics()["rebalance-total"] < 2:
        consumer.poll(1)
    cluster.append("t", 0, b"c")
    read_all(consumer, 1)

    assert consumer.topic_metrics()["t"]["records-consumed-total"] == 3


def test_the_time_spent_in_commit_and_committed_is_told_even_where_they_fail(cluster: ScriptedCluster) -> None:
    consumer = member(cluster, enable_auto_commit=False)
    consumer.poll(1)
    cluster.hold = {ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH}
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({T0: 1}, timeout=2)
    with pytest.raises(KafkaTimeoutError):
        consumer.committed([T0], timeout=3)

    found = consumer.metrics()
    assert found["commit-sync-time-ns-total"] == pytest.approx(2e9, rel=0.1)
    assert found["committed-time-ns-total"] == pytest.approx(3e9, rel=0.1)


def test_the_window_is_that_of_the_settings(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b")
    consumer = member(cluster, metrics_num_samples=3, metrics_sample_window_ms=5000, metrics_recording_level="DEBUG")
    read_all(consumer, 2)

    assert consumer.metrics()["records-consumed-rate"] == pytest.approx(2 / 10, rel=0.1)
    cluster.sleep(12)
    assert consumer.metrics()["records-consumed-rate"] == pytest.approx(2 / 12, rel=0.1)
    assert consumer.metrics()["fetch-size-max"] > 0
    cluster.sleep(4)
    assert consumer.metrics()["records-consumed-rate"] == 0
    assert math.isnan(consumer.topic_metrics()["t"]["records-per-request-avg"])


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_time_that_a_rebalance_listener_takes_is_told(cluster: ScriptedCluster, protocol: str) -> None:
    class Slow(ConsumerRebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            cluster.sleep(0.5)

        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            cluster.sleep(0.25)

    consumer = cluster.consumer(group_id="g", group_protocol=protocol)
    consumer.subscribe(["t"], listener=Slow())
    while not consumer.assignment():
        consumer.poll(1)
    assigned = consumer.metrics()
    consumer.unsubscribe()

    found = consumer.metrics()
    assert found["partition-assigned-latency-avg"] == pytest.approx(500)
    assert found["partition-assigned-latency-max"] == pytest.approx(500)
    assert math.isnan(assigned["partition-revoked-latency-max"])
    assert found["partition-revoked-latency-max"] == pytest.approx(250)
    assert math.isnan(found["partition-lost-latency-avg"])
    assert found["rebalance-rate-per-hour"] == pytest.approx(3600 / 30, rel=0.1)


def test_what_has_never_been_was_minus_one_seconds_ago_as_in_kafka(cluster: ScriptedCluster) -> None:
    found = member(cluster).metrics()
    ago = {name: value for name, value in found.items() if name.endswith("-seconds-ago")}
    assert ago == {"last-poll-seconds-ago": -1, "last-heartbeat-seconds-ago": -1, "last-rebalance-seconds-ago": -1}
