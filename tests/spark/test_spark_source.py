"""What `format("barnabas")` reads, in batches and as a stream."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Producer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTopicName = Callable[[int], str]


def send(servers: str, topic: str, values: list[Any], **fields: Any) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send(topic, value, **fields)


def read(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    return spark.read.format("barnabas").options(**{"kafka.bootstrap.servers": servers, **options}).load()


def stream(spark: SparkSession, servers: str, **options: Any) -> DataFrame:
    return spark.readStream.format("barnabas").options(**{"kafka.bootstrap.servers": servers, **options}).load()


def values_of(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


def run_available(frame: DataFrame, name: str, checkpoint: str) -> Any:
    query = (
        frame.writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return query


def write_available(frame: DataFrame, folder: Path, checkpoint: str) -> None:
    writer = frame.writeStream.format("parquet").option("path", str(folder)).option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start().awaitTermination(60)


def test_a_record_becomes_a_row_with_the_built_in_connectors_columns(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"v"], key=b"k", timestamp_ms=1_370_000_000_123, headers=[("h", b"1"), ("n", None)])

    frame = read(spark, servers, subscribe=topic, includeHeaders="true")

    assert frame.dtypes == [
        ("key", "binary"), ("value", "binary"), ("topic", "string"), ("partition", "int"), ("offset", "bigint"),
        ("timestamp", "timestamp"), ("timestampType", "int"), ("headers", "array<struct<key:string,value:binary>>"),
    ]  # fmt: skip
    row = frame.selectExpr("*", "unix_millis(timestamp) as ms").collect()[0]
    assert (bytes(row.key), bytes(row.value), row.topic, row.partition, row.offset) == (b"k", b"v", topic, 0, 0)
    assert (row.ms, row.timestampType) == (1_370_000_000_123, 0)
    assert [(header.key, header.value) for header in row.headers] == [("h", b"1"), ("n", None)]


def test_null_keys_null_values_and_missing_headers_stay_null(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(servers, topic, [None, b""])

    rows = read(spark, servers, subscribe=topic, includeHeaders="true").orderBy("offset").collect()

    assert [(row.key, row.value, row.headers) for row in rows] == [(None, None, None), (None, b"", None)]


def test_a_batch_reads_the_offsets_it_is_given(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"%d" % number for number in range(10)])

    found = read(
        spark, servers, subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":3}}}}', endingOffsets=f'{{"{topic}":{{"0":7}}}}',
    )  # fmt: skip

    assert values_of(found) == [b"3", b"4", b"5", b"6"]


def test_assign_reads_only_the_partitions_it_names(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    topic = new_topic(3)
    for partition in range(3):
        send(servers, topic, [b"p%d" % partition], partition=partition)

    found = read(spark, servers, assign=f'{{"{topic}":[0,2]}}')

    assert values_of(found) == [b"p0", b"p2"]


def test_a_pattern_reads_every_topic_in_whose_name_it_is_found(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    first, second = new_topic(1), new_topic(2)
    for number, topic in enumerate((first, f"old-{first}-1", second, f"{second}-2")):
        send(servers, topic, [b"%d" % number])

    found = read(spark, servers, subscribePattern=f" {first}-|^{second}$|nothing ")

    assert values_of(found) == [b"1", b"2"]


def test_min_partitions_divides_a_partition_among_tasks(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"%05d" % number for number in range(10_000)])

    found = read(spark, servers, subscribe=topic, minPartitions="4")

    assert found.rdd.getNumPartitions() == 4
    assert values_of(found) == [b"%05d" % number for number in range(10_000)]


def test_available_now_reads_what_is_there_and_goes_on_from_its_checkpoint(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str, tmp_path: Path
) -> None:
    topic = new_topic(3)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    send(servers, topic, [b"a%04d" % number for number in range(1000)])

    write_available(stream(spark, servers, **options), tmp_path / "rows", checkpoint)
    send(servers, topic, [b"b%04d" % number for number in range(500)])
    write_available(stream(spark, servers, **options), tmp_path / "rows", checkpoint)

    expected = [b"a%04d" % number for number in range(1000)] + [b"b%04d" % number for number in range(500)]
    assert values_of(spark.read.parquet(str(tmp_path / "rows"))) == expected


def test_max_offsets_per_trigger_bounds_every_micro_batch(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    topic = new_topic(2)
    send(servers, topic, [b"%04d" % number for number in range(1000)])

    rows = stream(spark, servers, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="300")
    query = run_available(rows, "bounded", checkpoint)

    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert sum(sizes) == 1000
    assert max(sizes) <= 302
    assert len(sizes) >= 4


def test_a_partition_added_while_the_query_runs_is_read_from_its_beginning(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    first, later = new_topic(1), f"later-{new_topic(1)}"
    options = {"subscribePattern": f"{first}|{later}", "startingOffsets": "earliest"}
    send(servers, first, [b"1"])
    query = (
        stream(spark, servers, **options)
        .writeStream.format("memory").queryName("growing").option("checkpointLocation", checkpoint).start()
    )  # fmt: skip
    query.processAllAvailable()

    send(servers, later, [b"2", b"3"])  # creates the topic
    with AdminClient(bootstrap_servers=servers) as admin:
        assert later in admin.list_topics()
    for _ in range(40):
        query.processAllAvailable()
        if spark.table("growing").count() == 3:
            break
    query.stop()

    assert values_of(spark.table("growing")) == [b"1", b"2", b"3"]


def test_specific_offsets_must_name_every_partition(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    topic = new_topic(2)

    with pytest.raises(Exception, match="startingOffsets must name every partition"):
        read(spark, servers, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}').collect()


def test_offsets_that_are_gone_stop_the_query_and_say_so(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(servers, topic, [b"1", b"2"])
    beyond = {"startingOffsets": f'{{"{topic}":{{"0":5}}}}', "endingOffsets": f'{{"{topic}":{{"0":9}}}}'}

    with pytest.raises(Exception, match="are gone"):
        read(spark, servers, subscribe=topic, **beyond).collect()
