"""Kills a streams application on a real Spark, its processes and the broker at random moments, and counts.

`python -m tools.spark_streams_kills [--seconds N] [--broker KIND] [--seed N] [--master MASTER]`
A topology counts records by key, behind a repartition topic, while more of them are written. Now and then its driver
(the JVM with all Python workers), one Python worker, the process that holds a task's state, a broker, or with a master
like `local-cluster[2,1,1024]` an executor is killed with SIGKILL and started again. When the time is over the
application runs in peace to its end. Then a reader of committed records must see the counts of each key one after the
other, none missing and none twice, and the last ones in the changelog. Prints what was done; the exit code is 1 if
something is wrong.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from barnabas import AdminClient, Consumer, NewTopic, Producer
from tools.spark_exactly_once import Cluster, Driver

SOURCE, TARGET, STORE, ID = "events", "counts", "seen", "kills"
PARTITIONS = 2
KEYS = 40
RECORDS_AT_ONCE = 200
LONGEST_END = 300.0
LOCAL = "local[2,4]"
SOURCES = Path(__file__).parents[1] / "src"


class Outcome(NamedTuple):
    """What was done, and what a reader saw."""

    kills: dict[str, int]
    records: int
    problems: list[str]

    @property
    def is_exact(self) -> bool:
        """Whether every record was counted once."""
        return self.records > 0 and not self.problems


class StreamsDriver(Driver):
    """The process of the application and all it has started."""

    def __init__(self, servers: str, folder: Path, master: str) -> None:
        super().__init__(servers, folder, [])
        self._command = [sys.executable, "-m", "tools.spark_streams_kills", "--run", servers, str(folder), master]

    def kill(self) -> None:
        """Kill driver, JVM, Python workers, and executors that are JVMs of their own."""
        super().kill()
        while kill_one_of(_EXECUTOR, random.Random(0)):
            time.sleep(0.05)


#: What command lines of a task's process and of an executor have in them.
_TASK_PROCESS, _EXECUTOR = b"spark.task_processes", b"CoarseGrainedExecutorBackend"


def kill_one_of(kind: bytes, choose: random.Random) -> bool:
    """Kill one process of the torment with this in its command line, if there is one."""
    found = processes_of(kind)
    if found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(choose.choice(found), signal.SIGKILL)
    return bool(found)


def processes_of(kind: bytes) -> list[int]:
    """Return the processes of this torment with this in their command line."""
    found = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            command = Path(f"/proc/{entry}/cmdline").read_bytes() if entry.isdigit() else b""
            environment = Path(f"/proc/{entry}/environ").read_bytes() if kind in command else b""
            if f"BARNABAS_KILLS={os.getpid()}".encode() in environment:
                found.append(int(entry))
    return found


class Writer:
    """Writes records with the keys in turn, and knows how many."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.sent = 0

    def write(self) -> None:
        """Write some more, once each."""
        with Producer(bootstrap_servers=self._servers, enable_idempotence=True) as producer:
            futures = [
                producer.send(SOURCE, b"%d" % ((self.sent + number) % KEYS), timestamp_ms=self.sent + number)
                for number in range(RECORDS_AT_ONCE)
            ]
        for future in futures:
            future.result(60)
        self.sent += RECORDS_AT_ONCE


def torment(seconds: float, *, least: int = 4, broker: str = "barnabas", seed: int = 0, master: str = LOCAL) -> Outcome:
    """Do it for so many seconds, and at least so often and once of each kind; the first kills are one of each."""
    choose = random.Random(seed)
    kills: collections.Counter[str] = collections.Counter()
    os.environ["BARNABAS_KILLS"] = str(os.getpid())
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-", ignore_cleanup_errors=True)))
        cluster = Cluster(broker, choose, stack)
        with AdminClient(bootstrap_servers=cluster.servers) as admin:
            config = {"retention.ms": "-1"}
            admin.create_topics([NewTopic(name, PARTITIONS, configs=config) for name in (SOURCE, TARGET)])
        driver, writer = StreamsDriver(cluster.servers, folder, master), Writer(cluster.servers)
        stack.callback(driver.kill)
        acts: dict[str, Callable[[], Any]] = {
            "driver": driver.kill,
            "worker": lambda: driver.kill_worker(choose),
            "task process": lambda: kill_one_of(_TASK_PROCESS, choose),
            "broker": cluster.restart,
        }
        if master != LOCAL:
            acts["executor"] = lambda: kill_one_of(_EXECUTOR, choose)
        driver.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end or sum(kills.values()) < max(least, len(acts)):
            writer.write()
            goal = max(1, writer.sent - RECORDS_AT_ONCE * choose.randint(0, 1))
            _await_counts(cluster.servers, driver, goal)
            writer.write()
            time.sleep(choose.uniform(0, 1.5))
            what = choose.choice([*acts]) if sum(kills.values()) >= len(acts) else [*acts][sum(kills.values())]
            acts[what]()
            kills[what] += 1
            print(f"{writer.sent} records, killed: {what}", flush=True)
            driver.start()
        _await_counts(cluster.servers, driver, writer.sent)
        time.sleep(2)  # what is too much may come late
        driver.kill()
        return Outcome(dict(kills), writer.sent, problems(cluster.servers, writer.sent))


def _await_counts(servers: str, driver: StreamsDriver, goal: int) -> None:
    deadline = time.monotonic() + LONGEST_END
    while len(committed(servers, TARGET)) < goal:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the application does not go on: {driver.log_text()}")
        driver.start()
        time.sleep(0.5)


def problems(servers: str, sent: int) -> list[str]:
    """Return what is wrong with the counts."""
    counts: dict[bytes, list[int]] = collections.defaultdict(list)
    for record in committed(servers, TARGET):
        counts[record.key].append(int.from_bytes(record.value, "big"))
    wanted = {b"%d" % key: len(range(key, sent, KEYS)) for key in range(KEYS)}
    found = [
        f"key {key!r}: {counts[key]}, wanted 1 to {count}"
        for key, count in wanted.items()
        if counts[key] != [*range(1, count + 1)]
    ]
    logged = {
        record.key: int.from_bytes(record.value, "big") for record in committed(servers, f"{ID}-{STORE}-changelog")
    }
    return found if logged == wanted else [*found, f"the changelog holds {logged}"]


def committed(servers: str, topic: str) -> list[Any]:
    """Return what a reader of committed records sees."""
    partitions = [(topic, number) for number in range(PARTITIONS)]
    settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **settings) as consumer:
        consumer.assign(partitions)
        ends, found = consumer.end_offsets(partitions), []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            found += consumer.poll(timeout=0.5)
        return found


def run(servers: str, folder: Path, master: str) -> None:
    """Run the application until it is killed; this process is the one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from barnabas.streams import Grouped, KafkaStreams, Serdes, State, StreamsBuilder

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.executorEnv.PYTHONPATH": str(SOURCES),
    }
    builder = SparkSession.builder.master(master).appName(ID)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    while True:
        steps = StreamsBuilder()
        events = steps.stream(SOURCE, key=Serdes.string(), value=Serdes.string())
        grouped = events.group_by(lambda key, value: value, Grouped.with_(Serdes.string(), Serdes.string()))
        grouped.count(store=STORE).to_stream().to(TARGET, key=Serdes.string(), value=Serdes.long())
        config = {"application.id": ID, "bootstrap.servers": servers, "statestore.cache.max.bytes": 0}
        streams = KafkaStreams(steps.build(), config, spark=spark, checkpoint_location=str(folder / "checkpoint"))
        with contextlib.suppress(Exception), streams:
            streams.wait_for(State.ERROR, State.NOT_RUNNING)
        print(f"the application has failed, once more: {streams.exception}", flush=True)
        time.sleep(0.5)


def main() -> int:
    """Parse, torment, tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--broker", choices=Cluster.KINDS, default=Cluster.KINDS[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--master", default=LOCAL)
    parser.add_argument("--run", nargs=3, metavar=("SERVERS", "FOLDER", "MASTER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        servers, folder, master = arguments.run
        run(servers, Path(folder), master)
        return 0
    outcome = torment(arguments.seconds, broker=arguments.broker, seed=arguments.seed, master=arguments.master)
    print(f"{outcome.records} records, killed: {outcome.kills}")
    print("\n".join(outcome.problems) or "each was counted once")
    return 0 if outcome.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
