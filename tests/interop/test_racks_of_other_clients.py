"""A consumer of librdkafka reads from the follower in its rack, on three brokers of ours (KIP-392)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas import AdminClient, NewTopic, Producer
from tests.contract.waiting import eventually, in_sync_replicas
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


def test_a_consumer_of_librdkafka_reads_from_the_follower_in_its_rack() -> None:
    wanted = {b"%d" % number for number in range(_COUNT)}
    with MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1, settings=_SELECTOR) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers}
        with AdminClient(settings) as admin, Producer({**settings, "acks": "all"}) as producer:
            admin.create_topics([NewTopic("near", replica_assignments={0: [_LEADER, 2, _FOLLOWER]})])
            eventually(lambda: in_sync_replicas(admin, "near") == [{1, 2, 3}])
            for value in wanted:
                producer.send("near", value)
            producer.flush()
        assert _read_from(cluster.bootstrap_servers, f"rack-{_FOLLOWER}") == (wanted, _FOLLOWER)
        assert _read_from(cluster.bootstrap_servers, "rack-elsewhere") == (wanted, _LEADER)
