"""Spark: from `send()` to the row in a micro-batch, and AvailableNow to its first task, beside the built-in connector.

`./run bench spark_latency [--records N] [--rounds N] [--gap SECONDS]`
A streaming query without a trigger hands each micro-batch to `foreachBatch`, which looks at the clock when it has the
rows; a producer sends a record every `--gap` seconds, with its time in it. Then a query with availableNow over what is
there: from `start()` to the launch of the first task, and to its end. The order of the two is drawn for each round.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from barnabas import AdminClient, Broker, NewTopic, Producer
from benchmarks import _options
from benchmarks.spark_read import session

FORMATS = ("kafka", "barnabas")
TOPIC = "latency"
#: The first records meet a query that starts its workers.
WARM_UP = 20


def start(spark: Any, name: str, servers: str, first: str, **trigger: bool) -> tuple[Any, list[float], str]:
    """Start a query; the query, the latencies in seconds that it adds to, its checkpoint."""
    latencies: list[float] = []

    def note(frame: Any, _batch: int) -> None:
        rows = frame.select("value").collect()
        now = time.time()
        latencies.extend(now - float(row.value) for row in rows)

    checkpoint = tempfile.mkdtemp(prefix="spark-latency-")
    options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "startingOffsets": first}
    writer = spark.readStream.format(name).options(**options).load().writeStream.foreachBatch(note)
    if trigger:
        writer = writer.trigger(**trigger)
    return writer.option("checkpointLocation", checkpoint).start(), latencies, checkpoint


def end_to_end(spark: Any, name: str, servers: str, records: int, gap: float) -> list[float]:
    """Return the seconds from `send()` to the row, of every record after the first ones."""
    query, latencies, checkpoint = start(spark, name, servers, "latest")
    while not query.recentProgress and query.exception() is None:
        time.sleep(0.1)
    pause = threading.Event()
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        for _ in range(records + WARM_UP):
            producer.send(TOPIC, repr(time.time()).encode())
            pause.wait(gap)
    deadline = time.monotonic() + 60
    while len(latencies) < records + WARM_UP:
        if query.exception() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{name}: {len(latencies)} of {records + WARM_UP} rows came; {query.exception()}")
        time.sleep(0.1)
    query.stop()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return latencies[WARM_UP:]


def available_now(spark: Any, name: str, servers: str) -> tuple[float, float]:
    """Seconds from `start()` to the launch of the first task, and to the end of the query."""
    began = time.time()
    query, latencies, checkpoint = start(spark, name, servers, "earliest", availableNow=True)
    query.awaitTermination()
    ended = time.time()
    shutil.rmtree(checkpoint, ignore_errors=True)
    if not latencies:
        raise SystemExit(f"{name}: the query read nothing")
    return first_task(spark, began) - began, ended - began


def first_task(spark: Any, since: float) -> float:
    """Return when the first task after `since` was launched, in epoch seconds, by Spark's own store of what it did."""
    context, jvm = spark.sparkContext, spark.sparkContext._jvm
    empty = context._gateway.new_array(jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, empty, jvm.java.util.ArrayList())
    launched = [
        stages.apply(at).firstTaskLaunchedTime().get().getTime() / 1000
        for at in range(stages.size())
        if stages.apply(at).firstTaskLaunchedTime().isDefined()
    ]
    return float(min(at for at in launched if at >= since))


def main() -> None:
    """Take turns, in an order that is drawn, and print a table."""
    parser = _options.parser(__doc__)
    parser.add_argument("--records", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gap", type=float, default=0.05)
    arguments = parser.parse_args()
    trips: dict[str, list[float]] = {name: [] for name in FORMATS}
    tasks: dict[str, list[tuple[float, float]]] = {name: [] for name in FORMATS}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = stack.enter_context(Broker()).bootstrap_servers
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=1)])
        spark = session(folder)
        stack.callback(spark.stop)
        spark.range(10).write.format("noop").mode("overwrite").save()  # what Spark does once, for the first query
        for name in FORMATS:
            end_to_end(spark, name, servers, 5, arguments.gap)
        for _ in range(arguments.rounds):
            for name in random.sample(FORMATS, len(FORMATS)):
                trips[name] += end_to_end(spark, name, servers, arguments.records, arguments.gap)
            for name in random.sample(FORMATS, len(FORMATS)):
                tasks[name].append(available_now(spark, name, servers))
    report("send() to row, p50", {name: percentile(found, 0.5) for name, found in trips.items()})
    report("send() to row, p99", {name: percentile(found, 0.99) for name, found in trips.items()})
    for at, what in enumerate(("AvailableNow, first task", "AvailableNow, all of it")):
        report(what, {name: statistics.median(each[at] for each in found) for name, found in tasks.items()})


def percentile(values: list[float], share: float) -> float:
    """Return a percentile."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def report(what: str, seconds: dict[str, float]) -> None:
    """Print one row."""
    row = "   ".join(f"{name} {value * 1e3:8.0f} ms" for name, value in seconds.items())
    print(f"{what:<26} {row}   {seconds['barnabas'] / seconds['kafka']:.2f} x")


if __name__ == "__main__":
    main()
