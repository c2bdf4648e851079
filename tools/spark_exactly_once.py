"""Kills a real Spark, its Python workers and the broker at random moments, and counts what readers see.

`python -m tools.spark_exactly_once [--seconds N] [--broker KIND] [--seed N] [--two-phase-commit]`
A streaming query with guarantee=exactly-once writes numbered rows to a topic of barnabas' broker, of one broker of
Apache Kafka 4.3.1, or of three of either that replicate. Now and then its driver (the JVM with all Python workers), one
Python worker, or a broker is killed with SIGKILL and started again. When the time is over the query runs in peace to
its end, and a reader of committed records must see every row exactly once. Prints what was done; the exit code is 1 if
a row is missing or there twice.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from barnabas import AdminClient, Broker, Consumer, NewTopic
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.apache_kafka_cluster import ApacheKafkaCluster

TOPIC = "rows"
PARTITIONS = 3
ROWS_PER_BATCH = 300
TASKS = 3
LONGEST_END = 240.0


class Outcome(NamedTuple):
    """What was done, and what a reader saw."""

    kills: dict[str, int]
    batches: int
    missing: int
    repeated: int

    @property
    def is_exact(self) -> bool:
        """Whether every row is there once."""
        return self.batches > 0 and not self.missing and not self.repeated


_SETTINGS = {"transaction.two.phase.commit.enable": "true"}
_FEW = {"offsets.topic.num.partitions": 3, "transaction.state.log.num.partitions": 3}


class Cluster:
    """A broker, or several, that can be killed; of one of the KINDS."""

    KINDS = ("barnabas", "barnabas-cluster", "apache-kafka", "apache-kafka-cluster")

    def __init__(self, kind: str, choose: random.Random, stack: contextlib.ExitStack) -> None:
        self._choose = choose
        self._nodes: list[tuple[Callable[[], None], Callable[[], None]]]  # how to kill each, and how to start it
        if kind == "barnabas":
            broker = stack.enter_context(Broker(config=_SETTINGS))
            self._nodes, self.servers = [(broker.kill, broker.start)], broker.bootstrap_servers
        elif kind == "barnabas-cluster":
            broker = stack.enter_context(Broker(brokers=3, config={**_SETTINGS, **_FEW}))
            self._nodes = [(partial(broker.kill, node), partial(broker.start, node)) for node in (1, 2, 3)]
            self.servers = broker.bootstrap_servers
        elif kind == "apache-kafka":
            kafka = stack.enter_context(ApacheKafka())
            self._nodes, self.servers = [(partial(kafka.stop, kill=True), kafka.start)], kafka.bootstrap_servers
        else:
            cluster = stack.enter_context(ApacheKafkaCluster())
            self._nodes = [(partial(each.stop, kill=True), each.start) for each in cluster.brokers.values()]
            self.servers = cluster.bootstrap_servers

    def restart(self) -> None:
        """Kill one, and start it on what it had written."""
        kill, start = self._choose.choice(self._nodes)
        kill()
        if len(self._nodes) > 1:
            time.sleep(self._choose.uniform(0, 8))  # the others lead after 3 s
        start()


class Driver:
    """The process of the query and all it has started."""

    def __init__(self, servers: str, folder: Path, options: list[str]) -> None:
        self._command = [sys.executable, "-m", "tools.spark_exactly_once", "--query", servers, str(folder), *options]
        self._log = folder / "driver.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it if it is not running."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """Kill driver, JVM and Python workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            for process in self.workers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._process.wait()

    def workers(self) -> list[int]:
        """Python processes that Spark has started; they have a session of their own."""
        assert self._process is not None
        children: dict[int, list[int]] = collections.defaultdict(list)
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit():
                    fields = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                    children[int(fields[1])].append(int(entry))
        found, looking = [], [self._process.pid]
        while looking:
            looking = [child for parent in looking for child in children[parent]]
            found += looking
        return [process for process in found if b"pyspark.daemon" in _command_line(process)]

    def kill_worker(self, choose: random.Random) -> bool:
        """Kill one Python worker, if there is one."""
        found = self.workers()
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(choose.choice(found), signal.SIGKILL)
        return bool(found)

    def log_text(self) -> str:
        """Return what it has said last."""
        return self._log.read_text(encoding="utf-8", errors="replace")[-4000:]


def _command_line(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def finished_batches(folder: Path) -> int:
    """How many batches Spark has in its commit log."""
    commits = folder / "checkpoint" / "commits"
    return len([name for name in os.listdir(commits) if name.isdigit()]) if commits.exists() else 0


def torment(
    seconds: float, *, least: int = 3, broker: str = "barnabas", seed: int = 0, options: list[str] | None = None
) -> Outcome:
    """Do it for so many seconds, and at least so often; see the module. The first kills are one of each kind."""
    choose = random.Random(seed)
    kills: collections.Counter[str] = collections.Counter()
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="exactly-once-", ignore_cleanup_errors=True))
        )
        cluster = Cluster(broker, choose, stack)
        with AdminClient(bootstrap_servers=cluster.servers) as admin:
            admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
        driver = Driver(cluster.servers, folder, options or [])
        stack.callback(driver.kill)
        acts: dict[str, Callable[[], Any]] = {
            "driver": driver.kill,
            "worker": lambda: driver.kill_worker(choose),
            "broker": cluster.restart,
        }
        driver.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end or sum(kills.values()) < least:
            next_kill = finished_batches(folder) + choose.randint(1, 3)
            if not _await_batches(driver, folder, next_kill, time.monotonic() + LONGEST_END):
                raise RuntimeError(f"the query does not go on: {driver.log_text()}")
            time.sleep(choose.uniform(0, 1.5))
            what = choose.choice([*acts]) if sum(kills.values()) >= len(acts) else [*acts][sum(kills.values())]
            acts[what]()
            kills[what] += 1
            print(f"{finished_batches(folder)} batches, killed: {what}", flush=True)
            driver.start()
        goal = finished_batches(folder) + 2
        (folder / "until").write_text(str(goal), encoding="utf-8")
        if not _await_batches(driver, folder, goal, time.monotonic() + LONGEST_END):
            raise RuntimeError(f"the query did not come to its end: {driver.log_text()}")
        driver.kill()
        batches = finished_batches(folder)
        seen = count_rows(cluster.servers)
    wanted = range(batches * ROWS_PER_BATCH)
    missing = sum(number not in seen for number in wanted)
    return Outcome(dict(kills), batches, missing, sum(times > 1 for times in seen.values()))


def _await_batches(driver: Driver, folder: Path, goal: int, end: float) -> bool:
    while finished_batches(folder) < goal:
        if time.monotonic() > end:
            return False
        driver.start()
        time.sleep(0.1)
    return True


def count_rows(servers: str) -> collections.Counter[int]:
    """How often a reader of committed records sees each number."""
    partitions = [(TOPIC, number) for number in range(PARTITIONS)]
    seen: collections.Counter[int] = collections.Counter()
    with Consumer(
        bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign(partitions)
        ends = {tuple(partition): end for partition, end in consumer.end_offsets(partitions).items()}
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            seen.update(int(record.value or b"-1") for record in consumer.poll(timeout=0.5))
    return seen


def query(servers: str, folder: Path, two_phase_commit: bool) -> None:
    """Run the query until the file `until` says that it is over; this process is the one that is killed."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import barnabas.spark

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    builder = SparkSession.builder.master("local[2,4]").appName("exactly-once")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    barnabas.spark.register(spark)
    numbers = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=ROWS_PER_BATCH, numPartitions=TASKS)
    options = {
        "kafka.bootstrap.servers": servers,
        "topic": TOPIC,
        "guarantee": "exactly-once",
        "checkpointLocation": str(folder / "checkpoint"),
        "kafka.transaction.two.phase.commit.enable": str(two_phase_commit).lower(),
    }
    rows = numbers.load().selectExpr("cast(value as string) as key", "cast(value as string) as value")
    while True:
        running = (
            rows.writeStream.format("barnabas").options(**options).trigger(processingTime="100 milliseconds").start()
        )
        while running.isActive:
            until = folder / "until"
            if until.exists() and finished_batches(folder) >= int(until.read_text(encoding="utf-8") or "1000000"):
                running.stop()
                return
            time.sleep(0.1)
        print(f"the query has failed, once more: {running.exception()}", flush=True)
        time.sleep(0.5)


def main() -> int:
    """Parse, torment, tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--broker", choices=Cluster.KINDS, default=Cluster.KINDS[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--two-phase-commit", action="store_true", help="KIP-939, which only barnabas' broker offers")
    parser.add_argument("--query", nargs=2, metavar=("SERVERS", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.query:
        query(arguments.query[0], Path(arguments.query[1]), arguments.two_phase_commit)
        return 0
    options = ["--two-phase-commit"] if arguments.two_phase_commit else []
    outcome = torment(arguments.seconds, broker=arguments.broker, seed=arguments.seed, options=options)
    print(f"{outcome.batches} batches, {outcome.missing} rows missing, {outcome.repeated} rows repeated")
    print(f"killed: {outcome.kills}")
    return 0 if outcome.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
