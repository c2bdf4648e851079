"""Spark: what guarantee=exactly-once costs a micro-batch, in turn with at-least-once on the same broker.

`./run bench spark_write_exactly_once [--rows N] [--batches N] [--rounds N] [--apache]`
Each round runs a streaming query of so many micro-batches of `rows` rows of 100 bytes, from four Spark tasks to six
partitions, with either guarantee. The figure is the time in `addBatch`: the tasks and the sink's commit, without
Spark's own logs. The first batches of a query, which make the clients, are left out. Every figure is the median of all
batches.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from barnabas import AdminClient, Broker, NewTopic
from benchmarks import _options
from benchmarks.spark_read import PARTITIONS, session
from tests.peers.apache_kafka import ApacheKafka

TASKS = 4
WARM_UP = 3
GUARANTEES = ("at-least-once", "exactly-once")


def batch_times(spark: Any, servers: str, topic: str, guarantee: str, rows: int, batches: int) -> list[float]:
    """Milliseconds in addBatch, batch by batch, without the first ones."""
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
    numbers = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=TASKS).load()
    options = {"kafka.bootstrap.servers": servers, "topic": topic, "guarantee": guarantee}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        query = (
            numbers.selectExpr(f"cast('{'v' * 100}' as binary) as value")
            .writeStream.format("barnabas").options(**options).option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds").start()
        )  # fmt: skip
        while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < batches + WARM_UP):
            time.sleep(0.05)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        progress = [each for each in query.recentProgress if WARM_UP <= each["batchId"] < batches + WARM_UP]
        query.stop()
    return [each["durationMs"]["addBatch"] for each in progress]


def main() -> None:
    """Take turns and print both."""
    parser = _options.parser(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--apache", action="store_true")
    arguments = parser.parse_args()
    numbers = itertools.count()
    found: dict[str, list[float]] = {guarantee: [] for guarantee in GUARANTEES}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(ApacheKafka() if arguments.apache else Broker())
        spark = session(folder)
        stack.callback(spark.stop)
        for _ in range(arguments.rounds):
            for guarantee in GUARANTEES:
                found[guarantee] += batch_times(
                    spark,
                    broker.bootstrap_servers,
                    f"rows-{next(numbers)}",
                    guarantee,
                    arguments.rows,
                    arguments.batches,
                )
    base = statistics.median(found["at-least-once"])
    for guarantee, times in found.items():
        median = statistics.median(times)
        extra = f"{median - base:+7.0f} ms  {median / base - 1:+6.1%}"
        print(f"{guarantee:15} {arguments.rows:8,} rows a batch: {median:7.0f} ms a batch  {extra}")


if __name__ == "__main__":
    main()
