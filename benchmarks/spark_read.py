"""Spark: rows/s and CPU per row read to `noop`, barnabas and the built-in connector in turn on the same broker.

`./run bench spark_read [--records N] [--rounds N] [--size BYTES] [--compression NAME] [--columns NAMES] [--floor]`
`--json` parses the values and aggregates by one of their fields instead. `--no-cache` never uses data fetched ahead.
`--apache` reads from Apache Kafka 4.3.1 instead of barnabas' broker (each a process of its own). One Spark, two cores,
6 partitions; CPU is that of the JVM, the Python workers and the broker. Every figure is the median of the rounds;
ratios compare the medians; the Python workers' peak memory is that of the largest. `--streaming` runs availableNow
queries instead of batch ones. `--floor` adds a source in Python that reads nothing: it yields batches made beforehand.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas import AdminClient, Broker, NewTopic, Producer
from benchmarks import _options
from tests.peers import spark_kafka_connector
from tests.peers.apache_kafka import ApacheKafka

PARTITIONS = 6
TICKS = os.sysconf("SC_CLK_TCK")


def fill(servers: str, topic: str, records: int, size: int, compression: str) -> None:
    """Write a topic whose records take `size` bytes of value, with keys of 8 bytes."""
    import pyarrow as pa

    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS)])
    values = [_value(number, size) for number in range(20)]
    rows = 100_000
    with Producer(bootstrap_servers=servers, compression_type=compression) as producer:
        for start in range(0, records, rows):
            numbers = range(start, min(start + rows, records))
            table = pa.table(
                {"key": [b"%08d" % number for number in numbers], "value": [values[number % 20] for number in numbers]}
            )
            producer.send_table(topic, table).result()


def _value(number: int, size: int) -> bytes:
    head = b'{"carrier":"%02d","delay":%d,"note":"' % (number, number * 7)
    return head + b"x" * (size - len(head) - 2) + b'"}'


def session(folder: Path) -> Any:
    """Return a Spark on two cores with both formats."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import barnabas.spark

    builder = SparkSession.builder.master("local[2]").appName("spark_read")
    settings = {
        "spark.jars": spark_kafka_connector.jars(),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.warehouse.dir": str(folder),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    barnabas.spark.register(spark)
    _quieten(spark.sparkContext._accumulatorServer)
    return spark


def _quieten(server: Any) -> None:
    """PySpark takes it for an error when the JVM closes its connection at the end of a query with a sink in Python."""
    tell = server.handle_error
    server.handle_error = lambda *about: None if isinstance(sys.exc_info()[1], EOFError) else tell(*about)


def _stat(process: int | str) -> list[int]:
    """Parent and the four times of CPU of a process."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [int(fields[1]), *map(int, fields[11:15])]


def descendants(root: int) -> set[int]:
    """Return a process and its children, four generations of them."""
    parents = {}
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if entry.isdigit():
                parents[int(entry)] = _stat(entry)[0]
    wanted = {root}
    for _ in range(4):
        wanted |= {process for process, parent in parents.items() if parent in wanted}
    return wanted


def cpu_seconds(root: int) -> float:
    """User and system time of a process and all its descendants, ended ones included."""
    used = 0
    for process in descendants(root):
        with contextlib.suppress(OSError):
            used += sum(_stat(process)[1:])
    return used / TICKS


def process_seconds(process: int) -> float:
    """User and system time of one process, without its descendants."""
    return sum(_stat(process)[1:3]) / TICKS


def peak_memory(root: int) -> int:
    """Return the largest resident size that a Python worker below a process ever had, in bytes."""
    peaks = [0]
    for child in descendants(root) - {root}:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{child}/status").read_text(encoding="utf-8").splitlines():
                if line.startswith("VmHWM:"):
                    peaks.append(int(line.split()[1]) << 10)
    return max(peaks)


def as_it_is(frame: Any) -> Any:
    """Every row."""
    return frame


def parsed_and_aggregated(frame: Any) -> Any:
    """Return the values' JSON, by carrier."""
    from pyspark.sql import functions as f

    event = f.from_json(f.col("value").cast("string"), "carrier string, delay int, note string")
    return frame.select(event.alias("e")).groupBy("e.carrier").agg(f.avg("e.delay"), f.max("e.note"))


def batch(spark: Any, format_name: str, options: dict[str, str], work: Callable[[Any], Any]) -> None:
    """Read a topic once."""
    work(spark.read.format(format_name).options(**options).load()).write.format("noop").mode("overwrite").save()


def available_now(spark: Any, format_name: str, options: dict[str, str], work: Callable[[Any], Any]) -> None:
    """Read a topic once by a streaming query."""
    checkpoint = tempfile.mkdtemp(prefix="spark-read-")
    frame = work(spark.readStream.format(format_name).options(**options, startingOffsets="earliest").load())
    mode = "append" if work is as_it_is else "complete"
    query = (
        frame.writeStream.outputMode(mode)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)


def prepared_source(records: int, size: int) -> Any:
    """Return a data source in Python with our columns, whose tasks yield an Arrow batch that they are given."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

    from barnabas.records.arrow import arrow_schema
    from barnabas.spark.schema import COLUMNS, ddl

    count = 30_000  # about what a fetch brings
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, arrow_schema()) as writer:
        columns = [[b"%08d" % number for number in range(count)], [_value(7, size)] * count, ["rows"] * count,
                   [0] * count, list(range(count)), [0] * count, [0] * count]  # fmt: skip
        writer.write_batch(pa.record_batch(columns, schema=arrow_schema()))
    prepared, ends, schema = stream.getvalue().to_pybytes(), records // PARTITIONS, ddl(COLUMNS)

    def read(_: InputPartition) -> Any:
        import pyarrow.ipc

        batch = pyarrow.ipc.open_stream(prepared).read_next_batch()
        for start in range(0, ends, count):
            yield batch.slice(0, min(count, ends - start))

    def partitions(*_: Any) -> list[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return partitions()

        def read(self, partition: InputPartition) -> Any:
            return read(partition)

    class StreamReader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"rows": 0}

        def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:  # noqa: N802 - Spark's name
            return {"rows": records}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            return partitions()

        def read(self, partition: InputPartition) -> Any:
            return read(partition)

    class Floor(DataSource):
        @classmethod
        def name(cls) -> str:
            return "floor"

        def schema(self) -> str:
            return schema

        def reader(self, schema: Any) -> Reader:
            return Reader()

        def streamReader(self, schema: Any) -> StreamReader:  # noqa: N802 - Spark's name
            return StreamReader()

    return Floor


def cpu_of_each(jvm: int, broker: int) -> list[float]:
    """Seconds of CPU that the JVM, its Python workers and the broker have used."""
    java, server = process_seconds(jvm), process_seconds(broker)
    return [java, cpu_seconds(jvm) - java, server]


def shares(used: list[float], rows: int) -> str:
    """Return the CPU of each process for one row."""
    each = zip(("JVM", "Python", "broker"), used, strict=True)
    return "us CPU/row: " + ", ".join(f"{process} {cpu / rows * 1e6:4.2f}" for process, cpu in each)


def measure(run: Callable[[], None], jvm: int, broker: int) -> list[float]:
    """Seconds passed, and seconds of CPU of each process."""
    before = [time.perf_counter(), *cpu_of_each(jvm, broker)]
    run()
    after = [time.perf_counter(), *cpu_of_each(jvm, broker)]
    return [end - start for start, end in zip(before, after, strict=True)]


def main() -> None:
    """Take turns and print a table."""
    parser = _options.parser(__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--compression", default="none")
    parser.add_argument("--columns", default="", help="also measure barnabas with this option columns")
    parser.add_argument("--streaming", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-cache", action="store_true")
    parser.add_argument("--apache", action="store_true")
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--only", default="", help="only formats whose name begins so; no ratios")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(ApacheKafka() if arguments.apache else Broker())
        fill(broker.bootstrap_servers, "rows", arguments.records, arguments.size, arguments.compression)
        spark = session(folder)
        stack.callback(spark.stop)
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "rows"}
        ours = {**options, "fetchedDataCache": str(not arguments.no_cache).lower()}
        formats = {"kafka": ("kafka", options), "barnabas": ("barnabas", ours)}
        if arguments.columns:
            formats[f"barnabas columns={arguments.columns}"] = ("barnabas", {**ours, "columns": arguments.columns})
        if arguments.floor:
            spark.dataSource.register(prepared_source(arguments.records, arguments.size))
            formats["floor"] = ("floor", {})
        formats = {name: found for name, found in formats.items() if name.startswith(arguments.only)}
        compare(spark, broker.pid, formats, arguments)


def compare(
    spark: Any, broker: int, formats: dict[str, tuple[str, dict[str, str]]], arguments: argparse.Namespace
) -> None:
    """Warm up, alternate, print."""
    read = available_now if arguments.streaming else batch
    work = parsed_and_aggregated if arguments.json else as_it_is
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    found: dict[str, list[list[float]]] = {name: [] for name in formats}
    for number in range(arguments.rounds + 1):
        for name, (format_name, options) in formats.items():
            result = measure(lambda: read(spark, format_name, options, work), jvm, broker)  # noqa: B023 - called at once
            if number:
                found[name].append(result)
    medians = {name: [statistics.median(column) for column in zip(*runs, strict=True)] for name, runs in found.items()}
    base = medians.get("kafka")
    for name, (seconds, *used) in medians.items():
        rate = arguments.records / seconds
        spark_cpu = sum(used[:2])
        ratio = (
            ""
            if base is None
            else f"{base[0] / seconds:5.2f} x the rows/s, {spark_cpu / sum(base[1:3]):4.2f} x the CPU"
        )
        print(f"{name:24} {rate:12,.0f} rows/s  {ratio}; {shares(used, arguments.records)}")
    print(f"peak memory of a Python worker: {peak_memory(jvm) >> 20} MB")


if __name__ == "__main__":
    main()
