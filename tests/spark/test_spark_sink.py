"""What `format("barnabas")` writes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from time import time as time_now
from typing import TYPE_CHECKING, Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic
from barnabas.spark.foreach_batch import batch_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTopicName = Callable[[int], str]


def consume(servers: str, topic: str, count: int) -> list[Any]:
    found: list[Any] = []
    with Consumer(topic, bootstrap_servers=servers, group_id=f"g-{topic}", auto_offset_reset="earliest") as consumer:
        deadline = time.monotonic() + 30
        while len(found) < count and time.monotonic() < deadline:
            found += consumer.poll(timeout=1.0)
    return found


def test_rows_become_records_with_keys_values_headers_and_partitions(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(3)
    rows = spark.sql(
        "select 'k' as key, 'v' as value, 2 as partition, "
        "array(named_struct('key', 'h', 'value', cast('1' as binary))) as headers"
    )

    rows.write.format("barnabas").mode("append").options(**{"kafka.bootstrap.servers": servers, "topic": topic}).save()

    record = consume(servers, topic, 1)[0]
    assert (record.key, record.value, record.partition, list(record.headers)) == (b"k", b"v", 2, [("h", b"1")])


def test_every_row_of_a_large_frame_arrives_once(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    topic = new_topic(4)
    rows = spark.range(50_000).selectExpr("cast(id as string) as key", "cast(cast(id as string) as binary) as value")

    rows.write.format("barnabas").mode("append").options(**{"kafka.bootstrap.servers": servers, "topic": topic}).save()

    keys = sorted(int(record.key) for record in consume(servers, topic, 50_000))
    assert keys == list(range(50_000))


def test_the_topic_column_chooses_the_topic_of_each_row(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    even, odd = new_topic(1), new_topic(1)
    rows = spark.range(10).selectExpr(f"if(id % 2 = 0, '{even}', '{odd}') as topic", "cast(id as string) as value")

    rows.write.format("barnabas").mode("append").options(**{"kafka.bootstrap.servers": servers}).save()

    assert sorted(record.value for record in consume(servers, even, 5)) == [b"0", b"2", b"4", b"6", b"8"]
    assert sorted(record.value for record in consume(servers, odd, 5)) == [b"1", b"3", b"5", b"7", b"9"]


def test_a_stream_goes_from_topic_to_topic(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(2), new_topic(2)
    options = {"kafka.bootstrap.servers": servers}
    rows = spark.range(1000).selectExpr("cast(id as string) as value")
    rows.write.format("barnabas").mode("append").options(**options, topic=source).save()

    stream = spark.readStream.format("barnabas").options(**options, subscribe=source, startingOffsets="earliest").load()
    query = (
        stream.selectExpr("key", "concat('seen ', cast(value as string)) as value")
        .writeStream.format("barnabas").options(**options, topic=target, checkpointLocation=checkpoint)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(60)

    values = sorted(record.value for record in consume(servers, target, 1000))
    assert values == sorted(b"seen %d" % number for number in range(1000))


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("1 as value", r"value attribute unsupported type int. value must be a\(n\) string or binary"),
        ("'k' as key", "Required attribute 'value' not found"),
        ("'v' as value, 'one' as partition", r"partition attribute unsupported type string. .* must be a\(n\) int"),
    ],
)
def test_rows_that_cannot_be_written_are_refused_in_the_words_of_the_built_in_connector(
    spark: SparkSession, servers: str, select: str, message: str
) -> None:
    writer = spark.sql(f"select {select}").write.format("barnabas").mode("append")

    with pytest.raises(Exception, match=message):
        writer.options(**{"kafka.bootstrap.servers": servers, "topic": "never"}).save()


def test_columns_that_are_no_part_of_a_record_are_left_out_and_the_option_topic_wins(
    spark: SparkSession, servers: str, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    rows = spark.sql("select 'v' as value, 'elsewhere' as topic, 7 as offset, current_timestamp() as timestamp")

    rows.write.format("barnabas").mode("append").options(**{"kafka.bootstrap.servers": servers, "topic": topic}).save()

    assert [record.value for record in consume(servers, topic, 1)] == [b"v"]


def written_records(spark: SparkSession, servers: str, topic: str, select: str, **options: str) -> list[Any]:
    rows = spark.sql(select)
    rows.write.format("barnabas").mode("append").options(
        **{"kafka.bootstrap.servers": servers, "topic": topic}, **options
    ).save()
    return consume(servers, topic, rows.count())


@pytest.mark.parametrize("time", ["timestamp_millis(1370000000123)", "1370000000123"])
def test_the_column_timestamp_is_the_records_time_and_null_is_now(
    spark: SparkSession, servers: str, new_topic: NewTopicName, time: str
) -> None:
    before = int(time_now() * 1000)

    given, now = written_records(
        spark, servers, new_topic(1), f"select explode(array({time}, null)) as timestamp, 'v' as value"
    )

    assert (given.timestamp, given.timestamp_type) == (1_370_000_000_123, 0)
    assert before - 1000 <= now.timestamp <= int(time_now() * 1000) + 1000


def test_a_topic_with_log_append_time_keeps_the_brokers_time(spark: SparkSession, servers: str) -> None:
    topic, before = f"appended-{servers[-5:]}", int(time_now() * 1000)
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, configs={"message.timestamp.type": "LogAppendTime"})])

    (record,) = written_records(spark, servers, topic, "select 'v' as value, 5L as timestamp")

    assert record.timestamp_type == 1
    assert before - 1000 <= record.timestamp <= int(time_now() * 1000) + 1000


def test_a_time_before_1970_fails_the_job(spark: SparkSession, servers: str, new_topic: NewTopicName) -> None:
    with pytest.raises(Exception, match="holds -1, which is before 1970"):
        written_records(spark, servers, new_topic(1), "select 'v' as value, -1L as timestamp")


@pytest.mark.parametrize("kind", ["timestamp_millis(5)", "5", "'noon'"])
def test_without_timestamps_a_frame_becomes_what_the_built_in_connector_makes_of_it(
    spark: SparkSession, servers: str, new_topic: NewTopicName, kind: str
) -> None:
    if not spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's built-in connector is missing (Maven fetches it)")
    select = (
        f"select {kind} as timestamp, cast(id as string) as key, if(id = 1, null, 'v') as value, "
        "cast(id % 2 as int) as partition, if(id = 2, null, array(named_struct('key', 'h', 'value', binary('1')), "
        "named_struct('key', 'h', 'value', cast(null as binary)))) as headers from range(6)"
    )
    built_in, ours, before = new_topic(2), new_topic(2), int(time_now() * 1000)

    spark.sql(select).write.format("kafka").options(
        **{"kafka.bootstrap.servers": servers, "topic": built_in, "includeHeaders": "true"}
    ).save()
    written = written_records(spark, servers, ours, select, includeTimestamp="false")

    def content(records: list[Any]) -> list[Any]:
        return sorted(
            (
                record.partition,
                record.key,
                record.value,
                [*record.headers],
                record.timestamp_type,
                record.timestamp > before - 1000,
            )
            for record in records
        )

    assert content(written) == content(consume(servers, built_in, 6))


def test_a_row_without_topic_fails_the_job(spark: SparkSession, servers: str) -> None:
    writer = spark.sql("select 'v' as value, cast(null as string) as topic").write.format("barnabas").mode("append")

    with pytest.raises(Exception, match="null topic present in the data"):
        writer.options(**{"kafka.bootstrap.servers": servers}).save()


def test_update_mode_writes_what_changed_by_foreach_batch(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    source, target = new_topic(1), new_topic(1)
    options = {"kafka.bootstrap.servers": servers}

    def run(*keys: str) -> None:
        rows = spark.createDataFrame([(key, "v") for key in keys], "key string, value string")
        rows.write.format("barnabas").mode("append").options(**options, topic=source).save()
        read = spark.readStream.format("barnabas").options(**options, subscribe=source, startingOffsets="earliest")
        counts = read.load().groupBy("key").count().selectExpr("key", "cast(count as string) as value")
        query = (
            counts.writeStream.outputMode("update").foreachBatch(batch_writer({**options, "topic": target}))
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )  # fmt: skip
        assert query.awaitTermination(60)

    run("a", "b", "a")
    run("b")

    found = [(record.key, record.value) for record in consume(servers, target, 3)]
    assert (sorted(found[:2]), found[2:]) == ([(b"a", b"2"), (b"b", b"1")], [(b"b", b"2")])


def test_a_process_writes_rows_without_loading_pandas(servers: str, new_topic: NewTopicName) -> None:
    import pyarrow as pa

    first, second = new_topic(2), new_topic(2)
    rows = pa.table({
        "topic": [first, second, first], "key": [b"k", None, None], "value": [b"1", b"2", None],
        "partition": pa.array([None, 1, None], pa.int32()),
    })  # fmt: skip
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    program = (
        "import sys, pyarrow.ipc; from barnabas.spark.options import SinkOptions; from barnabas.spark import sink; "
        "options = SinkOptions({'kafka.bootstrap.servers': sys.argv[1]}); "
        "written = sink.write_batches(options, iter(pyarrow.ipc.open_stream(sys.stdin.buffer))); "
        "sys.stdout.write(f\"{written.count} {'pandas' in sys.modules}\")"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, servers], input=stream.getvalue().to_pybytes(), capture_output=True, check=True
    )

    assert done.stdout == b"3 False"
