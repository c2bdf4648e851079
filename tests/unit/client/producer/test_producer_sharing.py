"""Producer: shared by threads and processes, its metrics, and settings and arguments that make no sense."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from barnabas import errors
from barnabas.client.producer.producer import Producer
from barnabas.errors import ConfigError
from barnabas.protocol.api import ApiKey
from tests.unit.client.producer.storing_broker import StoringBroker, connect
from tests.unit.forking import refused_in_a_child, where_it_can_fork


def test_records_without_key_survive_a_client_that_starts_again_from_its_bootstrap_servers(
    broker: StoringBroker,
) -> None:
    with connect(broker, linger_ms=0) as producer:
        producer.send("test", b"before").result(10)
        producer._core.parts.metadata.rebootstrap()
        producer.send("test", b"after").result(10)

    assert broker.values == [b"before", b"after"]


def test_many_threads_share_one_producer(broker: StoringBroker) -> None:
    with connect(broker, batch_size=500, linger_ms=0) as producer:

        def work(name: int) -> None:
            for number in range(300):
                producer.send("test", b"%d:%d" % (name, number), b"%d" % name)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(20)

    for name in range(4):
        mine = [value for value in broker.values if value.startswith(b"%d:" % name)]
        assert mine == [b"%d:%d" % (name, number) for number in range(300)]


def test_a_future_can_be_awaited(broker: StoringBroker) -> None:
    async def send_and_await() -> str:
        return str(await producer.send("one", b"v"))

    with connect(broker) as producer:
        assert asyncio.run(send_and_await()) == "one-0@0"


def test_partitions_for_a_topic(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        assert [info.partition for info in producer.partitions_for("test")] == [0, 1, 2]


@where_it_can_fork
def test_a_forked_child_is_refused_and_does_not_disturb_the_parent(broker: StoringBroker) -> None:
    with connect(broker) as producer:
        producer.send("one", b"before").result(10)
        said = refused_in_a_child(
            lambda: producer.send("one", b"child"),
            producer.flush,
            lambda: producer.partitions_for("one"),
            then=producer.close,
        )
        producer.send("one", b"after").result(10)

    assert len(said) == 3
    assert all("made before the process forked" in line for line in said)
    assert broker.values == [b"before", b"after"]


def test_metrics_count_what_was_sent(broker: StoringBroker) -> None:
    with connect(broker, linger_ms=50) as producer:
        for _ in range(10):
            producer.send("one", b"x" * 100)
        producer.flush(10)
    found = producer.metrics()

    assert (found["record-send-total"], found["records-per-request-avg"], found["requests-in-flight"]) == (10, 10, 0)
    # ApiVersions, Metadata and InitProducerId count too, as in Apache Kafka.
    assert found["request-total"] == found["response-total"] >= 4
    assert found["batch-size-avg"] > 1000
    assert found["record-queue-time-avg"] >= 0
    assert found["request-latency-max"] > 0
    assert found["buffer-available-bytes"] == found["buffer-total-bytes"] == 33554432


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enable_idempotence": True, "acks": "1"}, "acks=1 and enable.idempotence=true contradict"),
        ({"enable_idempotence": True, "retries": 0}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "at most 5"),
        ({"delivery_timeout_ms": 1000, "linger_ms": 500, "request_timeout_ms": 600}, "at least .* = 1100"),
        ({"transactional_id": "t", "enable_idempotence": False}, "transactional.id needs enable.idempotence=true"),
        ({"transactional_id": "t", "acks": "1"}, "acks=1 and enable.idempotence=true contradict"),
        ({"transactional_id": ""}, "transactional.id"),
        ({"transaction_two_phase_commit_enable": True}, "needs a transactional.id"),
        (
            {"transactional_id": "t", "transaction_two_phase_commit_enable": True, "transaction_timeout_ms": 5},
            "transaction.timeout.ms has no meaning",
        ),
        ({"lingerms": 5}, "linger.ms"),
        ({"partitioner_class": "NoSuchPartitioner"}, "RoundRobinPartitioner"),
        ({"partitioner_class": object}, "no method partition"),
        ({"compression_type": "brotli"}, "compression.type"),
    ],
)
def test_settings_that_contradict_or_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Producer(bootstrap_servers="localhost:1", **settings)


def test_acks_without_idempotence_being_asked_for_turns_it_off(broker: StoringBroker) -> None:
    with connect(broker, acks="1") as producer:
        producer.send("one", b"v").result(10)

    assert all(header.request_api_key != ApiKey.INIT_PRODUCER_ID for header, _ in broker.received)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"topic": 5}, errors.IllegalTypeError),
        ({"topic": "one", "partition": "0"}, errors.IllegalTypeError),
        ({"topic": "one", "partition": -1}, errors.IllegalArgumentError),
        ({"topic": "one", "headers": [("a", "text")]}, errors.IllegalTypeError),
        ({"topic": "one", "headers": ["ab c"]}, errors.IllegalTypeError),
        ({"topic": "one", "timestamp_ms": -5}, errors.IllegalArgumentError),
    ],
)
def test_arguments_that_make_no_sense_are_refused_and_nothing_is_sent(
    broker: StoringBroker, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with connect(broker) as producer:
        with pytest.raises(error):
            producer.send(**arguments)
        producer.flush(10)
        assert producer.metrics()["buffer-available-bytes"] == 33554432

    assert broker.records == []
