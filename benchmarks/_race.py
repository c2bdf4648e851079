"""What the races against Apache Kafka share: both brokers as processes of their own, turns, medians, targets."""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from barnabas import AdminClient, Broker, NewTopic, Producer
from tests.peers import apache_kafka, foreign_programs
from tests.support.core_broker import SocketClient, batch, fetch, produce

OURS, THEIRS = "barnabas", "Apache Kafka"
_TICKS = os.sysconf("SC_CLK_TCK")


class Peer(NamedTuple):
    """One of the two brokers: `start()`, `stop()`, `kill()`, `pid()`, all on the same port and data.

    `tls_servers` is its listener with TLS, where it has one, and `authority` the file of who issued its certificate.
    """

    name: str
    bootstrap_servers: str
    start: Callable[[], Any]
    stop: Callable[[], Any]
    kill: Callable[[], Any]
    pid: Callable[[], int]
    tls_servers: str = ""
    authority: str = ""


def need_apache_kafka() -> None:
    """End the program, and say what is missing, where Apache Kafka cannot run."""
    missing = apache_kafka.why_not()
    if missing:
        raise SystemExit(f"this race needs Apache Kafka: {missing}")


@contextmanager
def brokers(settings: dict[str, str] | None = None) -> Iterator[list[Peer]]:
    """Both brokers, running, with the same settings beside their defaults; Apache Kafka with -Xmx1g."""
    need_apache_kafka()
    # New topics of Apache Kafka have no leader for a moment, which producers warn of, for each of 2,000 partitions.
    logging.getLogger("barnabas").setLevel(logging.ERROR)
    chosen = {"group.initial.rebalance.delay.ms": "0", **(settings or {})}
    with Broker(config=chosen) as ours, apache_kafka.ApacheKafka(chosen) as theirs:
        yield [
            Peer(OURS, ours.bootstrap_servers, ours.start, ours.stop, ours.kill, lambda: ours.pid or 0),
            Peer(
                THEIRS,
                theirs.bootstrap_servers,
                theirs.start,
                theirs.stop,
                lambda: theirs.stop(kill=True),
                lambda: theirs.pid,
            ),
        ]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mb(pid: int) -> float:
    """Return the memory that a process holds."""
    with open(f"/proc/{pid}/status") as file:
        return int(file.read().partition("VmRSS:")[2].split()[0]) / 1024


def proportional_mb(pid: int) -> float:
    """Return the memory of a process, of what it shares with others its part (proportional set size)."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(file.read().partition("\nPss:")[2].split()[0]) / 1024


def create_topic(peer: Peer, topic: str, partitions: int = 6) -> None:
    """Create a topic and wait until every partition takes records."""
    with AdminClient(bootstrap_servers=peer.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=partitions)])
    fill(peer, topic, partitions, partitions * 10)


def fill(peer: Peer, topic: str, partitions: int, size: int, value: int = 10) -> None:
    """Write `size` bytes in values of `value` bytes, spread over the partitions."""
    with Producer(bootstrap_servers=peer.bootstrap_servers, acks="all", batch_size=1 << 19, linger_ms=5) as producer:
        payload = bytes(value)
        for number in range(max(size // value, 1)):
            producer.send(topic, value=payload, partition=number % partitions)
        producer.flush()


def answered(peer: Peer, topic: str = "bench") -> None:
    """Wait until a Produce and a Fetch of the topic's first partition are answered without an error."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with SocketClient(peer.bootstrap_servers) as client:
                written = client.request(produce(topic, batch(b"x", now_ms=int(time.time() * 1000))), 12)
                read = client.request(fetch(topic, partition_max_bytes=1000), 12)
        except OSError:
            time.sleep(0.005)
            continue
        codes = [written.responses[0].partition_responses[0].error_code, read.responses[0].partitions[0].error_code]
        if codes == [0, 0]:
            return
        time.sleep(0.005)
    raise SystemExit(f"{peer.name} did not answer within two minutes")


def franz_go(
    command: str, peer: Peer, topic: str, records: int, size: int = 100, *, keyed: bool = False, clients: int = 1
) -> dict[str, float]:
    """Run benchmarks/go against a broker; what it measured (see there)."""
    try:
        program = foreign_programs.go_program(foreign_programs.BENCHMARKS / "go")
    except foreign_programs.CannotBuildError as missing:
        raise SystemExit(f"this race needs franz-go: {missing}") from missing
    arguments = ["-b", peer.tls_servers or peer.bootstrap_servers, "-t", topic, "-n", str(records), "-s", str(size)]
    if keyed:
        arguments.append("-k")
    if peer.authority:
        arguments += ["-ca", peer.authority]
    if clients > 1:
        arguments += ["-c", str(clients)]
    done = subprocess.run([str(program), command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"franz-go failed on {peer.name}: {done.stderr[-500:]}")
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


class Figures:
    """Measurements of both brokers by label, taken in turns."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, list[float]]] = {}

    def add(self, label: str, peer: Peer, value: float) -> None:
        """Note one measurement."""
        self._values.setdefault(label, {OURS: [], THEIRS: []})[peer.name].append(value)

    def report(self, targets: Mapping[str, tuple[str, float | None]]) -> None:
        """Print medians and the median of the ratios pair by pair, ours to theirs.

        `targets` gives for a label the unit and the largest ratio that meets the target, None where there is none;
        where more is better, the unit ends with "/s" and the ratio is the smallest. What was not measured is left out.
        """
        for label, (unit, wanted) in targets.items():
            if label not in self._values:
                continue
            ours, theirs = self._values[label][OURS], self._values[label][THEIRS]
            ratio = statistics.median(a / b if b else float("nan") for a, b in zip(ours, theirs, strict=True))
            print(
                f"{label:<58} {statistics.median(ours):>12,.3f} : {statistics.median(theirs):>12,.3f} {unit:<9} "
                f"{ratio:7.3f} x   {_verdict(ratio, unit, wanted)} ({len(ours)} pairs)",
                flush=True,
            )


def _verdict(ratio: float, unit: str, wanted: float | None) -> str:
    if wanted is None:
        return "no target"
    met = ratio >= wanted if unit.endswith("/s") else ratio <= wanted
    return f"target {wanted:.3g} {'met' if met else 'MISSED'}"


def in_turns(peers: list[Peer], rounds: int) -> Iterator[Peer]:
    """Each broker once a round, and the other one first every second round."""
    for number in range(rounds):
        yield from peers if number % 2 == 0 else reversed(peers)
