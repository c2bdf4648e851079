"""Replication that is held at a rate (KIP-73): by the leader, by the follower, and never of replicas in sync."""

from __future__ import annotations

import pytest

from barnabas.broker.delayed_fetch import FetchLimits, read_targets
from barnabas.broker.fetch_target import FetchingReplica, FetchTarget
from barnabas.broker.log.unified_log import LOG_END
from barnabas.broker.replication.replica_fetcher import FetcherSettings, ReplicaFetcher
from barnabas.broker.replication.replica_logs import ReplicaLogs
from barnabas.broker.replication.replication_quota import FOLLOWER, LEADER, ReplicationQuota
from barnabas.protocol.messages.config_record import ConfigRecord
from tests.support.cluster_member import MemberBroker, broker, topic
from tests.unit.broker.replication import test_replica_fetcher as following
from tests.unit.broker.replication.test_replicated_partition import ME, SECOND, THIRD, Bench

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
    bench.now += 100
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
    found.record(900, 60.0)
    assert [found.is_exceeded(60.0 + seconds) for seconds in (5.9, 6.1)] == [True, False], "the rate has paid it"


def test_what_was_too_much_is_owed_however_long_that_takes() -> None:
    found = quota(LEADER)
    found.record(RATE * 110, 50.0)
    assert [found.is_exceeded(50.0 + seconds) for seconds in (11, 99, 101)] == [True, True, False]


def test_a_leader_holds_the_rate_from_the_first_byte() -> None:
    bench = Bench(isr=(ME, THIRD))
    bench.manager.leader_quota = quota(LEADER)
    for _ in range(10):
        bench.produce(acks=1, value=bytes(3 * RATE))
    first = bench.follow(SECOND, 0, partition_max_bytes=1 << 20).records
    assert RATE * 5 < len(first) <= RATE * 10, "what the windows leave, and no batch more"


def test_of_several_throttled_partitions_one_batch_may_be_too_much() -> None:
    found = quota(LEADER)
    limits = FetchLimits(1, 1 << 20, LOG_END, FetchingReplica(SECOND, -1, 0), quota=found, allowance=1)
    bench = Bench(isr=(ME, THIRD))
    bench.produce(acks=1, value=bytes(300))
    bench.produce(acks=1, value=bytes(300))
    targets = [FetchTarget("t", 0), FetchTarget("t", 0)]
    for target in targets:
        target.max_bytes = 1 << 20
    read = read_targets(bench.manager, targets, limits, 1 << 20, only_cached=False).reads
    assert [one.error_code for one in read] == [0, 0]
    assert 300 < len(read[0].records) < 600
    assert read[1].records == b""


def test_a_follower_holds_the_rate_from_the_first_byte() -> None:
    bench = following.Bench(names=(following.NAME, following.OTHER))
    logs = ReplicaLogs(bench.manager, bench.partitions.__getitem__)
    bench.fetcher = ReplicaFetcher(1, logs, lambda: 77, FetcherSettings(), quota(FOLLOWER))
    for name in (following.NAME, following.OTHER):
        bench.fetcher.add_partition(name, following.ID, following.EPOCH, following.NOW)
    (asked,) = bench.request().topics
    assert [one.partition_max_bytes for one in asked.partitions] == [RATE * 5, RATE * 5]
