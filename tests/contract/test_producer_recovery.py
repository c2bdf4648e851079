"""The producer and a broker that is killed and started again on the same data."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from barnabas import Broker, Producer, TopicPartition
from barnabas.errors import TransactionAbortableError
from tests.peers import apache_kafka
from tests.support.patience import PATIENCE


def test_killing_the_broker_twice_loses_nothing_doubles_nothing_and_keeps_the_order() -> None:
    with Broker() as broker:
        outcomes: list[Any] = []
        done = threading.Event()

        def kill_and_restart() -> None:
            for _ in range(2):
                time.sleep(0.7)
                broker.kill()
                time.sleep(0.3)
                broker.restart()
            done.set()

        killer = threading.Thread(target=kill_and_restart)
        sent = 0
        with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=2000) as producer:
            producer.send("t", b"0").result(60)
            killer.start()
            while not done.is_set():
                for _ in range(20):
                    sent += 1
                    producer.send("t", b"%d" % sent, on_delivery=lambda _, error: outcomes.append(error))
                time.sleep(0.001)
            producer.flush(90)
        killer.join()

        assert outcomes == [None] * sent
        assert read(broker.bootstrap_servers, sent + 1) == list(range(sent + 1))


@pytest.mark.parametrize("peer", ["barnabas", "apache-kafka"])
def test_killing_the_broker_in_mid_transaction_neither_loses_nor_doubles_what_was_committed(peer: str) -> None:
    if peer == "barnabas":
        with Broker() as broker:
            write_while_the_broker_dies(broker.bootstrap_servers, broker.kill, broker.restart, (3, 7))
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with apache_kafka.ApacheKafka(heap="512m") as kafka:
        write_while_the_broker_dies(kafka.bootstrap_servers, lambda: kafka.stop(kill=True), kafka.start, (5,))


def write_while_the_broker_dies(
    bootstrap_servers: str, kill: Callable[[], object], restart: Callable[[], object], dies_in: tuple[int, ...]
) -> None:
    """Each transaction writes the number that its own offset in a group says is next, five times."""
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap_servers, "transactional_id": "writer"}
    progress, committed = TopicPartition("t", 0), list[int]()
    with Producer(**settings, max_block_ms=180_000) as producer:
        producer.init_transactions()
        for number in range(12):
            while number not in committed:
                producer.begin_transaction()
                for _ in range(5):
                    producer.send("t", b"%d" % number, partition=0)
                producer.send_offsets_to_transaction({progress: number + 1}, "progress")
                if number in dies_in:
                    dies_in = tuple(other for other in dies_in if other != number)
                    kill()
                    threading.Timer(0.5, restart).start()
                try:
                    producer.commit_transaction()
                except TransactionAbortableError:
                    producer.abort_transaction()
                else:
                    committed.append(number)

    assert read(bootstrap_servers, 60) == [number for number in range(12) for _ in range(5)]
    assert committed_offset(bootstrap_servers) == 12


def test_a_prepared_transaction_outlives_its_producer_and_the_broker() -> None:
    with Broker(transaction_two_phase_commit_enable=True) as broker:
        settings = {"transactional_id": "two-phase", "transaction_two_phase_commit_enable": True}
        for value in (b"1", b"2"):
            with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send("t", value, partition=0)
                prepared = producer.prepare_transaction()
                assert producer.metrics()["txn-prepare-time-ns-total"] > 0
            broker.kill()
            broker.restart()
            with Producer(bootstrap_servers=broker.bootstrap_servers, **settings) as producer:
                producer.init_transactions(keep_prepared_txn=True)
                # The other participant has committed the first transaction only.
                producer.complete_transaction(str(prepared) if value == b"1" else "12345:6")
                with producer.transaction():
                    producer.send("t", b"-" + value, partition=0)

        assert read(broker.bootstrap_servers, 3) == [1, -1, -2]


def committed_offset(bootstrap_servers: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "progress"})
    try:
        found: int = consumer.committed([confluent_kafka.TopicPartition("t", 0)], timeout=120)[0].offset
        return found
    finally:
        consumer.close()


def read(bootstrap_servers: str, count: int) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        values: list[int] = []
        deadline = time.monotonic() + PATIENCE
        while len(values) < count and time.monotonic() < deadline:
            values += [int(record.value()) for record in consumer.consume(10_000, 0.5) if record.error() is None]
        return values
    finally:
        consumer.close()
