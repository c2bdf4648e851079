"""Streams: `KafkaStreams` on Spark against Java's Kafka Streams and Quix Streams, on one broker, the same jobs.

`./run bench race_streams [--records N] [--rounds N] [--jobs map,count] [--only NAMES] [--broker KIND] [--latency N]
[--latency-job JOB]`
`map` filters and maps, `count` counts by key, `windows` in windows of a minute, `suppress` sends these when they
close, `tables` joins two tables, `streams` two streams within a second, `group` (where it is asked for) counts by key
behind a repartition topic; all exactly once, each update sent on. Topics of four partitions are full before the start.
Figures are from the first quarter of the records on, by the offsets that the application's group has committed:
records/s, and CPU of all its processes a record (Spark's JVM and Python; the broker's is left out). Ours has
`local[2]` and batches of 100,000 records, Java two threads, Quix one process, as it comes. `apart` is ours with
`repartition.within.batch=false`. Then one record every 50 ms goes through `map`, or the job that is asked for: end to
end, from `send()` to a reader of committed records. Where a batch's time goes is told by Spark's own progress, medians
of the batches while the latency was measured.

Quix Streams is fetched into an environment of its own (`pip install quixstreams`); `--only ours,java` goes without.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer
from benchmarks import _streams_jobs
from benchmarks._streams_jobs import JOBS, STEPS, TWO, topology
from benchmarks.spark_read import cpu_seconds, descendants, process_seconds
from tests.peers import apache_kafka
from tests.support.cache import CACHES, locked

PARTITIONS = 4
KEYS = 1000
JAVA = Path(__file__).parent / "java" / "RaceStreams.java"
QUIX = "quixstreams==3.28.1"
#: Jobs that a contender does not know: Quix Streams joins no two tables.
WITHOUT = {("quix", "tables"), ("quix", STEPS)}

#: Seconds after which a contender counts as lost.
LONGEST = 300.0


class Job(NamedTuple):
    """What an application is to do, and where."""

    servers: str
    kind: str
    source: str
    target: str
    id: str
    folder: Path

    def arguments(self) -> list[str]:
        """Return it as a command line."""
        return [str(each) for each in self]


class Figures(NamedTuple):
    """What came of a run; `java` and `tasks` are parts of `cpu`."""

    rate: float
    cpu: float
    from_start: float
    java: float
    tasks: float


# The contenders, each a process and its children.


def _ours(job: Job) -> list[str]:
    return [sys.executable, "-m", "benchmarks.race_streams", "--run", "ours", *job.arguments()]


def _apart(job: Job) -> list[str]:
    return [sys.executable, "-m", "benchmarks.race_streams", "--run", "apart", *job.arguments()]


def _java(job: Job) -> list[str]:
    jars = f"{apache_kafka.streams_classpath()}:{apache_kafka.classpath()}"
    level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    return ["java", "-Xmx1g", level, "-cp", jars, str(JAVA), *job.arguments()]


def _quix(job: Job) -> list[str]:
    with locked(CACHES / "quix-streams") as folder:
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([str(python), "-m", "pip", "install", "-q", QUIX], check=True)
    return [str(python), str(Path(__file__).parent / "_quix_streams.py"), *job.arguments()]


CONTENDERS: dict[str, Callable[[Job], list[str]]] = {"ours": _ours, "apart": _apart, "java": _java, "quix": _quix}


@contextlib.contextmanager
def running(name: str, job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """Run a contender; gives its process."""
    log = (job.folder / f"{name}-{job.id}.log").open("w+")
    with log, subprocess.Popen(CONTENDERS[name](job), stdout=log, stderr=log, start_new_session=True) as process:
        try:
            yield process
        except BaseException:
            log.seek(0)
            print(log.read()[-3000:], file=sys.stderr)
            raise
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run_ours(job: Job, *, is_within: bool) -> None:
    """Be our application, in this process; progress goes to a file every second."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from barnabas.streams import KafkaStreams

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(job.folder / "warehouse"),
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    building = SparkSession.builder.master("local[2]").appName(job.id)
    for name, value in settings.items():
        building = building.config(name, value)
    spark = building.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    config = {
        "application.id": job.id, "bootstrap.servers": job.servers, "statestore.cache.max.bytes": 0,
        "state.dir": str(job.folder), "consumer.auto.offset.reset": "earliest",
        "repartition.within.batch": is_within,
    }  # fmt: skip
    cloudpickle.register_pickle_by_value(_streams_jobs)  # type: ignore[no-untyped-call]  # executors have no `benchmarks`
    made = topology(job.kind, job.source, job.target)
    with KafkaStreams(made, config, spark=spark, max_records_per_batch=100_000) as streams:
        while streams.query.isActive:
            time.sleep(1)
            progress = [each.json for each in streams.query.recentProgress]
            (job.folder / f"{job.id}.progress").write_text("\n".join(json.dumps(json.loads(one)) for one in progress))
        print(streams.exception, file=sys.stderr)


# Measuring.


def all_cpu_seconds(root: int) -> dict[str, float]:
    """CPU of a process and its children by what they run: `java`, our `tasks`, `other` Python.

    Our tasks' processes outlive the worker that began them.
    """
    found = {"java": 0.0, "tasks": 0.0, "other": 0.0}
    tree = descendants(root)
    for entry in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{entry}/cmdline").read_bytes()
            is_task = b"barnabas.streams.spark.task_processes" in command
            if entry in tree or (is_task and _is_of_this_race(entry)):
                kind = "tasks" if is_task else "java" if b"java" in command.partition(b"\0")[0] else "other"
                found[kind] += process_seconds(entry)
    found["other"] += cpu_seconds(root) - sum(process_seconds(each) for each in tree)
    return found


def _is_of_this_race(process: int) -> bool:
    return f"BARNABAS_RACE={os.getpid()}".encode() in Path(f"/proc/{process}/environ").read_bytes()


class Measure(NamedTuple):
    """A broker, and a folder for all files."""

    servers: str
    folder: Path

    def create(self, topic: str) -> None:
        """Create a topic of the race."""
        with AdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(topic, PARTITIONS, configs={"retention.ms": "-1"})])

    def fill(self, kind: str, topic: str, records: int) -> None:
        """Write records of 100 bytes, a millisecond apart, a tenth of which `map` filters out.

        A job of two topics has half of them in each, with the same times.
        """
        if kind in TWO:
            self._fill(topic, records // 2, 2)
            self._fill(f"{topic}-right", records - records // 2, 2)
        else:
            self._fill(topic, records, 1)

    def _fill(self, topic: str, records: int, apart_ms: int) -> None:
        import pyarrow as pa

        self.create(topic)
        values = [f"{number}{'x' * 99}".encode() for number in range(10)]
        with Producer(bootstrap_servers=self.servers) as producer:
            for start in range(0, records, 100_000):
                numbers = range(start, min(start + 100_000, records))
                columns = {
                    "key": [b"key-%06d" % (number * 7919 % KEYS) for number in numbers],
                    "value": [values[number % 10] for number in numbers],
                    "timestamp": pa.array([1_000_000_000_000 + n * apart_ms for n in numbers], pa.timestamp("ms")),
                }
                producer.send_table(topic, pa.table(columns)).result()

    def throughput(self, name: str, job: Job, records: int) -> Figures:
        """Run a contender until its group has committed all records."""
        self.create(job.target)
        topics = [job.source, f"{job.source}-right"] if job.kind in TWO else [job.source]
        wanted = [(topic, number) for topic in topics for number in range(PARTITIONS)]
        with AdminClient(bootstrap_servers=self.servers) as admin:
            began = time.monotonic()
            with running(name, job) as process:
                first: tuple[float, dict[str, float], int] | None = None
                while True:
                    found = admin.list_consumer_group_offsets(job.id, wanted)
                    done, now = sum(max(0, each.offset) for each in found.values()), time.monotonic()
                    if first is None and done >= records / 4:
                        first = now, all_cpu_seconds(process.pid), done
                    if done >= records:
                        break
                    if now - began > LONGEST or process.poll() is not None:
                        raise RuntimeError(f"{name} has committed {done} of {records} records in {now - began:.0f} s")
                    time.sleep(0.02)
                cpu = all_cpu_seconds(process.pid)
        if first is None or first[2] >= records:
            nothing = float("nan")
            return Figures(nothing, nothing, records / (now - began), nothing, nothing)
        left = records - first[2]
        used = {name: (cpu[name] - first[1][name]) / left * 1e6 for name in cpu}
        whole = sum(used.values())
        return Figures(left / (now - first[0]), whole, records / (now - began), used["java"], used["tasks"])

    def latency(self, name: str, job: Job, records: int) -> list[float]:
        """Return for each of so many records how long it took, in milliseconds; 40 go before them."""
        self.create(job.source)
        self.create(job.target)
        settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 20}
        with (
            running(name, job),
            Producer(bootstrap_servers=self.servers) as producer,
            Consumer(bootstrap_servers=self.servers, **settings) as consumer,
        ):
            consumer.assign([(job.target, number) for number in range(PARTITIONS)])
            self._one_by_one(job.source, producer, consumer, 40, first=LONGEST)
            return self._one_by_one(job.source, producer, consumer, records, first=10.0)

    @staticmethod
    def _one_by_one(topic: str, producer: Any, consumer: Any, records: int, first: float) -> list[float]:
        sent: dict[bytes, float] = {}
        took: list[float] = []
        run = os.urandom(4).hex().encode()
        next_at = time.monotonic()
        deadline = next_at + first + records * 0.05 + 30
        while len(took) < records:
            now = time.monotonic()
            if now > deadline:
                raise RuntimeError(f"only {len(took)} of {records} records have come through")
            if now >= next_at and len(sent) < records and (len(sent) == 0 or len(took) or len(sent) < 5):
                key = b"%s-%d" % (run, len(sent))
                sent[key] = now
                producer.send(topic, b"1" + b"x" * 99, key=key)
                next_at = now + 0.05
            for record in consumer.poll(timeout=0.005):
                if record.key in sent:
                    took.append((time.monotonic() - sent[record.key]) * 1000)
        return took


def parts_of_batches(folder: Path, id: str) -> dict[str, float]:
    """Return medians of what Spark says of the time of its last batches, in milliseconds."""
    lines = (folder / f"{id}.progress").read_text().splitlines()[-60:]
    batches = [found for line in lines if "addBatch" in (found := json.loads(line)["durationMs"])]
    names = {name for each in batches for name in each}
    return {name: statistics.median(each.get(name, 0) for each in batches) for name in sorted(names)}


@contextlib.contextmanager
def broker(kind: str) -> Iterator[str]:
    """Run the broker of the race."""
    config = {"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
    with apache_kafka.ApacheKafka(config) if kind == "apache" else Broker(config=config) as found:
        yield found.bootstrap_servers


def race(measure: Measure, given: argparse.Namespace) -> None:
    """Race in turns, and print medians and ratios."""
    names = given.only.split(",")
    for kind in filter(None, given.jobs.split(",")):
        measure.fill(kind, f"source-{kind}", given.records)
        rounds: dict[str, list[Figures]] = {name: [] for name in names}
        able = [name for name in names if (name, kind) not in WITHOUT]
        for number in range(given.rounds):
            for name in able if number % 2 else reversed(able):
                job = Job(measure.servers, kind, f"source-{kind}", f"{kind}-{name}-{number}",
                          f"{name}-{kind}-{number}", measure.folder)  # fmt: skip
                rounds[name].append(measure.throughput(name, job, given.records))
                print(f"  {kind} {name}: {rounds[name][-1]}, load {os.getloadavg()[0]:.1f}", flush=True)
        ours = _median(rounds[names[0]])
        for name in able:
            found = _median(rounds[name])
            print(
                f"{kind:8} {name:5} {found.rate / 1000:7.1f} k records/s, {found.cpu:6.1f} us of CPU a record, "
                f"{found.from_start / 1000:6.1f} k from the start; {names[0]} to it: {ours.rate / found.rate:.2f} "
                f"times the rate, {ours.cpu / found.cpu:.2f} times the CPU",
                flush=True,
            )
    if given.latency:
        for name in names:
            kind = given.latency_job
            job = Job(measure.servers, kind, f"latency-source-{name}", f"latency-{name}", f"latency-{name}",
                      measure.folder)  # fmt: skip
            took = sorted(measure.latency(name, job, given.latency))
            print(f"latency  {name:5} p50 {took[len(took) // 2]:.0f} ms, p99 {took[len(took) * 99 // 100]:.0f} ms, "
                  f"load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
            if name in ("ours", "apart"):
                parts = parts_of_batches(measure.folder, job.id)
                print("         of a batch: " + ", ".join(f"{part} {found:.0f}" for part, found in parts.items()))


def _median(found: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*found, strict=True)))


def main() -> None:
    """Parse and race, or be a contender."""
    parser = argparse.ArgumentParser(prog="./run bench race_streams", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--jobs", default=",".join(name for name in JOBS if name != STEPS))
    parser.add_argument("--only", default="ours,java,quix")
    parser.add_argument("--broker", choices=["barnabas", "apache"], default="apache")
    parser.add_argument("--latency", type=int, default=200)
    parser.add_argument("--latency-job", choices=["map", "count", STEPS], default="map")
    parser.add_argument("--run", nargs=7, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run_ours(Job(*given.run[1:6], Path(given.run[6])), is_within=given.run[0] == "ours")
        return
    os.environ["BARNABAS_RACE"] = str(os.getpid())  # how our tasks' processes are found
    with (
        tempfile.TemporaryDirectory(prefix="race-streams-", ignore_cleanup_errors=True) as folder,
        broker(given.broker) as servers,
    ):
        race(Measure(servers, Path(folder)), given)


if __name__ == "__main__":
    main()
