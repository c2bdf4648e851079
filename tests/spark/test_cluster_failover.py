"""A streaming query on three replicating brokers, of Apache Kafka and of ours, which die in turn under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, NewTopic
from tests.contract.traffic import TOPIC, Numbers
from tests.contract.waiting import eventually
from tests.peers import apache_kafka, zookeeper
from tests.peers.apache_kafka_cluster import ApacheKafkaCluster
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.zookeeper import ZooKeeperCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.slow
#: What the sink writes to.
COPY = "copy"
AnyCluster = ApacheKafkaCluster | MixedCluster | ZooKeeperCluster


def of_ours() -> AnyCluster:
    return MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1)


def of_ours_under_zookeeper() -> AnyCluster:
    return ZooKeeperCluster(theirs=0, ours=3)


_NEEDS = {ApacheKafkaCluster: apache_kafka.why_not, of_ours_under_zookeeper: zookeeper.why_not}


@pytest.fixture(
    params=[of_ours, of_ours_under_zookeeper, ApacheKafkaCluster],
    ids=["barnabas", "barnabas-zookeeper", "apache-kafka"],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    if request.param in _NEEDS and (missing := _NEEDS[request.param]()):
        pytest.skip(missing)
    with request.param() as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 6), NewTopic(COPY, 3)])
        yield running


def test_every_record_is_read_once_while_every_broker_is_killed_in_turn(
    spark: SparkSession, cluster: AnyCluster, tmp_path: Path
) -> None:
    found: list[int] = []

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(int(row.value) for row in batch.select("value").collect())

    source = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = source.options(subscribe=TOPIC, startingOffsets="earliest").load()
    query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path)).start()
    try:
        with Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers:
            for broker in cluster.brokers.values():
                broker.stop(kill=True)
                goal = numbers.sent + 500
                eventually(lambda goal=goal: max(found, default=0) > goal or not query.isActive, 90)
                broker.start()
        query.processAllAvailable()  # raises what ended the query
    finally:
        query.stop()

    assert numbers.outcomes == [None] * numbers.sent
    assert sorted(found) == list(range(numbers.sent))


def test_every_record_is_written_while_every_broker_is_killed_in_turn(
    spark: SparkSession, cluster: AnyCluster, tmp_path: Path
) -> None:
    """The plain sink writes at least once: none is missing, and none is there that was not read."""
    source = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = source.options(subscribe=TOPIC, startingOffsets="earliest").load().select("value")
    sink = rows.writeStream.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    query = sink.options(topic=COPY, checkpointLocation=str(tmp_path)).start()
    try:
        with Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers:
            for broker in cluster.brokers.values():
                broker.stop(kill=True)
                goal = numbers.sent + 500
                eventually(lambda goal=goal: _written(query) > goal or not query.isActive, 90)
                broker.start()
        query.processAllAvailable()  # raises what ended the query
    finally:
        query.stop()

    assert numbers.outcomes == [None] * numbers.sent
    read = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    found = read.option("subscribe", COPY).load().select("value").collect()
    assert {int(row.value) for row in found} == set(range(numbers.sent))


def _written(query: StreamingQuery) -> int:
    """How many records the batches that are over had."""
    return sum(progress.numInputRows for progress in query.recentProgress)
