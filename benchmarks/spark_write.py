"""Spark: rows/s and CPU per row written to a topic, barnabas and the built-in connector in turn on the same broker.

`./run bench spark_write [--rows N] [--rounds N] [--size BYTES] [--keys]`
Rows of `size` bytes of value, with `--keys` also a key of 8 bytes, from four Spark tasks to six partitions. `--apache`
writes to Apache Kafka 4.3.1 instead of barnabas' broker (each a process of its own). One Spark, two cores; CPU is that
of the JVM and the Python workers. Every figure is the median of the rounds; ratios compare the medians.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from barnabas import AdminClient, Broker, NewTopic
from benchmarks import _options
from benchmarks.spark_read import PARTITIONS, cpu_of_each, session, shares
from tests.peers.apache_kafka import ApacheKafka

TASKS = 4


def rows_of(spark: Any, rows: int, size: int, keys: bool) -> Any:
    """Rows that cost Spark next to nothing to make, so that writing them is what is measured."""
    value = f"cast('{'v' * size}' as binary) as value"
    columns = ["cast(lpad(cast(id as string), 8, '0') as binary) as key", value] if keys else [value]
    return spark.range(0, rows, 1, TASKS).selectExpr(*columns)


def dropping_source() -> Any:
    """Return a data source in Python whose sink takes the Arrow batches and does nothing with them."""
    from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage

    class Writer(DataSourceArrowWriter):
        def write(self, iterator: Any) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "floor"

        def writer(self, schema: Any, overwrite: bool) -> Writer:
            return Writer()

    return Floor


def write(frame: Any, format_name: str, servers: str, topic: str) -> None:
    """Write a frame once."""
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    frame.write.format(format_name).mode("append").options(**options).save()


def main() -> None:
    """Take turns and print a table."""
    parser = _options.parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--keys", action="store_true")
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--floor", action="store_true")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(ApacheKafka() if arguments.apache else Broker())
        spark = session(folder)
        stack.callback(spark.stop)
        compare(spark, broker, arguments)


def compare(spark: Any, broker: Any, arguments: argparse.Namespace) -> None:
    """Warm up, alternate, print."""
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    frame = rows_of(spark, arguments.rows, arguments.size, arguments.keys)
    formats = ["kafka", "barnabas"]
    if arguments.floor:
        spark.dataSource.register(dropping_source())
        formats.append("floor")
    found: dict[str, list[list[float]]] = {name: [] for name in formats}
    numbers = itertools.count()
    for number in range(arguments.rounds + 1):
        for name in formats:
            topic = f"rows-{next(numbers)}"
            before = [time.monotonic(), *cpu_of_each(jvm, broker.pid)]
            write(frame, name, broker.bootstrap_servers, topic)
            after = [time.monotonic(), *cpu_of_each(jvm, broker.pid)]
            with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
                admin.delete_topics([topic])
            if number:
                found[name].append([end - start for start, end in zip(before, after, strict=True)])
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in found.items()}
    base = medians["kafka"]
    for name, (seconds, *used) in medians.items():
        ratio = f"{base[0] / seconds:5.2f} x the rows/s, {sum(used) / sum(base[1:]):4.2f} x the CPU"
        print(f"{name:10} {arguments.rows / seconds:12,.0f} rows/s  {ratio}; {shares(used, arguments.rows)}")


if __name__ == "__main__":
    main()
