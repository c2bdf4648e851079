"""`guarantee=exactly-once` on a running Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer

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


def test_a_batch_query_is_told_that_it_cannot_have_it(spark: SparkSession, servers: str) -> None:
    writer = spark.sql("select 'v' as value").write.format("barnabas").mode("append")

    with pytest.raises(Exception, match="guarantee=exactly-once is for streaming queries"):
        writer.options(**{"kafka.bootstrap.servers": servers, "topic": "never", "guarantee": "exactly-once"}).save()
