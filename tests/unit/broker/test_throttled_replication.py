"""Replication that is held at a rate (KIP-73): by the leader, by the follower, and never of replicas in sync."""

from __future__ import annotations

import pytest

from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.broker.replication.replication_quota import FOLLOWER, LEADER, ReplicationQuota
from barnabas.protocol.messages.config_record import ConfigRecord
from tests.support.cluster_member import MemberBroker, broker, topic
from tests.unit.broker import test_replica_fetcher as following
from tests.unit.broker.test_replicated_partition import ME, SECOND, THIRD, Bench

RATE = 100
FLIGHTS = bytes(15) + b"\x01"


def quota(kind: str, replicas: str = "*", rate: str = str(RATE)) -> ReplicationQuota:
    found = ReplicationQuota(kind, ME, lambda _topic: {f"{kind}.replication.throttled.replicas": replicas}, 11, 1)
    found.take_settings({f"{kind}.replication.throttled.rate": rate})
    return found


@pytest.mark.parametrize(
    ("replicas", "throttled"), [("*", [0, 1]), ("0:1,1:2", [0]), ("0:2", []), ("", []), ("nonsense,1:1", [1])]
)
def test_which_replicas_are_throttled_the_topic_says(replicas: str, throttled: list[int]) -> None:
    found = quota(LEADER, replicas)
    assert [index for index in (0, 1) if found.is_throttled("t", index)] == throttled


def test_the_rate_is_measured_over_the_windows() -> None:
    found = quota(LEADER)
    found.record(RATE * 10, 50.0)
    assert not found.is_exceeded(50.0)
    found.record(RATE * 10, 50.0)
    assert found.is_exceeded(50.0)
    assert not found.is_exceeded(62.0)


def test_without_a_rate_nothing_is_held_back() -> None:
    found = quota(LEADER, rate="")
    found.record(1 << 30, 50.0)
    assert not found.is_exceeded(50.0)


def test_a_leader_sends_no_more_than_its_rate_to_replicas_that_are_not_in_sync() -> None:
    bench = Bench(isr=(ME, THIRD))
    bench.manager.leader_quota = quota(LEADER)
    bench.produce(acks=1, value=bytes(3000))
    bench.produce(acks=1, value=bytes(3000))
    assert len(bench.follow(SECOND, 0, partition_max_bytes=10).records), "nothing was sent before"
    assert len(bench.follow(SECOND, 1).records) == 0
    assert len(bench.follow(THIRD, 0).records), "it is in sync"
    bench.broker.advance(60)
    assert len(bench.follow(SECOND, 1).records)


def test_a_follower_fetches_no_more_than_its_rate_until_it_has_caught_up() -> None:
    bench = following.Bench(names=(following.NAME, following.OTHER))
    found = quota(FOLLOWER, "0:1")
    logs = ReplicaLogs(bench.manager, bench.partitions.__getitem__)
    bench.fetcher = ReplicaFetcher(1, logs, lambda: 77, FetcherSettings(), found)
    for name in (following.NAME, following.OTHER):
        bench.fetcher.add_partition(name, following.ID, following.EPOCH, following.NOW)
    assert sorted(following.asked(bench.request())) == [0, 1]
    found.record(RATE * 100, bench.now)
    bench.fetched(records=following.record(0), high_watermark=5)
    request = bench.request()
    assert [one.partitions for one in request.forgotten_topics_data] == [[0]]
    bench.fetched(following.OTHER, high_watermark=0)
    bench.now += 60
    assert following.asked(bench.request()) == {0: (1, following.EPOCH)}
    bench.fetched(records=following.record(1), high_watermark=2)
    found.record(RATE * 100, bench.now)
    assert bench.request().forgotten_topics_data == [], "once it is in sync it goes on"


def test_the_rates_come_with_the_metadata() -> None:
    others = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]
    found = MemberBroker({}, *others, *topic("flights", FLIGHTS, [3, 1]))
    manager = found.state.replica_manager
    assert manager.leader_quota is None
    rate = ConfigRecord(resource_type=4, resource_name="3", name="leader.replication.throttled.rate", value="500")
    replicas = "leader.replication.throttled.replicas"
    found.tell(rate, ConfigRecord(resource_type=2, resource_name="flights", name=replicas, value="0:3"))
    assert manager.leader_quota.limit == 500
    assert manager.leader_quota.is_throttled("flights", 0)
    found.tell(ConfigRecord(resource_type=4, resource_name="3", name=rate.name, value=None))
    assert manager.leader_quota is None


def test_what_is_measured_is_a_setting() -> None:
    others = [*broker(1, host="one"), *broker(2, host="two"), *broker(3, host="three")]
    rate = ConfigRecord(resource_type=4, resource_name="3", name="leader.replication.throttled.rate", value="100")
    settings = {"replication.quota.window.num": 2, "replication.quota.window.size.seconds": 3}
    found = MemberBroker(settings, *others, rate).state.replica_manager.leader_quota
    found.record(500, 50.0)
    assert found.is_exceeded(50.0), "in a window of three seconds, as if one more had passed"
    assert not found.is_exceeded(56.0), "two windows are over"
    found.record(100_000, 60.0)
    assert [found.is_exceeded(60.0 + seconds) for seconds in (5.9, 6.1)] == [True, False]
