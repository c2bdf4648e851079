"""A streaming query on three replicating brokers, of Apache Kafka and of ours, which die in turn under it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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


def of_ours_under_three_controllers() -> AnyCluster:
    return MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=3)


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


@contextmanager
def reading(spark: SparkSession, cluster: AnyCluster, folder: Path) -> Iterator[tuple[StreamingQuery, list[int]]]:
    """A query that keeps what it reads; when it ends, it has read all."""
    found: list[int] = []

    def collect(batch: DataFrame, _: int) -> None:
        found.extend(int(row.value) for row in batch.select("value").collect())

    query = numbers_of(spark, cluster).writeStream.foreachBatch(collect).option("checkpointLocation", str(folder))
    with running(query.start()) as started:
        yield started, found


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
        query.processAllAvailable()  # raises what ended the query
    finally:
        query.stop()


def numbers_of(spark: SparkSession, cluster: AnyCluster) -> DataFrame:
    source = spark.readStream.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return source.options(subscribe=TOPIC, startingOffsets="earliest").load()


def test_every_record_is_read_once_while_every_broker_is_killed_in_turn(
    spark: SparkSession, cluster: AnyCluster, tmp_path: Path
) -> None:
    with (
        reading(spark, cluster, tmp_path) as (query, found),
        Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers,
    ):
        for broker in cluster.brokers.values():
            broker.stop(kill=True)
            goal = numbers.sent + 500
            eventually(lambda goal=goal: max(found, default=0) > goal or not query.isActive, 90)
            broker.start()
    assert numbers.outcomes == [None] * numbers.sent
    assert sorted(found) == list(range(numbers.sent))


@pytest.mark.parametrize("cluster", [of_ours_under_three_controllers], indirect=True, ids=["barnabas"])
def test_every_record_is_read_once_while_every_controller_is_killed_in_turn(
    spark: SparkSession, cluster: MixedCluster, tmp_path: Path
) -> None:
    with (
        reading(spark, cluster, tmp_path) as (query, found),
        Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        for turn, controller in enumerate(cluster.controllers.values()):
            controller.stop(kill=True)
            # Another one is active: what needs a controller is done.
            admin.create_topics([NewTopic(f"made-{turn}", 1)], timeout=60)
            goal = numbers.sent + 500
            eventually(lambda goal=goal: max(found, default=0) > goal or not query.isActive, 90)
            controller.start()
    assert numbers.outcomes == [None] * numbers.sent
    assert sorted(found) == list(range(numbers.sent))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_every_record_is_written_while_every_broker_is_killed_in_turn(
    spark: SparkSession, cluster: AnyCluster, tmp_path: Path, guarantee: str
) -> None:
    """The plain sink writes no record less than once, the other one each exactly once.

    Among the brokers is the coordinator of each transaction, and the leader of the decisions. Before a batch is decided
    all brokers are asked what is open: one that is away for longer than `default.api.timeout.ms` ends the query.
    """
    if guarantee == "exactly-once" and isinstance(cluster, ZooKeeperCluster):
        pytest.skip("the sink needs transaction.version 2 (KIP-890), which brokers under ZooKeeper do not have")
    sink = numbers_of(spark, cluster).select("value").writeStream.format("barnabas")
    sink = sink.option("kafka.bootstrap.servers", cluster.bootstrap_servers).option("guarantee", guarantee)
    with (
        running(sink.options(topic=COPY, checkpointLocation=str(tmp_path)).start()) as query,
        Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers,
    ):
        eventually(lambda: _written(query) > 0 or not query.isActive, 90)
        for broker in cluster.brokers.values():
            broker.stop(kill=True)
            if guarantee == "exactly-once":
                time.sleep(1)
                broker.start()
            goal = numbers.sent + 500
            eventually(lambda goal=goal: _written(query) > goal or not query.isActive, 90)
            if guarantee == "at-least-once":
                broker.start()
    assert numbers.outcomes == [None] * numbers.sent
    copy = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    committed = copy.option("kafka.isolation.level", "read_committed").option("subscribe", COPY).load()
    found = [int(row.value) for row in committed.select("value").collect()]
    assert set(found) == set(range(numbers.sent))
    assert guarantee == "at-least-once" or len(found) == numbers.sent


def _written(query: StreamingQuery) -> int:
    """How many records the batches that are over had."""
    return sum(progress.numInputRows for progress in query.recentProgress)
