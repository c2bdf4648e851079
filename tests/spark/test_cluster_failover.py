"""A streaming query on three replicating brokers, of Apache Kafka and of ours, which die in turn under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas import AdminClient, NewTopic
from tests.contract.traffic import TOPIC, Numbers
from tests.contract.waiting import eventually
from tests.peers import apache_kafka
from tests.peers.apache_kafka_cluster import ApacheKafkaCluster
from tests.peers.mixed_cluster import MixedCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow
AnyCluster = ApacheKafkaCluster | MixedCluster


def of_ours() -> AnyCluster:
    return MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1)


@pytest.fixture(params=[of_ours, ApacheKafkaCluster], ids=["barnabas", "apache-kafka"])
def cluster(request: pytest.FixtureRequest) -> Iterator[AnyCluster]:
    missing = apache_kafka.why_not()
    if missing and request.param is ApacheKafkaCluster:
        pytest.skip(missing)
    with request.param() as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 6)])
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
