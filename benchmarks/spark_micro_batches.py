"""Spark: how long a micro-batch of 1,000 rows takes, barnabas and the built-in connector in turn on the same broker.

`./run bench spark_micro_batches [--batches N] [--rounds N] [--no-cache] [--apache]`
A streaming query with a trigger of 0 s reads 1,000 rows of 100 bytes a micro-batch to `noop`. The first micro-batch
starts workers and connections; the rest is the steady state: medians of Spark's own triggerExecution, in ms.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from barnabas import Broker
from benchmarks import _options
from benchmarks.spark_read import fill, session
from tests.peers.apache_kafka import ApacheKafka

ROWS = 1000
TOTAL = "triggerExecution"
PHASES = ("addBatch", "queryPlanning", "getBatch", "latestOffset", "walCommit", "commitOffsets")


def durations(spark: Any, format_name: str, options: dict[str, str]) -> list[dict[str, int]]:
    """Milliseconds of the phases of each micro-batch of one query over the topic."""
    checkpoint = tempfile.mkdtemp(prefix="spark-micro-")
    frame = spark.readStream.format(format_name).options(**options, maxOffsetsPerTrigger=str(ROWS)).load()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint, ignore_errors=True)
    return [each["durationMs"] for each in query.recentProgress if each["numInputRows"]]


def main() -> None:
    """Take turns and print a table."""
    parser = _options.parser(__doc__)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-cache", action="store_true", help="never use data that was fetched ahead")
    parser.add_argument("--apache", action="store_true")
    arguments = parser.parse_args()
    first: dict[str, int] = {}
    steady: dict[str, list[dict[str, int]]] = {"kafka": [], "barnabas": []}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(ApacheKafka() if arguments.apache else Broker())
        fill(broker.bootstrap_servers, "rows", arguments.batches * ROWS, 100, "none")
        spark = session(folder)
        stack.callback(spark.stop)
        spark.range(10).write.format("noop").mode("overwrite").save()  # what Spark does once, for the first query
        given = {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "subscribe": "rows",
            "startingOffsets": "earliest",
        }
        options = {"kafka": given, "barnabas": {**given, "fetchedDataCache": str(not arguments.no_cache).lower()}}
        for _ in range(arguments.rounds):
            for name in options:
                found = durations(spark, name, options[name])
                first.setdefault(name, found[0][TOTAL])
                steady[name] += found[len(found) // 4 :]
    base = middle(steady["kafka"], TOTAL)
    for name, times in steady.items():
        print(
            f"{name:10} first {first[name]:6} ms ({first[name] - first['kafka']:+d})   "
            f"steady {middle(times, TOTAL):6.0f} ms   {middle(times, TOTAL) / base:4.2f} x the built-in's"
        )
        print("           of it " + ", ".join(f"{phase} {middle(times, phase):.0f}" for phase in PHASES))


def middle(times: list[dict[str, int]], phase: str) -> float:
    """Return the median of a phase's milliseconds."""
    return statistics.median(each.get(phase, 0) for each in times)


if __name__ == "__main__":
    main()
