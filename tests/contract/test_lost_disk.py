"""Real processes: all replicas of a partition are killed one after the other, and one of them comes back without its
disk. Nothing that was acknowledged is lost.

The long form has a broker of Apache Kafka among ours, which does not tell where its logs end.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from tests.contract.waiting import eventually, in_sync_replicas
from tests.peers import apache_kafka
from tests.peers.mixed_cluster import MixedCluster

_SOON = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200}
_FEW = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


def _leader(admin: AdminClient) -> int | None:
    leader = admin.describe_topics(["flights"])["flights"].partitions[0].leader
    return None if leader is None or leader.id < 0 else leader.id


def _values(servers: str, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    with Consumer({"bootstrap.servers": servers, **_SOON}) as consumer:
        consumer.assign([TopicPartition("flights", 0)])
        consumer.seek_to_beginning([TopicPartition("flights", 0)])

        def read() -> bool:
            found.extend(record.value for record in consumer.poll(timeout=0.5))
            return len(found) >= count

        eventually(read, 60)
    return found


def test_nothing_acknowledged_is_lost_when_all_die_in_turn_and_who_led_last_comes_back_with_an_empty_disk(
    tmp_path: Path,
) -> None:
    with Broker(brokers=3, data_dir=tmp_path, config=_FEW) as broker:
        settings: dict[str, Any] = {"bootstrap.servers": broker.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            # 3 is asked before 2 where nothing tells which of them has more.
            admin.create_topics([NewTopic("flights", replica_assignments={0: [1, 3, 2]})])
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1, 2, 3}])
            producer.send("flights", b"on all").result(30)
            broker.kill(3)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1, 2}], 60)
            for number in range(50):
                producer.send("flights", b"%d" % number).result(30)
            broker.kill(2)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1}], 60)
        broker.kill(1)
        shutil.rmtree(tmp_path / "broker-1")
        for broker_id in (2, 3, 1):
            broker.start(broker_id)
        with AdminClient(settings) as admin:
            eventually(lambda: _leader(admin) == 2, 60)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1, 2, 3}], 60)
        assert _values(broker.bootstrap_servers, 51) == [b"on all", *(b"%d" % number for number in range(50))]


_JAVA = 1


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("order", "leads"),
    [
        # Who led last comes back empty, so another one of ours leads, and Apache Kafka's is not waited for.
        pytest.param([2, _JAVA, 3], 3, id="ours-led-last"),
        # Apache Kafka's leads as it would among its like, with all that there is.
        pytest.param([_JAVA, 2, 3], _JAVA, id="theirs-led-last"),
    ],
)
def test_the_same_with_a_broker_that_does_not_tell_where_its_logs_end(order: list[int], leads: int) -> None:
    if missing := apache_kafka.why_not():
        pytest.skip(missing)
    last, first, second = order
    with MixedCluster(theirs=1, ours=2, controllers=0, our_controllers=1, settings=_FEW) as cluster:
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **_SOON}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("flights", replica_assignments={0: order})])
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1, 2, 3}], 60)
            producer.send("flights", b"on all").result(30)
            cluster.brokers[first].stop(kill=True)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{last, second}], 60)
            for number in range(50):
                producer.send("flights", b"%d" % number).result(30)
            cluster.brokers[second].stop(kill=True)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{last}], 60)
        cluster.brokers[last].stop(kill=True)
        if last != _JAVA:
            shutil.rmtree(cluster.data_of(last))
        for broker_id in (first, second, last):
            cluster.brokers[broker_id].start()
        with AdminClient(settings) as admin:
            eventually(lambda: _leader(admin) == leads, 60)
            eventually(lambda: in_sync_replicas(admin, "flights") == [{1, 2, 3}], 60)
        assert _values(cluster.bootstrap_servers, 51) == [b"on all", *(b"%d" % number for number in range(50))]
