"""`./run soak`: a week's load in one hour, with members, producers and topics that come and go; all stays flat.

The week is one of twenty records of 200 bytes a second, which is 12 million; in an hour that is 3,360 a second. A
broker in a process of its own and its clients in this one are looked at every few seconds: memory, descriptors,
threads, the data directory, and how long one record takes from `send()` to its consumer. What the last third of the
time shows is held against the second; the first is warming up. The exit status is 1 where something has grown.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition

WEEK_SECONDS, WEEK_RATE, RECORD_SIZE = 7 * 24 * 3600, 20, 200
TOPIC, PROBE = "load", "probe"
PARTITIONS = 6
SETTINGS = {
    "log.retention.check.interval.ms": 5000,
    "log.segment.delete.delay.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "producer.id.expiration.ms": 20_000,
    "transactional.id.expiration.ms": 60_000,
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
}
TOPIC_CONFIGS = {"retention.bytes": str(8 << 20), "segment.bytes": str(2 << 20)}
#: How often the guests (a member, a producer, a transaction, a topic) come and go, in seconds.
GUEST_SECONDS = 4.0


class Sample(NamedTuple):
    """What was seen at one time; memory in MB, latency in milliseconds."""

    broker_memory: float
    broker_descriptors: float
    broker_threads: float
    client_memory: float
    client_descriptors: float
    client_threads: float
    data: float
    latency_p50: float
    latency_p99: float


#: How much of it is growth: a share of the earlier value, and what is added to that.
ALLOWED: dict[str, tuple[float, float]] = {
    "broker_memory": (0.08, 6.0),
    "broker_descriptors": (0.0, 12.0),
    "broker_threads": (0.0, 3.0),
    "client_memory": (0.08, 8.0),
    "client_descriptors": (0.0, 12.0),
    "client_threads": (0.0, 4.0),
    "data": (0.15, 16.0),
    "latency_p50": (0.5, 2.0),
    "latency_p99": (1.0, 40.0),
}


def of_process(pid: int) -> tuple[float, float, float]:
    """Return memory in MB, descriptors and threads of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    status = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if value.split()}
    return int(status["VmRSS"]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


def size_of(directory: str) -> float:
    """Return the MB of all files below a directory."""
    return sum(path.stat().st_size for path in Path(directory).rglob("*.log") if path.exists()) / (1 << 20)


class Soak:
    """The load, the guests, and what was measured."""

    def __init__(self, broker: Broker, rate: float) -> None:
        self.servers = {"bootstrap.servers": broker.bootstrap_servers}
        self.broker = broker
        self.rate = rate
        self.over = threading.Event()
        self.sent = self._read = self.guests = self.failed = 0
        self._lock = threading.Lock()
        self.latencies: list[float] = []
        self.problems: list[str] = []
        self.threads = [
            threading.Thread(target=self._guarded, args=(work,), name=work.__name__)
            for work in (self._produce, self._consume, self._consume, self._be_guests, self._probe)
        ]

    @property
    def read_by_group(self) -> int:
        """How many records the members have read, all together."""
        with self._lock:
            return self._read

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as problem:  # noqa: BLE001 - it is told at the end, and ends the soak
            self.problems.append(f"{work.__name__}: {problem!r}")
            self.over.set()

    def _delivered(self, _: object, error: Exception | None) -> None:
        self.failed += error is not None

    def _produce(self) -> None:
        began, value = time.monotonic(), os.urandom(RECORD_SIZE // 2) * 2
        with Producer(self.servers, linger_ms=10, enable_metrics_push=False) as producer:
            while not self.over.wait(0.05):
                for _ in range(int((time.monotonic() - began) * self.rate) - self.sent):
                    producer.send(TOPIC, value, key=b"%d" % (self.sent % 1000), on_delivery=self._delivered)
                    self.sent += 1

    def _count(self, consumer: Consumer, timeout: float) -> None:
        records = len(consumer.poll(timeout))
        with self._lock:
            self._read += records

    def _consume(self) -> None:
        with Consumer(TOPIC, self.servers, group_id="readers", auto_offset_reset="earliest") as consumer:
            while not self.over.is_set():
                self._count(consumer, 0.5)

    def _be_guests(self) -> None:
        number = 0
        while not self.over.wait(GUEST_SECONDS):
            number += 1
            with Consumer(TOPIC, self.servers, group_id="readers", auto_offset_reset="latest") as consumer:
                self._count(consumer, 1.0)
            with Producer(self.servers, transactional_id=f"guest-{number % 20}") as producer:
                producer.init_transactions()
                producer.begin_transaction()
                producer.send(PROBE, b"guest")
                (producer.commit_transaction if number % 3 else producer.abort_transaction)()
            with AdminClient(self.servers) as admin:
                admin.create_topics([NewTopic(f"guest-{number}", 2)])
                admin.describe_groups(["readers"])
                admin.delete_topics([f"guest-{number}"])
            self.guests += 1

    def _probe(self) -> None:
        with Producer(self.servers, linger_ms=0) as producer, Consumer(self.servers, fetch_max_wait_ms=100) as consumer:
            place = TopicPartition(PROBE, 1)
            consumer.assign([place])
            consumer.seek_to_end()
            consumer.position(place)
            while not self.over.wait(0.1):
                began = time.monotonic()
                producer.send(PROBE, b"probe", partition=1).result(30)
                while not len(consumer.poll(1.0)):
                    if time.monotonic() - began > 30:
                        raise TimeoutError("a record did not come within 30 s")
                self.latencies.append((time.monotonic() - began) * 1000)

    def sample(self) -> Sample:
        """Look at both processes, and at the latencies since the last look."""
        gc.collect()
        latencies, self.latencies = sorted(self.latencies) or [0.0], []
        broker = self.broker
        assert broker.pid is not None
        p50, p99 = latencies[len(latencies) // 2], latencies[int(len(latencies) * 0.99)]
        return Sample(*of_process(broker.pid), *of_process(os.getpid()), size_of(str(broker.data_dir)), p50, p99)

    def run(self, seconds: float, every: float) -> list[Sample]:
        """Let the load run, and look at it."""
        with AdminClient(self.servers) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, configs=TOPIC_CONFIGS), NewTopic(PROBE, 2)])
        for thread in self.threads:
            thread.start()
        samples = []
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.over.wait(every):
            samples.append(self.sample())
            print(f"{len(samples) * every / 60:5.1f} min  {row(samples[-1])}", flush=True)
        self.over.set()
        for thread in self.threads:
            thread.join(120)
        return samples


def row(sample: Sample) -> str:
    """Return a sample as a line."""
    return "  ".join(f"{name} {value:.1f}" for name, value in sample._asdict().items())


def grown(samples: list[Sample]) -> list[str]:
    """Say what is more in the last third of the time than in the second, by medians."""
    third = len(samples) // 3
    found = []
    for at, (name, (share, room)) in enumerate(ALLOWED.items()):
        before = statistics.median(sample[at] for sample in samples[third : 2 * third])
        after = statistics.median(sample[at] for sample in samples[2 * third :])
        if after > before * (1 + share) + room:
            found.append(f"FAILED: {name} went from {before:.1f} to {after:.1f}")
    return found


def main() -> int:
    """Run the soak; 1 if something has grown, or has failed."""
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (60: the whole week)")
    parser.add_argument("--rate", type=float, default=WEEK_SECONDS * WEEK_RATE / 3600, help="records a second")
    arguments = parser.parse_args()
    seconds = arguments.minutes * 60
    with Broker(config=SETTINGS) as broker:
        soak = Soak(broker, arguments.rate)
        samples = soak.run(seconds, min(15.0, seconds / 30))
    problems = [f"FAILED: {problem}" for problem in soak.problems]
    problems += grown(samples) if len(samples) >= 9 else ["FAILED: too short for a verdict"]
    if soak.failed:
        problems.append(f"FAILED: {soak.failed} records were not delivered")
    if soak.read_by_group < soak.sent * 0.9:
        problems.append(f"FAILED: {soak.read_by_group} of {soak.sent} records were read")
    print("\n".join(problems) or "all is flat")
    done = f"{arguments.minutes:.0f} minutes, {soak.sent} records, {soak.guests} rounds of guests"
    print(f"soak: {done}; {row(samples[-1])}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
