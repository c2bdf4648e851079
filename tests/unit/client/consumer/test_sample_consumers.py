"""The documents' sample consumers, with the settings they print; `poll` takes seconds here, not milliseconds."""

from __future__ import annotations

import pytest

from barnabas import Consumer, TopicPartition
from barnabas.client.consumer.consumer_config import ConsumerConfig
from barnabas.client.consumer.consumer_rebalance_listener import ConsumerRebalanceListener
from barnabas.client.consumer.offsets import OffsetAndMetadata
from barnabas.errors import ConfigError
from barnabas.protocol.api import ApiKey
from tests.support.scripted_cluster import ScriptedCluster

STRINGS = "org.apache.kafka.common.serialization.StringDeserializer"
BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@pytest.mark.shows("S1.35", breaks="barnabas.client.consumer.consumer_base:ConsumerBase.subscribe")
@pytest.mark.shows("S1.37", breaks="barnabas.client.consumer.consumer:Consumer.poll")
def test_the_loop_over_strings(cluster: ScriptedCluster) -> None:
    cluster.topics = {"consumer": 1}
    cluster.append("consumer", 0, b"before")
    settings = {
        "bootstrap.servers": "127.0.0.1:9092",
        "group.id": "consumer",
        "enable.auto.commit": "true",
        "auto.offset.reset": "latest",
        "key.deserializer": STRINGS,
        "value.deserializer": STRINGS,
    }
    consumer = Consumer(settings, environment=cluster)
    consumer.subscribe(["consumer"])
    cluster.at(1.0, lambda: cluster.append("consumer", 0, "grün".encode()))
    found: list[tuple[str, int, int, object]] = []
    waits: list[float] = []
    for _ in range(15):
        start = cluster.now
        found += [(r.topic, r.partition, r.offset, r.value) for r in consumer.poll(0.1)]
        waits.append(cluster.now - start)

    assert found == [("consumer", 0, 1, "grün")]
    assert max(waits) < 0.11
    assert sorted(waits)[7] > 0.09


@pytest.mark.shows("S2.5", breaks="barnabas.client.consumer.consumer_base:ConsumerBase.subscribe")
@pytest.mark.shows("S2.6", breaks="barnabas.client.consumer.consumer:Consumer.__exit__")
def test_the_loop_over_bytes_closes_its_consumer(cluster: ScriptedCluster) -> None:
    cluster.topics = {"topic1": 1}
    settings = {"group.id": "testGroup", "key.deserializer": BYTES, "value.deserializer": BYTES}
    found: list[object] = []
    with cluster.consumer(**{name.replace(".", "_"): value for name, value in settings.items()}) as consumer:
        consumer.subscribe(["topic1"])
        cluster.at(1.0, lambda: cluster.append("topic1", 0, b"\xff"))
        for _ in range(15):
            found += [record.value for record in consumer.poll(0.1)]

    assert found == [b"\xff"]
    assert len(cluster.asked(ApiKey.LEAVE_GROUP)) == 1


@pytest.mark.shows("S1.36", breaks="barnabas.client.serializers:_by_name")
def test_the_name_of_a_package_is_no_deserializer() -> None:
    package = "org.apache.kafka.common.serialization"
    with pytest.raises(
        ConfigError, match=rf"key.deserializer='{package}' is not known; there are .*StringDeserializer"
    ):
        ConsumerConfig({"bootstrap.servers": "127.0.0.1:9092", "key.deserializer": package}, {})


@pytest.mark.shows("S3.78", breaks="barnabas.client.consumer.consumer_base:ConsumerBase.subscribe")
@pytest.mark.shows("S3.81", breaks="barnabas.client.consumer.consumer:Consumer.commit")
def test_the_loop_that_commits_what_it_has_processed(cluster: ScriptedCluster) -> None:
    cluster.append("t", 0, b"a", b"b", b"c")
    consumer = cluster.consumer(group_id="test-group", enable_auto_commit=False, auto_offset_reset="earliest")
    current_offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    committed = []

    class Listener(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: object) -> None:
            consumer.commit(current_offsets)

    consumer.subscribe(["t"], Listener())
    for record in consumer.poll(1):
        current_offsets[TopicPartition(record.topic, record.partition)] = OffsetAndMetadata(record.offset + 1)
        consumer.commit(current_offsets)
        committed.append(cluster.committed[TopicPartition("t", 0)])

    assert committed == [(1, -1, ""), (2, -1, ""), (3, 0, "")], "the epoch of the position is known"
    consumer.close()
    assert len(cluster.asked(ApiKey.OFFSET_COMMIT)) == 4, "the listener's, when the consumer gives its partitions up"
