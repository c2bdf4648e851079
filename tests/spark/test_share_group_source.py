"""`option("shareGroup", ...)`: a queue as the source of a streaming query, through Spark, on both brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from barnabas import AdminClient, Producer
from barnabas.admin import ConfigResource

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NewTopicName = Callable[[int], str]


def run(spark: SparkSession, servers: str, topic: str, checkpoint: str, write: Callable[[Any, int], None]) -> None:
    """Read what is in the queue now."""
    query = (
        spark.readStream.format("barnabas")
        .options(**{"kafka.bootstrap.servers": servers, "subscribe": topic, "shareGroup": topic, "columns": "value"})
        .option("maxOffsetsPerTrigger", "100")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination(120)
    finally:
        query.stop()


def test_every_record_is_committed_by_the_sink_though_a_micro_batch_fails(
    spark: SparkSession, servers: str, new_topic: NewTopicName, checkpoint: str
) -> None:
    topic = new_topic(2)
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.incremental_alter_configs({ConfigResource.group(topic): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=servers, batch_size=400) as producer:
        for number in range(500):
            producer.send(topic, b"%d" % number, partition=number % 2)
    seen: Counter[bytes] = Counter()
    failures = [1]

    def write(frame: Any, number: int) -> None:
        rows = [bytes(row.value) for row in frame.collect()]
        if number == 2 and failures:
            failures.clear()
            raise RuntimeError("the sink is down")
        seen.update(rows)

    with pytest.raises(StreamingQueryException, match="the sink is down"):
        run(spark, servers, topic, checkpoint, write)
    assert 0 < len(seen) < 500
    run(spark, servers, topic, checkpoint, write)
    wanted = Counter({b"%d" % number: 1 for number in range(500)})
    assert (wanted - seen, seen - wanted) == (Counter(), Counter())
    with AdminClient(bootstrap_servers=servers) as admin:
        offsets = admin.list_share_group_offsets({topic: None})[topic]
    assert sum(one.lag or 0 for one in offsets.values()) == 0
