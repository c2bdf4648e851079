"""The producer and a broker that is killed and started again on the same data."""

from __future__ import annotations

import threading
import time
from typing import Any

import confluent_kafka

from barnabas import Broker, Producer


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
            producer.send("t", b"0").result(30)
            killer.start()
            while not done.is_set():
                for _ in range(20):
                    sent += 1
                    producer.send("t", b"%d" % sent, on_delivery=lambda _, error: outcomes.append(error))
                time.sleep(0.001)
            producer.flush(60)
        killer.join()

        assert outcomes == [None] * sent
        assert read(broker.bootstrap_servers, sent + 1) == list(range(sent + 1))


def read(bootstrap_servers: str, count: int) -> list[int]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader"})
    try:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        values: list[int] = []
        deadline = time.monotonic() + 30
        while len(values) < count and time.monotonic() < deadline:
            values += [int(record.value()) for record in consumer.consume(10_000, 0.5) if record.error() is None]
        return values
    finally:
        consumer.close()
