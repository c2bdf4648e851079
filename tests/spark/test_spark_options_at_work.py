"""Options of the source beyond the first ones, in a real Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import barnabas.spark
from barnabas import AdminClient, Producer
from barnabas.spark.lag import LagListener, lags_of
from barnabas.spark.offsets import to_json
from barnabas.spark.watermarks import for_bounded_out_of_orderness
from tests.support.patience import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopicName = Callable[[int], str]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def send(servers: str, topic: str, values: list[bytes], **fields: Any) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, **fields)


def frame(spark: SparkSession, servers: str, topic: str, *, stream: bool = False, **options: str) -> DataFrame:
    source = spark.readStream if stream else spark.read
    given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}
    return source.format("barnabas").options(**given).load()


def write_available(rows: DataFrame, folder: Path, checkpoint: Path) -> Any:
    writer = (
        rows.writeStream.format("parquet").option("path", str(folder)).option("checkpointLocation", str(checkpoint))
    )
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(100)
    return query


def values_of(rows: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in rows.select("value").collect())


def test_columns_bounds_what_is_decoded_and_max_records_per_partition_what_a_task_reads(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"%03d" % number for number in range(100)], key=b"k", headers=[("h", b"1")])

    rows = frame(spark, servers, topic, columns="value,headers", maxRecordsPerPartition="30")

    assert rows.columns == ["value", "headers"]
    assert rows.rdd.getNumPartitions() == 4
    assert values_of(rows) == [b"%03d" % number for number in range(100)]


def test_a_batch_lies_between_two_times(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    for time_ms in range(1000, 9000, 1000):
        send(servers, topic, [b"%d" % time_ms], timestamp_ms=time_ms)

    rows = frame(spark, servers, topic, startingTimestamp="2500", endingTimestamp="6000")

    assert values_of(rows) == [b"3000", b"4000", b"5000"]


@pytest.fixture
def filtering_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with filters pushed down to Python sources."""
    spark.conf.set(PUSHDOWN, "true")
    barnabas.spark.register(spark)
    yield spark
    spark.conf.set(PUSHDOWN, "false")
    barnabas.spark.register(spark)


def test_filters_are_pushed_down_where_spark_allows_it(
    filtering_spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(3)
    for partition in range(3):
        for time_ms in range(1000, 6000, 1000):
            send(servers, topic, [b"%d-%d" % (partition, time_ms)], partition=partition, timestamp_ms=time_ms)

    rows = frame(filtering_spark, servers, topic, minRecordsPerPartition="0").where(
        "partition >= 1 and offset < 4 and unix_millis(timestamp) > 0"
    )
    late = frame(filtering_spark, servers, topic).where("timestamp >= timestamp_millis(3500) and partition = 2")

    assert rows.rdd.getNumPartitions() == 2
    assert values_of(rows) == [b"%d-%d" % (number, time) for number in (1, 2) for time in range(1000, 5000, 1000)]
    assert values_of(late) == [b"2-4000", b"2-5000"]


@pytest.mark.shows("S0.1", breaks="barnabas.spark.data_source:BarnabasDataSource.streamReader")
@pytest.mark.shows("S0.11", breaks="barnabas.spark.stream_reader:KafkaStreamReader.partitions")
@pytest.mark.shows("S0.65", breaks="barnabas.spark.offsets:from_json")
def test_a_thousand_elements_arrive_once_each_through_micro_batches_a_restart_and_a_checkpoint(
    spark: SparkSession, servers: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, group = new_topic(2), f"group-{tmp_path.name}"
    options = {
        "startingOffsets": "earliest", "maxOffsetsPerTrigger": "300",
        "kafka.group.id": group, "offsetCommitMode": "onCheckpoint",
    }  # fmt: skip
    send(servers, topic, [b"%04d" % number for number in range(500)])
    write_available(frame(spark, servers, topic, stream=True, **options), tmp_path / "rows", tmp_path / "checkpoint")
    send(servers, topic, [b"%04d" % number for number in range(500, 1000)])

    again = frame(spark, servers, topic, stream=True, **options)
    query = write_available(again, tmp_path / "rows", tmp_path / "checkpoint")

    assert values_of(spark.read.parquet(str(tmp_path / "rows"))) == [b"%04d" % number for number in range(1000)]
    # Spark reports a micro-batch as finished when it plans the next: the group stands where the last one began.
    last = [progress for progress in query.recentProgress if progress["numInputRows"]][-1]
    with AdminClient(bootstrap_servers=servers) as admin:
        committed = admin.list_consumer_group_offsets(group)
    assert to_json({partition: found.offset for partition, found in committed.items()}) == json.loads(
        last["sources"][0]["startOffset"]
    )


@pytest.mark.shows("S0.21", breaks="barnabas.spark.watermarks:WatermarkStrategy.apply")
@pytest.mark.shows("S0.23", breaks="barnabas.spark.lag:lags_of")
def test_lag_and_watermark_of_a_query_that_reads_a_bit_at_a_time(
    spark: SparkSession, servers: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"%d" % number for number in range(100)], timestamp_ms=1_370_000_000_000)
    caught_up = threading.Event()
    listener = LagListener(lambda lag: caught_up.set() if not lag.total else None)
    spark.streams.addListener(listener)
    stream = frame(spark, servers, topic, stream=True, startingOffsets="earliest", maxOffsetsPerTrigger="60")
    counts = for_bounded_out_of_orderness(10).apply(stream).groupBy("timestamp").count()

    query = write_available(counts, tmp_path / "rows", tmp_path / "checkpoint")
    assert caught_up.wait(PATIENCE)  # Spark tells its listeners later
    spark.streams.removeListener(listener)

    watermarks = [progress["eventTime"].get("watermark") for progress in query.recentProgress]
    assert "2013-05-31T11:33:10.000Z" in watermarks
    assert [lag.total for lag in lags_of(query.recentProgress[0])] == [40]
    assert [lag.total for lag in lags_of(query.lastProgress)] == [0]
    assert [lag.total for lag in listener.lag(str(query.id))] == [0]
