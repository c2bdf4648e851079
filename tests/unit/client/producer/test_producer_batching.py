"""Producer: in which order a record is prepared, and what a partitioner does to batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.client.producer.storing_broker import StoringBroker, connect

RECORDS = 30


@pytest.mark.shows("S4.8", breaks="barnabas.client.producer.producer_core:ProducerCore._partition")
def test_the_partition_is_chosen_right_after_serializing_from_what_came_out(broker: StoringBroker) -> None:
    steps: list[tuple[str, Any]] = []

    class Partitioner:
        def partition(self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, cluster: Any) -> int:
            steps.append(("partition", (key, key_bytes, value, value_bytes)))
            return 2

    def serialize_key(key: str) -> bytes:
        steps.append(("key", key))
        return key.encode()

    def serialize_value(value: str) -> bytes:
        steps.append(("value", value))
        return value.upper().encode()

    with connect(
        broker, partitioner_class=Partitioner, key_serializer=serialize_key, value_serializer=serialize_value
    ) as producer:
        sent = producer.send("test", "v", "k")
        assert not broker.records
        producer.flush(10)

    assert steps == [("key", "k"), ("value", "v"), ("partition", ("k", b"k", "v", b"V"))]
    assert sent.result(0).partition == 2


def batches_of(broker: StoringBroker, records: int = RECORDS, **settings: Any) -> list[int]:
    """How many records each batch had that the broker was sent, of records without keys."""
    with connect(broker, linger_ms=1000, **settings) as producer:
        for _ in range(records):
            producer.send("test", b"v" * 50)
        producer.flush(10)
    return sorted(count for request in broker.requests for _, count in request)


@pytest.mark.shows("S3.48", breaks="barnabas.client.producer.partitioner:RoundRobinPartitioner.partition")
@pytest.mark.shows("S4.13", breaks="barnabas.client.producer.partitioner:RoundRobinPartitioner.partition")
@pytest.mark.shows("S4.15", breaks="barnabas.client.producer.partitioner:RoundRobinPartitioner.partition")
def test_round_robin_spreads_records_over_the_batches_of_all_partitions_which_leave_unfilled(
    broker: StoringBroker,
) -> None:
    assert batches_of(broker, partitioner_class="RoundRobinPartitioner") == [RECORDS // 3] * 3


@pytest.mark.shows("S3.49", breaks="barnabas.client.producer.partitioner:BuiltInPartitioner.peek_current_partition")
def test_the_sticky_default_fills_one_batch_where_round_robin_begins_three(broker: StoringBroker) -> None:
    assert batches_of(broker) == [RECORDS]

    # And when a batch is full it goes on elsewhere.
    broker.requests.clear()
    batches_of(broker, 40 * RECORDS, batch_size=1000)
    partitions = [partition for request in broker.requests for partition, _ in request]
    assert len(set(partitions)) == 3
    assert len(partitions) < 4 * RECORDS
