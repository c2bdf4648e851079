"""What a producer counts by topic and how it tells the time spent in its calls, on virtual time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest

from barnabas import errors
from barnabas.client.producer.producer_metrics import TXN_OPERATIONS
from barnabas.protocol.topic_partition import TopicPartition
from tests.support.virtual_loop import VirtualBroker, run
from tests.unit.aio.test_producer import connect
from tests.unit.client.producer.harness import TOPIC, Harness

NOT_LEADER, INVALID_RECORD = 6, 87


def test_records_bytes_retries_errors_and_compression_are_counted_by_topic() -> None:
    harness = Harness(compression_type="gzip", linger_ms=5)
    for _ in range(50):
        harness.send(b"x" * 100)
    harness.turn(0.005)
    harness.settle()
    harness.respond(NOT_LEADER)
    harness.turn(0.2)
    harness.settle()
    harness.respond()
    harness.send(b"refused")
    harness.turn(0.005)
    harness.settle()
    harness.respond(INVALID_RECORD)

    (found,), total = harness.metrics.by_topic(harness.now), harness.metrics.as_dict(harness.now)
    assert (found.group, found.tags) == ("producer-topic-metrics", {"topic": TOPIC})
    topic = found.values
    assert topic["record-send-total"] == total["record-send-total"] == 101, "those that went twice count twice"
    assert topic["byte-total"] == total["byte-total"] > 0
    assert topic["record-retry-total"] == 50
    assert topic["record-error-total"] == total["record-error-total"] == 1
    assert topic["compression-rate"] == total["compression-rate-avg"] < 1


def test_a_topic_that_is_idle_for_metadata_max_idle_ms_is_forgotten() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("busy")
        broker.create("idle")
        settings = {"metadata_max_idle_ms": 5000, "metadata_max_age_ms": 2000}
        async with connect(broker, **settings) as producer:
            await (await producer.send("idle", b"v"))
            assert producer.topic_metrics().keys() == {"idle"}
            for _ in range(30):
                await (await producer.send("busy", b"v"))
                await asyncio.sleep(1.0)
            assert producer.topic_metrics().keys() == {"busy"}
            assert producer.topic_metrics()["busy"]["record-send-total"] == 30

    run(scenario)


def test_the_age_of_the_metadata_is_told_in_seconds() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker) as producer:
            assert math.isnan(producer.metrics()["metadata-age"]), "there is none yet"
            await producer.partitions_for("flights")
            await asyncio.sleep(60.0)
            assert producer.metrics()["metadata-age"] == pytest.approx(60, abs=1)

    run(scenario)


def test_the_time_waited_for_metadata_and_in_flush_is_told_even_where_they_fail() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        broker.create("flights")
        async with connect(broker, max_block_ms=2000) as producer:
            await producer.partitions_for("flights")
            before = producer.metrics()["metadata-wait-time-ns-total"]
            broker.is_silent = True
            with pytest.raises(errors.KafkaTimeoutError):
                await producer.partitions_for("unknown")
            await producer.send("flights", b"v")
            with pytest.raises(errors.KafkaTimeoutError):
                await producer.flush(3.0)
            found = producer.metrics()
            broker.is_silent = False
            await producer.flush()
        assert found["metadata-wait-time-ns-total"] - before == pytest.approx(2e9)
        assert found["flush-time-ns-total"] == pytest.approx(3e9)

    run(scenario)


def test_the_time_spent_in_transactions_is_told_by_operation() -> None:
    async def scenario(broker: VirtualBroker) -> None:
        async def after_a_silence(seconds: float, operation: Callable[[float], Awaitable[None]]) -> float:
            began = broker.loop.time()
            broker.is_silent = True
            with pytest.raises(errors.KafkaTimeoutError):
                await operation(seconds)
            broker.is_silent = False
            await operation(60.0)
            return (broker.loop.time() - began) * 1e9

        broker.create("flights")
        async with connect(broker, transactional_id="tx") as producer:
            taken = [await after_a_silence(10, producer.init_transactions)]
            producer.begin_transaction()
            await (await producer.send("flights", b"v"))
            offsets = {TopicPartition("flights", 0): 1}
            taken.append(
                await after_a_silence(11, lambda timeout: producer.send_offsets_to_transaction(offsets, "g", timeout))
            )
            taken.append(await after_a_silence(12, producer.commit_transaction))
            producer.begin_transaction()
            await (await producer.send("flights", b"v"))
            taken.append(await after_a_silence(13, producer.abort_transaction))
            found = producer.metrics()

        assert [found[f"{name}-time-ns-total"] for name in TXN_OPERATIONS.values()] == pytest.approx(taken)
        assert found["txn-begin-time-ns-total"] == 0, "it asks nobody"

    run(scenario)
