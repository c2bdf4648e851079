"""Kills a streams application on a real Spark, its processes and the broker at random moments, and counts.

`python -m tools.spark_streams_kills [--seconds N] [--broker KIND] [--seed N] [--master MASTER] [--job JOB]`
A topology of `tools.streams_kill_jobs` runs while records are written: one that counts them by key behind a repartition
topic, one that goes through two of them, within a batch or a batch later, as each start has it, or one that counts in
windows and joins, with ten thousand keys. Now and then its driver
(the JVM with all Python workers), one Python worker, the process that holds a task's state, a broker, or with a master
like `local-cluster[2,1,1024]` an executor is killed with SIGKILL and started again. When the time is over the
application runs in peace to its end. Then a reader of committed records must see all that is to be there, each once
and in its order. Prints what was done; the exit code is 1 if
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
from tools.streams_kill_jobs import JOBS, PARTITIONS, Counting, WindowsAndJoins

ID = "kills"
LONGEST_END = 300.0
LOCAL = "local[2,4]"
SOURCES = Path(__file__).parents[1] / "src"


Job = Counting | WindowsAndJoins


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

    def __init__(self, servers: str, folder: Path, master: str, job: str) -> None:
        super().__init__(servers, folder, [])
        module = "tools.spark_streams_kills"
        self._command = [sys.executable, "-m", module, "--run", servers, str(folder), master, "--job", job]

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
    """Writes the records of a job, and knows how many."""

    def __init__(self, servers: str, job: Job) -> None:
        self._servers, self._job = servers, job
        self.sent = 0

    def write(self) -> None:
        """Write some more, once each."""
        with Producer(bootstrap_servers=self._servers, enable_idempotence=True) as producer:
            futures = [
                producer.send(topic, value, key=key, timestamp_ms=number)
                for number in range(self.sent, self.sent + self._job.AT_ONCE)
                for topic, key, value in self._job.records(number)
            ]
        for future in futures:
            future.result(60)
        self.sent += self._job.AT_ONCE


class Reader:
    """Reads all that is committed in a topic, as it comes."""

    def __init__(self, servers: str, topic: str, stack: contextlib.ExitStack) -> None:
        self._partitions = [(topic, number) for number in range(PARTITIONS)]
        settings = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        self._consumer = stack.enter_context(Consumer(bootstrap_servers=servers, **settings))
        self._consumer.assign(self._partitions)
        self.records: list[Any] = []

    def read(self) -> list[Any]:
        """Return all that there is by now."""
        ends = self._consumer.end_offsets(self._partitions)
        while any(self._consumer.position(partition) < end for partition, end in ends.items()):
            self.records += self._consumer.poll(timeout=0.5)
        return self.records


def torment(
    seconds: float, *, least: int = 4, broker: str = "barnabas", seed: int = 0, master: str = LOCAL, job: str = "counts"
) -> Outcome:
    """Do it for so many seconds, and at least so often and once of each kind; the first kills are one of each."""
    choose = random.Random(seed)
    kills: collections.Counter[str] = collections.Counter()
    os.environ["BARNABAS_KILLS"] = str(os.getpid())
    work: Job = JOBS[job]()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-", ignore_cleanup_errors=True)))
        cluster = Cluster(broker, choose, stack)
        with AdminClient(bootstrap_servers=cluster.servers) as admin:
            config = {"retention.ms": "-1"}
            topics = (*work.SOURCES, *work.TARGETS)
            admin.create_topics([NewTopic(name, PARTITIONS, configs=config) for name in topics])
        readers = {topic: Reader(cluster.servers, topic, stack) for topic in work.TARGETS}
        driver, writer = StreamsDriver(cluster.servers, folder, master, job), Writer(cluster.servers, work)
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
            goal = max(1, writer.sent - work.AT_ONCE * choose.randint(0, 1))
            _await_records(readers, driver, goal)
            writer.write()
            time.sleep(choose.uniform(0, 1.5))
            what = choose.choice([*acts]) if sum(kills.values()) >= len(acts) else [*acts][sum(kills.values())]
            acts[what]()
            kills[what] += 1
            print(f"{writer.sent} records, killed: {what}", flush=True)
            driver.start()
        _await_records(readers, driver, writer.sent)
        time.sleep(2)  # what is too much may come late
        driver.kill()
        readers |= {topic: Reader(cluster.servers, topic, stack) for topic in work.changelogs()}
        read = {topic: reader.read() for topic, reader in readers.items()}
        return Outcome(dict(kills), writer.sent, work.problems(read, writer.sent))


def _await_records(readers: dict[str, Reader], driver: StreamsDriver, goal: int) -> None:
    deadline = time.monotonic() + LONGEST_END
    while any(len(reader.read()) < goal for reader in readers.values()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the application does not go on: {driver.log_text()}")
        driver.start()
        time.sleep(0.5)


def run(servers: str, folder: Path, master: str, job: str) -> None:
    """Run the application until it is killed; this process is the one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    import tools.streams_kill_jobs
    from barnabas.streams import KafkaStreams, State

    cloudpickle.register_pickle_by_value(tools.streams_kill_jobs)  # type: ignore[no-untyped-call]  # not there
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
        config = {"application.id": ID, "bootstrap.servers": servers, "statestore.cache.max.bytes": 0}
        work = JOBS[job]()
        streams = KafkaStreams(
            work.topology(), {**config, **work.settings()}, spark=spark, checkpoint_location=str(folder / "checkpoint")
        )
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
    parser.add_argument("--job", choices=JOBS, default="counts")
    parser.add_argument("--run", nargs=3, metavar=("SERVERS", "FOLDER", "MASTER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        servers, folder, master = arguments.run
        run(servers, Path(folder), master, arguments.job)
        return 0
    chosen = {name: getattr(arguments, name) for name in ("broker", "seed", "master", "job")}
    outcome = torment(arguments.seconds, **chosen)
    print(f"{outcome.records} records, killed: {outcome.kills}")
    print("\n".join(outcome.problems[:20]) or "all is there once")
    return 0 if outcome.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
