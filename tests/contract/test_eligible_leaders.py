"""Apache Kafka's `eligible_leader_replicas_test`, retold: two of three replicas are shut down, the leader is killed.

One of the two is known to have all that was acknowledged (KIP-966), and leads without the third. The long form has
brokers of both softwares, under a controller of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from tests.contract.waiting import eventually, in_sync_replicas
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
_FEW = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
_FLIGHTS = TopicPartition("flights", 0)
_COUNT = 1000

Act = Callable[[int], object]


def _all_end_and_two_come_back(servers: str, order: list[int], stop: Act, kill: Act, start: Act) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": servers, **_SOON}
    leader, first, second = order
    with AdminClient(settings) as admin:
        topic = NewTopic("flights", replica_assignments={0: order}, configs={"min.insync.replicas": "2"})
        admin.create_topics([topic])
        eventually(lambda: in_sync_replicas(admin, "flights") == [set(order)], 60)
        with Producer({**settings, "acks": "all"}) as producer:
            sent = [producer.send("flights", b"%d" % number) for number in range(_COUNT)]
            offsets = [future.result(60).offset for future in sent]
        for number in (first, second):
            stop(number)
        eventually(lambda: in_sync_replicas(admin, "flights") == [{leader}], 60)
    kill(leader)
    for number in (first, second):
        start(number)
    with AdminClient(settings) as admin:
        eventually(lambda: _leader(admin) in (first, second), 60)
        eventually(lambda: in_sync_replicas(admin, "flights") == [{first, second}], 60)
    with Consumer({**settings, "isolation.level": "read_committed"}) as consumer:
        consumer.assign([_FLIGHTS])
        consumer.seek_to_beginning([_FLIGHTS])
        found: dict[int, bytes | None] = {}

        def read() -> bool:
            found.update({record.offset: record.value for record in consumer.poll(0.5)})
            return len(found) >= _COUNT

        eventually(read, 60)
    assert [found[offset] for offset in offsets] == [b"%d" % number for number in range(_COUNT)]
    start(leader)
    with AdminClient(settings) as admin:
        eventually(lambda: in_sync_replicas(admin, "flights") == [set(order)], 60)


def _leader(admin: AdminClient) -> int | None:
    leader = admin.describe_topics(["flights"])["flights"].partitions[0].leader
    return None if leader is None else leader.id


def test_one_of_those_that_were_shut_down_leads_where_the_last_leader_was_killed() -> None:
    with Broker(brokers=3, config=_FEW) as broker:
        _all_end_and_two_come_back(broker.bootstrap_servers, [1, 2, 3], broker.stop, broker.kill, broker.start)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("controllers", [(1, 0), (0, 1)], ids=["their-controller", "our-controller"])
@pytest.mark.parametrize(
    "order", [[1, 2, 3], [2, 3, 1], [2, 1, 3]], ids=["theirs-is-killed", "theirs-is-eligible", "theirs-left-before"]
)
def test_the_same_with_brokers_of_both_kinds(order: list[int], controllers: tuple[int, int]) -> None:
    if missing := apache_kafka.why_not():
        pytest.skip(missing)
    theirs, ours = controllers
    with MixedCluster(theirs=1, ours=2, controllers=theirs, our_controllers=ours, settings=_FEW) as cluster:
        _all_end_and_two_come_back(
            cluster.bootstrap_servers,
            order,
            lambda number: cluster.brokers[number].stop(),
            lambda number: cluster.brokers[number].stop(kill=True),
            lambda number: cluster.brokers[number].start(),
        )
