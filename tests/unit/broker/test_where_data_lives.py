"""Where a broker keeps what producers send, and which broker answers for what."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.errors import OffsetOutOfRangeError
from barnabas.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from barnabas.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from barnabas.records import read_batches
from tests.support.core_broker import CoreBroker, CoreClient, batch, create, fetch, produce


def described(client: CoreClient, topic: str) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return client.request(request, 12).topics[0]


def values(client: CoreClient, topic: str, partition: int) -> list[bytes | None]:
    records = client.request(fetch(topic, partition=partition), 12).responses[0].partitions[0].records
    return [record.value for found in read_batches(records) for record in found]


@pytest.mark.shows("S3.2", breaks="barnabas.broker.replica_manager:ReplicaManager.append")
def test_what_is_spread_over_partitions_and_acknowledged_outlives_a_crash(broker: CoreBroker) -> None:
    client = broker.connect()
    client.request(create("t", 3), 7)
    for number in range(9):
        answer = client.request(produce("t", batch(b"%d" % number), number % 3, acks=-1), 12)
        assert answer.responses[0].partition_responses[0].error_code == 0

    survivor = broker.crashed().connect()

    assert [values(survivor, "t", partition) for partition in range(3)] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5", b"8"],
    ]


@pytest.mark.shows("S2.1", breaks="barnabas.broker.log.log_retention:delete_old_segments")
def test_data_is_kept_as_long_as_configured_and_no_longer() -> None:
    hour = 3600
    broker = CoreBroker({"log.retention.hours": 2, "log.retention.check.interval.ms": 60_000})
    client = broker.connect()
    client.request(create("t", 1), 7)
    client.request(create("forever", 1, retention_ms="-1"), 7)
    for topic in ("t", "forever"):
        client.request(produce(topic, batch(b"a", now_ms=broker.now_ms), 0, acks=-1), 12)

    broker.advance(1.9 * hour)
    later = broker.connect()
    assert [values(later, topic, 0) for topic in ("t", "forever")] == [[b"a"], [b"a"]]

    broker.advance(0.2 * hour)
    later = broker.connect()
    assert later.request(fetch("t"), 12).responses[0].partitions[0].error_code == OffsetOutOfRangeError.code
    assert values(later, "forever", 0) == [b"a"]


def test_replicas_a_leader_and_those_in_sync_belong_to_a_partition(client: CoreClient) -> None:
    client.request(create("t", 3), 7)

    found = described(client, "t")

    node = client.broker.state.node_id
    replicas = {
        one.partition_index: (one.leader_id, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in found.partitions
    }
    assert replicas == dict.fromkeys(range(3), (node, [node], [node], []))


def test_each_groups_coordinator_is_the_leader_of_its_partition_of_the_offsets_topic(client: CoreClient) -> None:
    groups = [f"group-{number}" for number in range(20)]

    coordinators = client.request(FindCoordinatorRequest(coordinator_keys=groups), 6).coordinators

    partitions = described(client, "__consumer_offsets").partitions
    leaders = {one.partition_index: one.leader_id for one in partitions}
    assert len(leaders) == 50
    assert [one.key for one in coordinators] == groups
    chosen = {group: java_hash(group) % 50 for group in groups}
    assert len(set(chosen.values())) > 5
    assert {one.key: one.node_id for one in coordinators} == {group: leaders[chosen[group]] for group in groups}


def java_hash(text: str) -> int:
    """Kafka's choice: the lower 31 bits of Java's String.hashCode."""
    code = 0
    for character in text:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return code & 0x7FFFFFFF
