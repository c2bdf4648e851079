"""Streams: CPU a record of the process of a task, for the jobs of `race_streams`: read, compute, write and decide.

`./run bench streams_task [--records N] [--batch N] [--jobs map,count] [--cache BYTES] [--rounds N] [--against SRC]`
All that `KafkaStreams` does for a batch but for Spark, in one process, the broker in another: tasks of four partitions,
stores on disk, exactly once, batches of `--batch` records. Each measurement is a process of its own, in turns; told is
the median, from the second batch on. SRC is the `src` of another clone, whose tasks
then take turns with ours.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

from barnabas import AdminClient, Broker, Consumer
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.co_partitions import PlannedTask
from barnabas.spark.exactly_once import driver_steps
from barnabas.spark.exactly_once.commit_protocol import Task
from barnabas.spark.ranges import OffsetRange
from barnabas.streams.config import StreamsConfig
from barnabas.streams.spark import internal_topics, query_plan
from barnabas.streams.spark.application import Application
from barnabas.streams.spark.task_manager import Request, TaskHome
from barnabas.streams.spark.task_processes import COLLECT_AFTER
from benchmarks._streams_jobs import JOBS, STEPS, TWO, topology
from benchmarks.race_streams import PARTITIONS, Measure


def application_of(servers: str, folder: Path, kind: str, id: str, cache: int) -> Application:
    """Return the application of a job, whose topics it makes."""
    config = StreamsConfig({
        "application.id": id, "bootstrap.servers": servers, "state.dir": str(folder),
        "statestore.cache.max.bytes": cache,
    })  # fmt: skip
    target = f"{kind}-{id}"
    Measure(servers, folder).create(target)
    planned = query_plan.planned(topology(kind, f"source-{kind}", target), config)
    with AdminClient(bootstrap_servers=servers) as admin:
        known = dict.fromkeys(planned.sources - planned.repartition_topics, PARTITIONS)
        counts = internal_topics.counted(planned.infos, planned.copartitioned, known)
        internal_topics.create_internal_topics(admin, planned.infos, counts, 1)
    return query_plan.application(planned, counts, {target: PARTITIONS})


def measure(servers: str, folder: Path, kind: str, batch: int, cache: int) -> float:
    """Run a job over all that its topics hold; return CPU seconds a record."""
    import gc

    gc.set_threshold(*COLLECT_AFTER)
    id = f"task-{os.getpid()}"
    application = application_of(servers, folder / id, kind, id, cache)
    topics = [f"source-{kind}"] + [f"source-{kind}-right"] * (kind in TWO)
    partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    with Consumer(bootstrap_servers=servers) as consumer:
        ends = consumer.end_offsets(partitions)
    step, query, place = batch // len(partitions), str(uuid.uuid4()), application.place
    batches = -(-max(ends.values()) // step)
    counted, began = 0, 0.0
    with closing(TaskHome(application)) as home:
        for number in range(batches):
            reports = []
            for partition in range(PARTITIONS):
                ranges = tuple(
                    OffsetRange(each, min(number * step, ends[each]), min((number + 1) * step, ends[each]))
                    for each in partitions
                    if each.partition == partition
                )
                planned = PlannedTask(f"0_{partition}", partition, ranges, 1000 * (number + 1), ())
                reports.append(home.run(Request(Task(query, "run", number, partition), planned, {})).report)
                counted += sum(each.size for each in ranges) if began else 0
            driver_steps.commit(place, number, reports)
            began = began or time.process_time()
        cpu = time.process_time() - began
    driver_steps.let_go(place, query)
    return cpu / counted


def _child(servers: str, kind: str, given: argparse.Namespace, source: str | None) -> float:
    environment = dict(os.environ)
    if source is not None:
        environment["PYTHONPATH"] = source
    command = [sys.executable, "-m", "benchmarks.streams_task", "--run", servers, "--jobs", kind]
    command += ["--batch", str(given.batch), "--cache", str(given.cache)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} failed: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print; with `--run` one measurement in this process."""
    parser = argparse.ArgumentParser(prog="./run bench streams_task", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--jobs", default=",".join(name for name in JOBS if name != STEPS))
    parser.add_argument("--cache", type=int, default=0, help="statestore.cache.max.bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", help="the src directory of another clone")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        with tempfile.TemporaryDirectory(prefix="streams-task-") as folder:
            print(measure(given.run, Path(folder), given.jobs, given.batch, given.cache))
        return
    sources = [None] if given.against is None else [None, given.against]
    with Broker(config={"log.retention.ms": "-1"}) as broker, tempfile.TemporaryDirectory() as folder:
        for kind in given.jobs.split(","):
            Measure(broker.bootstrap_servers, Path(folder)).fill(kind, f"source-{kind}", given.records)
            found: dict[str | None, list[float]] = {source: [] for source in sources}
            for _ in range(given.rounds):
                for source in sources:
                    found[source].append(_child(broker.bootstrap_servers, kind, given, source))
            for source, figures in found.items():
                cpu = statistics.median(figures) * 1e6
                load = os.getloadavg()[0]
                print(f"{kind:8} {source or 'ours':30} {cpu:6.2f} us of CPU a record, load {load:.1f}", flush=True)


if __name__ == "__main__":
    main()
