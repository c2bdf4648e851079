"""A streaming query on three replicating brokers, of Apache Kafka and of ours, which die in turn under it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic
from barnabas.streams import KafkaStreams, Serdes, State, StreamsBuilder
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

    Among the brokers is the coordinator of each transaction, and the leader of the decisions. The last one that is
    killed stays away for good.
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
        brokers = [*cluster.brokers.values()]
        for turn, broker in enumerate([*brokers, brokers[0]]):
            broker.stop(kill=True)
            goal = numbers.sent + 500
            eventually(lambda goal=goal: _written(query) > goal or not query.isActive, 90)
            if turn < len(brokers):
                broker.start()
    assert numbers.outcomes == [None] * numbers.sent
    copy = spark.read.format("barnabas").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    committed = copy.option("kafka.isolation.level", "read_committed").option("subscribe", COPY).load()
    found = [int(row.value) for row in committed.select("value").collect()]
    assert set(found) == set(range(numbers.sent))
    assert guarantee == "at-least-once" or len(found) == numbers.sent


def test_a_streams_application_counts_each_record_once_when_a_broker_dies_for_good(
    spark: SparkSession, cluster: AnyCluster, tmp_path: Path
) -> None:
    """It coordinates some of the tasks' transactions, and leads some of their changelogs and repartition topics."""
    if isinstance(cluster, ZooKeeperCluster):
        pytest.skip("exactly once needs transaction.version 2 (KIP-890), which brokers under ZooKeeper do not have")
    builder = StreamsBuilder()
    numbers_read = builder.stream(TOPIC, key=Serdes.bytes(), value=Serdes.string())
    digits = numbers_read.group_by(lambda key, value: value[-1])
    digits.count(store="digits").to_stream().map_values(str).to(COPY, key=Serdes.string(), value=Serdes.string())
    settings = {
        "application.id": "digits", "bootstrap.servers": cluster.bootstrap_servers,
        "state.dir": str(tmp_path / "state"), "statestore.cache.max.bytes": 0,
        "default.key.serde": "string", "default.value.serde": "string",
    }  # fmt: skip
    place = str(tmp_path / "checkpoint")
    with KafkaStreams(builder.build(), settings, spark=spark, checkpoint_location=place) as streams:
        with Numbers({"bootstrap.servers": cluster.bootstrap_servers}) as numbers:
            eventually(lambda: _counted(cluster) > 0 or streams.state is State.ERROR, 90)
            cluster.brokers[2].stop(kill=True)
            goal = numbers.sent + 500
            eventually(lambda: _counted(cluster) > goal or streams.state is State.ERROR, 120)
        eventually(lambda: _counted(cluster) >= numbers.sent or streams.state is State.ERROR, 120)
        assert streams.state is State.RUNNING, streams.exception
    assert numbers.outcomes == [None] * numbers.sent
    assert _counts(cluster) == {str(digit): [*range(1, numbers.sent // 10 + 1)] for digit in range(10)}


def _counted(cluster: AnyCluster) -> int:
    return sum(map(len, _counts(cluster).values()))


def _counts(cluster: AnyCluster) -> dict[str, list[int]]:
    """What readers of committed records see of each digit's count, in their order."""
    partitions = [(COPY, number) for number in range(3)]
    found: dict[str, list[int]] = {}
    settings: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "isolation_level": "read_committed"}
    with Consumer(auto_offset_reset="earliest", **settings) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < end for each, end in ends.items()):
            for record in consumer.poll(timeout=0.5):
                found.setdefault((record.key or b"").decode(), []).append(int(record.value or b""))
    return found


def _written(query: StreamingQuery) -> int:
    """How many records the batches that are over had."""
    return sum(progress.numInputRows for progress in query.recentProgress)
