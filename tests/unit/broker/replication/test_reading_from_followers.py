"""Where consumers read when replicas are in several racks (KIP-392): what leaders recommend, what followers give."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas import errors
from barnabas.broker.config import BrokerConfig
from barnabas.broker.metadata.metadata_cache import BrokerAddress
from barnabas.broker.replication.replica_selector import RACK_AWARE
from barnabas.errors import ConfigError
from tests.support.core_broker import CoreBroker, fetch
from tests.unit.broker.replication.test_replicated_partition import ME, SECOND, THIRD, Bench

NONE = -1
RACKS = {ME: "a", SECOND: "b", THIRD: "b"}


class Racks:
    """The brokers that are alive, each in its rack."""

    def __init__(self, racks: dict[int, str]) -> None:
        self.racks = racks

    def brokers(self, listener: str) -> list[BrokerAddress]:
        return [BrokerAddress(broker_id, "host", 9092, rack) for broker_id, rack in self.racks.items()]


def replicated(**settings: str) -> Bench:
    """Three replicas with two records, all committed; the broker with the settings leads."""
    bench = Bench(settings={"replica.selector.class": RACK_AWARE, **settings})
    bench.broker.state.view = Racks(dict(RACKS))
    bench.produce(acks=1)
    bench.produce(acks=1)
    for broker_id in (SECOND, THIRD):
        bench.follow(broker_id, 2)
    return bench


def read(broker: CoreBroker, rack: str, offset: int = 0, version: int = 12, **fields: Any) -> Any:
    request = fetch("t", offset, rack_id=rack, **fields)
    return broker.connect().request(request, version).responses[0].partitions[0]


def test_a_consumer_is_sent_to_a_follower_in_its_rack() -> None:
    bench = replicated()
    found = read(bench.broker, "b", max_wait_ms=10_000, offset=2)
    assert (found.preferred_read_replica, len(found.records), found.high_watermark) == (SECOND, 0, 2)


@pytest.mark.parametrize("rack", ["", "a", "c"], ids=["tells none", "the leader's", "of no replica"])
def test_the_leader_serves_a_consumer_whose_rack_is(rack: str) -> None:
    found = read(replicated().broker, rack)
    assert (found.preferred_read_replica, found.error_code) == (NONE, 0)
    assert len(found.records)


def test_without_a_selector_the_leader_serves_everybody() -> None:
    bench = replicated(**{"replica.selector.class": ""})
    assert read(bench.broker, "b").preferred_read_replica == NONE


def test_a_consumer_that_does_not_know_followers_is_served_here() -> None:
    assert len(read(replicated().broker, "b", version=10).records)


def test_of_several_the_one_that_has_most() -> None:
    bench = replicated()
    bench.produce(acks=1)
    bench.follow(THIRD, 3)
    assert read(bench.broker, "b").preferred_read_replica == THIRD


def test_nobody_is_sent_to_a_follower_that_lacks_the_offset_or_is_not_in_sync_or_is_gone() -> None:
    bench = replicated()
    bench.produce(acks=1)
    bench.follow(THIRD, 3)
    assert read(bench.broker, "b", offset=3).preferred_read_replica == THIRD
    bench.apply(isr=(ME, SECOND))
    assert read(bench.broker, "b", offset=3).preferred_read_replica == NONE
    assert read(bench.broker, "b", offset=1).preferred_read_replica == SECOND
    bench.broker.state.view = Racks({ME: "a"})
    assert read(bench.broker, "b", offset=1).preferred_read_replica == NONE


def test_it_is_told_within_a_session_each_time() -> None:
    bench = replicated()
    client = bench.broker.connect()
    request = fetch("t", rack_id="b", session_id=0, session_epoch=0)
    session = client.request(request, 12).session_id
    again = client.request(fetch("t", rack_id="b", session_id=session, session_epoch=1), 12)
    assert again.responses[0].partitions[0].preferred_read_replica == SECOND


def test_a_follower_serves_consumers_up_to_its_high_watermark_and_sends_nobody_on() -> None:
    bench = replicated()
    bench.produce(acks=1)
    bench.apply(leader=SECOND, leader_epoch=1)
    found = read(bench.broker, "b")
    assert (found.preferred_read_replica, found.error_code, found.high_watermark) == (NONE, 0, 2)
    behind = read(bench.broker, "b", offset=2)
    assert (len(behind.records), behind.error_code) == (0, 0)


def test_a_consumer_of_an_old_version_is_refused_by_a_follower() -> None:
    bench = replicated()
    bench.apply(leader=SECOND, leader_epoch=1)
    assert read(bench.broker, "b", version=10).error_code == errors.NotLeaderOrFollowerError.code


def test_a_selector_that_is_a_java_class_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"my.Selector cannot be loaded"):
        BrokerConfig({"replica.selector.class": "my.Selector"})
