"""What a batch keeps for its records' callbacks: packed, and given back as it was."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.producer import append
from barnabas.client.producer.append import DeliveryCallbacks, RecordMetadata
from barnabas.client.producer.produce_request_result import ProduceRequestResult
from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.builder import RecordBatchBuilder

PARTITION = TopicPartition("t", 3)
sizes = st.integers(-1, 300) | st.integers(-1, 2**31 - 2)
timestamps = st.integers(-1, 2**62) | st.sampled_from([-1, 0, 1_700_000_000_000])


def refuse(*_: object) -> None:
    raise AssertionError("no callback of these tests raises")


@given(st.lists(st.tuples(st.integers(0, 3), timestamps, sizes, sizes)), st.integers(0, 10))
def test_every_record_gets_its_own_callback_with_its_timestamp_and_sizes(
    rows: list[tuple[int, int, int, int]], first: int
) -> None:
    seen: list[tuple[int, RecordMetadata]] = []
    functions: list[Any] = [None, *(lambda metadata, _, n=n: seen.append((n, metadata)) for n in (1, 2, 3))]
    callbacks = DeliveryCallbacks(first)
    for chosen, timestamp, key_size, value_size in rows:
        callbacks.add(functions[chosen], timestamp, key_size, value_size)
    result = ProduceRequestResult(PARTITION)
    result.set(1000, -1)

    callbacks.run(result, refuse)

    assert seen == [
        (chosen, RecordMetadata("t", 3, 1000 + first + at, timestamp, key_size, value_size))
        for at, (chosen, timestamp, key_size, value_size) in enumerate(rows)
        if chosen
    ]
    assert [entry[1:] for entry in callbacks.entries()] == [row[1:] for row in rows]
    assert [entry[0] for entry in callbacks.entries()] == [functions[row[0]] for row in rows]


class Application:
    """Counts by a method, as applications do."""

    def __init__(self) -> None:
        self.delivered = 0

    def on_delivery(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.delivered += 1


@pytest.mark.skipif(append.__file__.endswith(".py"), reason="objects of uncompiled classes are larger")
def test_a_full_batch_of_small_records_with_callbacks_costs_at_most_a_tenth_more_than_its_bytes() -> None:
    """Otherwise a million records in flight would take more than buffer.memory and 10%."""
    application = Application()
    value, batches = bytes(100), []

    tracemalloc.start()
    for number in range(50):
        batch = ProducerBatch(PARTITION, RecordBatchBuilder(16384), 0.0, 16384)
        timestamp = 1_700_000_000_000 + number
        while batch.try_append(timestamp, b"key-000001", value, (), application.on_delivery, 130) is not None:
            pass
        batches.append(batch)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()

    assert held <= 1.1 * 16384 * len(batches)
    records = sum(batch.record_count for batch in batches)
    for batch in batches:
        batch.complete(0, -1)
    assert application.delivered == records > 5000
