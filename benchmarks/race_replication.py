"""Replication: three brokers of ours against three of Apache Kafka, RF 3, min ISR 2, acks=all, 4.3.1 and 3.9.1.

Under a quorum the peer is Apache Kafka 4.3.1, each cluster with one controller of its own software, in a process of its
own; under ZooKeeper it is 3.9.1, each cluster with a ZooKeeper of its own. One control plane after the other, both
clusters in turns. `--parts`: throughput of 100-byte records with franz-go and with our producer, and the CPU of all
brokers a record; round trips of one record at a time; memory (proportional set size); what a client waits when the
leader or a follower is killed (default settings), or the leader shut down; how soon a killed broker is in all ISRs
again after its start, and how fast it copies what was written meanwhile (its start included), beside one file of that
size that a process writes and flushes. The first two are measured once before, for Java compiles what runs often.
Run: ./run bench race_replication [--control quorum,zookeeper] [--parts throughput,trips,memory,ends,copy]
     [--records N] [--trips N] [--rounds N] [--megabytes N]
"""

from __future__ import annotations

import itertools
import logging
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._options import parser
from benchmarks._race import (
    OURS,
    THEIRS,
    Figures,
    Peer,
    cpu_seconds,
    franz_go,
    in_turns,
    need_apache_kafka,
    proportional_mb,
)
from tests.peers import zookeeper
from tests.peers.mixed_cluster import MixedCluster
from tests.peers.zookeeper import ZooKeeperCluster

TOPIC, PARTITIONS = "bench", 6
#: Topics of franz-go's, each with as many partitions: a consumer reads what its round has written.
GO = "go"
PARTS = ("throughput", "trips", "memory", "ends", "copy")
#: What tests set to see failures sooner is Apache Kafka's default here.
DEFAULTS = {"replica.lag.time.max.ms": "30000"}
OF_QUORUM = {**DEFAULTS, "broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
OF_ZOOKEEPER = {**DEFAULTS, "zookeeper.session.timeout.ms": "18000"}
PRODUCE, CONSUME = "produce, franz-go", "consume, franz-go"
OUR_PRODUCE = "produce, our producer"
P50, P99 = "round trip of one record, p50", "round trip of one record, p99"
MEMORY, ALL_MEMORY = "memory of the three brokers", "memory of all processes of the cluster"
LEADER_KILLED = "SIGKILL of the leader to the next acknowledged record"
FOLLOWER_KILLED = "SIGKILL of a follower to the next acknowledged record"
SHUTDOWN = "controlled shutdown of the leader: longest wait"
BACK = "killed broker: from its start to all ISRs"
COPIED, COPY_CPU = "killed broker: copied until it is in all ISRs", "killed broker: CPU of all three for that"
RAW = "the same size in one file by one process, flushed"
TARGETS: dict[str, tuple[str, float | None]] = {
    PRODUCE: ("records/s", 1.0),
    f"{PRODUCE}: CPU of the brokers": ("us/record", 0.67),
    CONSUME: ("records/s", 1.0),
    f"{CONSUME}: CPU of the brokers": ("us/record", 0.67),
    OUR_PRODUCE: ("records/s", 1.0),
    f"{OUR_PRODUCE}: CPU of the brokers": ("us/record", 0.67),
    P50: ("ms", 0.5),
    P99: ("ms", 0.5),
    MEMORY: ("MB", 1 / 3),
    ALL_MEMORY: ("MB", None),
    LEADER_KILLED: ("s", None),
    FOLLOWER_KILLED: ("s", None),
    SHUTDOWN: ("s", None),
    BACK: ("s", None),
    COPIED: ("MB/s", None),
    RAW: ("MB/s", None),
    COPY_CPU: ("ms/MB", None),
}


Cluster = MixedCluster | ZooKeeperCluster


class RacingCluster:
    """One of the clusters of a race, with a topic on all three brokers; a context manager."""

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.cluster = cluster
        self.settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}
        self.settings |= {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100}
        # One address, for franz-go takes it whole.
        one = cluster.brokers[1]
        self.peer = Peer(
            name, one.bootstrap_servers, one.start, one.stop, partial(one.stop, kill=True), lambda: one.pid
        )
        self.admin = AdminClient(bootstrap_servers=cluster.bootstrap_servers)
        self._rounds = itertools.count()
        self.make(TOPIC)

    def close(self) -> None:
        """Let the admin client go."""
        self.admin.close()

    def make(self, topic: str) -> None:
        """Make a topic; returns when all replicas are in sync."""
        replicas = {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(PARTITIONS)}
        self.admin.create_topics([NewTopic(topic, replica_assignments=replicas)])
        self.wait_until_whole(topic=topic)

    def _partitions(self, topic: str = TOPIC) -> list[Any]:
        found = self.admin.describe_topics([topic], raise_errors=False)
        return list(found[topic].partitions) if topic in found else []

    def wait_until_whole(self, replicas: int = 3, topic: str = TOPIC) -> None:
        """Return when all replicas, or so many, are in sync."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = self._partitions(topic)
            if len(found) == PARTITIONS and all(one.leader and len(one.in_sync_replicas) == replicas for one in found):
                return
            time.sleep(0.05)
        raise SystemExit(f"the replicas of {self.name} are not in sync within two minutes")

    @property
    def cpu(self) -> float:
        """CPU seconds of the brokers so far."""
        return sum(cpu_seconds(broker.pid) for broker in self.cluster.brokers.values())

    @contextmanager
    def counted(self, label: str, records: int, figures: Figures) -> Iterator[None]:
        """Note the brokers' CPU a record."""
        cpu = self.cpu
        yield
        figures.add(f"{label}: CPU of the brokers", self.peer, (self.cpu - cpu) / records * 1e6)

    def throughput(self, records: int, figures: Figures) -> None:
        """Produce and consume as fast as possible."""
        topic = f"{GO}-{next(self._rounds)}"
        self.make(topic)
        for label, command in ((PRODUCE, "produce"), (CONSUME, "consume")):
            with self.counted(label, records, figures):
                figures.add(label, self.peer, records / franz_go(command, self.peer, topic, records)["seconds"])
        value = bytes(100)
        with Producer({**self.settings, "linger.ms": 5, "batch.size": 1 << 17}) as producer:
            for number in range(PARTITIONS):
                producer.send(TOPIC, value, partition=number).result(30)
            with self.counted(OUR_PRODUCE, records, figures):
                begun = time.monotonic()
                for number in range(records):
                    producer.send(TOPIC, value, partition=number % PARTITIONS)
                producer.flush()
                figures.add(OUR_PRODUCE, self.peer, records / (time.monotonic() - begun))
        self.admin.delete_topics([topic])

    def round_trips(self, count: int, figures: Figures) -> None:
        """Send one record after the answer of the one before."""
        taken = []
        with Producer({**self.settings, "linger.ms": 0}) as producer:
            for number in range(count + 20):
                begun = time.monotonic()
                producer.send(TOPIC, b"x" * 100, partition=number % PARTITIONS).result(30)
                taken.append((time.monotonic() - begun) * 1000)
        taken = sorted(taken[20:])
        figures.add(P50, self.peer, statistics.median(taken))
        figures.add(P99, self.peer, taken[int(len(taken) * 0.99)])

    def memory(self, figures: Figures) -> None:
        """Note what the brokers hold, and all that the cluster consists of."""
        cluster = self.cluster
        brokers = sum(proportional_mb(broker.pid) for broker in cluster.brokers.values())
        rest = [cluster.zookeeper] if isinstance(cluster, ZooKeeperCluster) else cluster.controllers.values()
        figures.add(MEMORY, self.peer, brokers)
        figures.add(ALL_MEMORY, self.peer, brokers + sum(proportional_mb(node.pid) for node in rest))

    def _start(self, number: int) -> None:
        """Start a broker that has ended; one of Apache Kafka under ZooKeeper does not while its session lasts."""
        if isinstance(self.cluster, ZooKeeperCluster) and self.name != OURS:
            self.cluster.wait_until_gone(number)
        self.cluster.brokers[number].start()

    def _longest_wait(self, end: Callable[[Any], None], *, of_follower: bool = False) -> float:
        """Return how long the longest record took while the leader of partition 0 ended, or a follower."""
        leader = next(one.leader.id for one in self._partitions() if one.partition == 0)
        ended = next(one for one in self.cluster.brokers if (one != leader) == of_follower)
        longest = 0.0
        # Beside the records: an end waits for the process, which may be at its flushes when another broker leads.
        ending = threading.Thread(target=end, args=(self.cluster.brokers[ended],))
        with Producer({**self.settings, "linger.ms": 0, "delivery.timeout.ms": 120_000}) as producer:
            for number in itertools.count():
                begun = time.monotonic()
                if number == 20:
                    ending.start()
                producer.send(TOPIC, b"x", partition=0).result(130)
                longest = max(longest, (time.monotonic() - begun) * (number >= 20))
                if number >= 60 and not ending.is_alive():
                    break
        ending.join()
        self._start(ended)
        self.wait_until_whole()
        return longest

    def ends(self, figures: Figures) -> None:
        """Kill the leader, a follower, and shut a leader down, while records are sent."""
        figures.add(LEADER_KILLED, self.peer, self._longest_wait(lambda broker: broker.stop(kill=True)))
        wait = self._longest_wait(lambda broker: broker.stop(kill=True), of_follower=True)
        figures.add(FOLLOWER_KILLED, self.peer, wait)
        figures.add(SHUTDOWN, self.peer, self._longest_wait(lambda broker: broker.stop()))

    def copy(self, megabytes: int, figures: Figures) -> None:
        """Kill a broker and start it again; then once more, with records that it has to copy."""
        for size in (0, megabytes):
            broker = self.cluster.brokers[3]
            broker.stop(kill=True)
            self.wait_until_whole(2)
            with Producer({**self.settings, "batch.size": 1 << 19}) as producer:
                for number in range(size * 100):
                    producer.send(TOPIC, bytes(10_000), partition=number % PARTITIONS)
            if isinstance(self.cluster, ZooKeeperCluster) and self.name != OURS:
                self.cluster.wait_until_gone(3)
            if size:
                figures.add(RAW, self.peer, raw_disk(size))
            cpu = sum(cpu_seconds(one.pid) for one in self.cluster.brokers.values() if one is not broker)
            begun = time.monotonic()
            broker.start()
            self.wait_until_whole()
            seconds = time.monotonic() - begun
            if not size:
                figures.add(BACK, self.peer, seconds)
            else:
                figures.add(COPIED, self.peer, size / seconds)
                figures.add(COPY_CPU, self.peer, (self.cpu - cpu) / size * 1000)


def raw_disk(megabytes: int) -> float:
    """Return the MB/s at which the disk below the brokers' folders takes one file, the flush included.

    It also brings memory in that a virtual machine's host may have taken back: the file is gone when this returns, and
    what is written next finds its pages.
    """
    block = bytes(1_000_000)
    with tempfile.TemporaryFile() as file:
        begun = time.monotonic()
        for _ in range(megabytes):
            file.write(block)
        file.flush()
        os.fdatasync(file.fileno())
        return megabytes / (time.monotonic() - begun)


def under_quorum() -> tuple[MixedCluster, MixedCluster]:
    """Three brokers of each software, under a controller of theirs; Apache Kafka is 4.3.1."""
    ours = MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1, settings=OF_QUORUM)
    return ours, MixedCluster(theirs=3, ours=0, controllers=1, settings=OF_QUORUM)


def under_zookeeper() -> tuple[ZooKeeperCluster, ZooKeeperCluster]:
    """Three brokers of each software, under a ZooKeeper of theirs; Apache Kafka is 3.9.1."""
    return ZooKeeperCluster(0, 3, OF_ZOOKEEPER), ZooKeeperCluster(3, 0, OF_ZOOKEEPER)


CONTROL: dict[str, Callable[[], tuple[Cluster, Cluster]]] = {
    "quorum": under_quorum,
    "zookeeper": under_zookeeper,
}


def race(control: str, parts: set[str], given: Any) -> Figures:
    """Measure two clusters under one control plane."""
    figures, warmed_up = Figures(), Figures()
    with ExitStack() as stack:
        racing = []
        ours, theirs = CONTROL[control]()
        for name, cluster in ((OURS, ours), (THEIRS, theirs)):
            stack.enter_context(cluster)
            racing.append(RacingCluster(name, cluster))
            stack.callback(racing[-1].close)
        found = {one.name: one for one in racing}
        for number, peer in enumerate(in_turns([one.peer for one in racing], given.rounds + 1)):
            into = warmed_up if number < len(racing) else figures
            if "throughput" in parts:
                found[peer.name].throughput(given.records, into)
            if "trips" in parts:
                found[peer.name].round_trips(given.trips, into)
        for one in racing:
            if "memory" in parts:
                one.memory(figures)
        for one in racing:
            if "ends" in parts:
                one.ends(figures)
            if "copy" in parts:
                one.copy(given.megabytes, figures)
    return figures


def main() -> None:
    """Run the clusters, and print the medians and ratios."""
    made = parser(__doc__)
    made.add_argument("--control", default=",".join(CONTROL))
    made.add_argument("--parts", default=",".join(PARTS))
    for name, default in (("records", 1_000_000), ("rounds", 3), ("trips", 1000), ("megabytes", 1000)):
        made.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    given = made.parse_args()
    need_apache_kafka()
    missing = zookeeper.why_not()
    if missing:
        raise SystemExit(f"this race needs Apache Kafka {zookeeper.VERSION}: {missing}")
    logging.getLogger("barnabas").setLevel(logging.ERROR)
    for control in given.control.split(","):
        figures = race(control, set(given.parts.split(",")), given)
        print(f"under a {control}" if control == "quorum" else "under ZooKeeper", flush=True)
        figures.report(TARGETS)


if __name__ == "__main__":
    main()
