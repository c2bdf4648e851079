"""Consumers of librdkafka and of Java read from the follower in their rack, on three brokers of ours (KIP-392)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas import AdminClient, NewTopic, Producer
from tests.contract.waiting import eventually, in_sync_replicas
from tests.peers import apache_kafka
from tests.peers.java_tools import JavaTools
from tests.peers.mixed_cluster import MixedCluster

pytestmark = [pytest.mark.timeout(120)]
_SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
_LEADER, _FOLLOWER, _COUNT = 1, 3, 200


def _read_from(bootstrap: str, rack: str) -> tuple[set[bytes | None], int]:
    """What a consumer in a rack reads, and the broker from which it fetches then."""
    told: list[int] = []

    def on_statistics(text: str) -> None:
        partition = json.loads(text)["topics"].get("near", {}).get("partitions", {}).get("0")
        if partition is not None:
            told.append(partition["broker"])

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": rack, "auto.offset.reset": "earliest"}
    reader = Consumer({**settings, "client.rack": rack, "statistics.interval.ms": 200, "stats_cb": on_statistics})
    found: set[bytes | None] = set()
    try:
        reader.subscribe(["near"])
        deadline = time.monotonic() + 30
        # Statistics come after the records, so the last ones are of a reader that has been sent where it is to read.
        while (len(found) < _COUNT or len(told) < 10) and time.monotonic() < deadline:
            found |= {message.value() for message in reader.consume(100, 0.1)}
        return found, told[-1]
    finally:
        reader.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[MixedCluster]:
    with MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1, settings=_SELECTOR) as running:
        settings = {"bootstrap.servers": running.bootstrap_servers}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("near", replica_assignments={0: [_LEADER, 2, _FOLLOWER]})])
            eventually(lambda: in_sync_replicas(admin, "near") == [{1, 2, 3}])
            for number in range(_COUNT):
                producer.send("near", b"%d" % number)
            producer.flush()
        yield running


def test_a_consumer_of_librdkafka_reads_from_the_follower_in_its_rack(cluster: MixedCluster) -> None:
    wanted = {b"%d" % number for number in range(_COUNT)}

    assert _read_from(cluster.bootstrap_servers, f"rack-{_FOLLOWER}") == (wanted, _FOLLOWER)
    assert _read_from(cluster.bootstrap_servers, "rack-elsewhere") == (wanted, _LEADER)


@pytest.mark.parametrize(("rack", "replica"), [(f"rack-{_FOLLOWER}", [_FOLLOWER]), ("rack-elsewhere", [])])
def test_a_consumer_of_java_reads_from_the_follower_in_its_rack(
    cluster: MixedCluster, rack: str, replica: list[int]
) -> None:
    """Its own metric says from which replica it reads, and is not there while that is the leader."""
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "near", "--group", f"java-{rack}")
    with JavaTools() as java:
        printed = java.run(
            "org.apache.kafka.tools.ConsumerPerformance", *where, "--num-records", str(_COUNT), "--print-metrics",
            "--command-property", f"client.rack={rack}", "--command-property", "fetch.max.wait.ms=100",
            "--command-property", "max.poll.records=10", "--command-property", "max.partition.fetch.bytes=500",
        )  # fmt: skip
    assert printed.code == 0, printed.err
    found = re.findall(r"preferred-read-replica:\{[^}]*topic=near[^}]*\}\s*:\s*(-?\d+)", printed.out)
    assert [int(number) for number in found if int(number) >= 0] == replica, printed.out
