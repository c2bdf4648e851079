"""`guarantee=exactly-once` on a running Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Broker, Consumer, NewTopic
from barnabas.client.admin.cluster import FeatureUpdate
from barnabas.client.admin.partition_offsets import OffsetSpec
from barnabas.protocol.kinds import UpgradeType
from barnabas.protocol.topic_partition import TopicPartition
from tests.peers import apache_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]


def committed(servers: str, topic: str, partitions: int) -> Counter[bytes]:
    wanted = [(topic, number) for number in range(partitions)]
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(wanted)
        ends = {tuple(partition): end for partition, end in consumer.end_offsets(wanted).items()}
        seen: Counter[bytes] = Counter()
        while any(consumer.position(each) < ends[each] for each in wanted):
            seen.update(record.value for record in consumer.poll(timeout=0.5))
        return seen


def test_a_batch_that_spark_repeats_is_not_written_again(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(2), new_topic(2)
    options: dict[str, Any] = {"kafka.bootstrap.servers": servers}
    rows = spark.range(100).selectExpr("cast(id as string) as value")
    rows.write.format("barnabas").mode("append").options(**options, topic=source).save()

    def run() -> None:
        read = spark.readStream.format("barnabas").options(**options, subscribe=source, startingOffsets="earliest")
        query = (
            read.load().select("value").writeStream.format("barnabas")
            .options(**options, topic=target, guarantee="exactly-once", checkpointLocation=checkpoint)
            .trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(60)

    run()
    commits = Path(checkpoint) / "commits"
    for entry in (*commits.glob("0"), *commits.glob(".0.crc")):
        entry.unlink()
    run()

    assert committed(servers, target, 2) == {b"%d" % number: 1 for number in range(100)}
    with AdminClient(bootstrap_servers=servers) as admin:
        assert admin.list_transactions(states=["Ongoing"]) == {}


def test_the_group_of_the_source_never_runs_ahead_of_what_the_sink_has_committed(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(1), new_topic(2)
    group, options = f"g-{source}", {"kafka.bootstrap.servers": servers}
    rows = spark.range(250).selectExpr("cast(id as string) as value")
    rows.write.format("barnabas").mode("append").options(**options, topic=source).save()
    read = spark.readStream.format("barnabas").options(**options, subscribe=source, startingOffsets="earliest")
    read = read.options(maxOffsetsPerTrigger="100", offsetCommitMode="onCheckpoint").option("kafka.group.id", group)
    places = []

    with AdminClient(bootstrap_servers=servers) as admin:
        query = (
            read.load().select("value").writeStream.format("barnabas")
            .options(**options, topic=target, guarantee="exactly-once", checkpointLocation=checkpoint)
            .trigger(availableNow=True).start()
        )  # fmt: skip
        while query.isActive:
            place = sum(found.offset for found in admin.list_consumer_group_offsets(group).values())
            places.append((place, committed(servers, target, 2).total()))
        assert query.awaitTermination(60)
        ((_, last),) = admin.list_consumer_group_offsets(group).items()

    assert all(place <= seen for place, seen in places), places
    assert (last.offset, committed(servers, target, 2).total()) == (200, 250)


def test_a_batch_query_is_told_that_it_cannot_have_it(spark: SparkSession, servers: str) -> None:
    writer = spark.sql("select 'v' as value").write.format("barnabas").mode("append")

    with pytest.raises(Exception, match="guarantee=exactly-once is for streaming queries"):
        writer.options(**{"kafka.bootstrap.servers": servers, "topic": "never", "guarantee": "exactly-once"}).save()


def cluster_of_its_own(kind: str) -> AbstractContextManager[Any]:
    if kind == "barnabas":
        return Broker()
    if missing := apache_kafka.why_not():
        pytest.skip(missing)
    return apache_kafka.ApacheKafka()


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        ("barnabas", 1),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in (("barnabas", 0), ("apache", 0), ("apache", 1))),
    ],
)
def test_a_cluster_without_transaction_version_2_is_refused_before_a_row_is_written(
    spark: SparkSession, checkpoint: str, kind: str, level: int
) -> None:
    with cluster_of_its_own(kind) as cluster:
        servers = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.update_features({"transaction.version": FeatureUpdate(level, UpgradeType.SAFE_DOWNGRADE)})
            admin.create_topics([NewTopic("rows", num_partitions=1)])
        rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10).load()
        query = (
            rows.selectExpr("cast(value as string) as value").writeStream.format("barnabas")
            .options(topic="rows", guarantee="exactly-once", checkpointLocation=checkpoint)
            .option("kafka.bootstrap.servers", servers).start()
        )  # fmt: skip

        with pytest.raises(Exception, match=r"transaction.version is below 2.*kafka-features.sh upgrade"):
            query.awaitTermination(60)

        with AdminClient(bootstrap_servers=servers) as admin:
            (end,) = admin.list_offsets({TopicPartition("rows", 0): int(OffsetSpec.LATEST)}).values()
        assert end.offset == 0
