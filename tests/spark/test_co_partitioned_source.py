"""`coPartitions` on a running Spark: one task reads partition p of all topics of a group."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from barnabas import Producer
from barnabas.spark.co_partitions import CoPartitions, Group

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "task int"
)
NewTopicName = Callable[[int], str]


def numbered(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow as pa
    from pyspark import TaskContext

    number = TaskContext.get().partitionId()  # type: ignore[union-attr]
    for batch in batches:
        yield batch.append_column("task", pa.array([number] * batch.num_rows, pa.int32()))


def test_a_task_reads_the_partitions_of_its_number_in_the_order_of_their_times(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    left, right = new_topic(2), new_topic(2)
    with Producer(bootstrap_servers=servers) as producer:
        for time_ms in range(1, 5):
            for partition in range(2):
                producer.send(left, b"l%d" % time_ms, partition=partition, timestamp_ms=10 * time_ms)
                producer.send(right, b"r%d" % time_ms, partition=partition, timestamp_ms=10 * time_ms + 5 * partition)
    wanted = CoPartitions({"0": Group((right, left))})
    frame = (
        spark.readStream.format("barnabas").option("subscribe", f"{left},{right}")
        .options(**{"kafka.bootstrap.servers": servers, "coPartitions": wanted.to_json()})
        .option("startingOffsets", "earliest").load()
    )  # fmt: skip

    name = f"rows_{left.replace('-', '_')}"
    rows = frame.mapInArrow(
        numbered,
        COLUMNS,
    )
    query = (
        rows.writeStream.format("memory").queryName(name).option("checkpointLocation", checkpoint)
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(100)

    found: dict[int, list[Any]] = {}
    for row in spark.table(name).collect():
        found.setdefault(row.task, []).append((row.topic, row.partition, bytes(row.value).decode()))
    assert sorted(found) == [0, 1]
    told = [json.loads(found[task].pop(0)[2]) for task in (0, 1)]
    assert [each["task"] for each in told] == ["0_0", "0_1"]
    assert {partition for task in (0, 1) for _, partition, _ in found[task]} == {0, 1}
    assert [value for _, _, value in found[0]] == ["r1", "l1", "r2", "l2", "r3", "l3", "r4", "l4"]
    assert [value for _, _, value in found[1]] == ["l1", "r1", "l2", "r2", "l3", "r3", "l4", "r4"]
    assert json.loads(query.recentProgress[0]["sources"][0]["endOffset"])[""]["0"] == told[0]["now_ms"]
