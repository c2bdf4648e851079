"""A streaming query on three replicating brokers of Apache Kafka, which die in turn under it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, NewTopic, Producer
from tests.contract.waiting import eventually
from tools import apache_kafka
from tools.apache_kafka_cluster import ApacheKafkaCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow

TOPIC = "numbers"


@pytest.fixture
def cluster() -> Iterator[ApacheKafkaCluster]:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with ApacheKafkaCluster() as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 6)])
        yield running


class Numbers:
    """Sends one number after the other, until the block ends."""

    def __init__(self, servers: str) -> None:
        self._producer: Producer[Any, Any] = Producer(bootstrap_servers=servers)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.errors: list[Exception] = []
        self.sent = 0

    def _write(self) -> None:
        while not self._is_over.wait(0.02):
            for _ in range(10):
                self._producer.send(TOPIC, b"%d" % self.sent, on_delivery=self._on_delivery)
                self.sent += 1

    def _on_delivery(self, _: object, error: Exception | None) -> None:
        if error is not None:
            self.errors.append(error)

    def __enter__(self) -> Numbers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close(60)


def test_every_record_is_read_once_while_every_broker_is_killed_in_turn(
    spark: SparkSession, cluster: ApacheKafkaCluster, tmp_path: Path
) -> None:
    found: list[int] = []

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(int(row.value) for row in batch.select("value").collect())

    source = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = source.options(subscribe=TOPIC, startingOffsets="earliest").load()
    query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path)).start()
    try:
        with Numbers(cluster.bootstrap_servers) as numbers:
            for broker in cluster.brokers.values():
                broker.stop(kill=True)
                goal = numbers.sent + 500
                eventually(lambda goal=goal: max(found, default=0) > goal or not query.isActive, 90)
                broker.start()
        query.processAllAvailable()  # raises what ended the query
    finally:
        query.stop()

    assert not numbers.errors
    assert sorted(found) == list(range(numbers.sent))
