"""Replication: three brokers of ours against three of Apache Kafka 4.3.1, RF 3, min ISR 2, acks=all.

Each cluster has one controller of its own software, in a process of its own, that is not counted. In turns: throughput
of 100-byte records with all brokers' CPU a record, round trips of one record at a time, and what a client waits when
the leader is killed (default settings), or shut down; how soon a killed broker is in all ISRs again after its start,
and how fast it copies what was written meanwhile (its start included); and the memory of the three brokers.
Run: ./run bench race_replication [--records N] [--rounds N] [--megabytes N]
"""

from __future__ import annotations

import itertools
import logging
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._options import options
from benchmarks._race import OURS, THEIRS, Figures, Peer, cpu_seconds, in_turns, need_apache_kafka, resident_mb
from tests.peers.mixed_cluster import MixedCluster

TOPIC, PARTITIONS = "bench", 6
#: What tests set to see failures sooner is Apache Kafka's default here.
DEFAULTS = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "replica.lag.time.max.ms": "30000",
}
TARGETS: dict[str, tuple[str, float | None]] = {
    "produce, 100-byte records, acks=all": ("records/s", 1.0),
    "CPU of the three brokers": ("us/record", 0.67),
    "round trip of one record, p50": ("ms", 0.5),
    "round trip of one record, p99": ("ms", 0.5),
    "SIGKILL of the leader to the next acknowledged record": ("s", 0.5),
    "controlled shutdown of the leader: longest wait": ("s", None),
    "killed broker: from its start to all ISRs": ("s", None),
    "killed broker: copied until it is in all ISRs": ("MB/s", None),
    "killed broker: CPU of all three for that": ("ms/MB", None),
    "memory of the three brokers": ("MB", 1 / 3),
}


class RacingCluster:
    """One of the two clusters, with a topic on all three brokers."""

    def __init__(self, name: str, cluster: MixedCluster) -> None:
        self.name = name
        self.cluster = cluster
        self.peer = Peer(name, cluster.bootstrap_servers, *[lambda: 0] * 4)
        self.settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}
        self.settings |= {"reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "retry.backoff.max.ms": 100}
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            replicas = {n: [(n + k) % 3 + 1 for k in range(3)] for n in range(PARTITIONS)}
            admin.create_topics([NewTopic(TOPIC, replica_assignments=replicas)])
        self.wait_until_whole()

    def _partitions(self) -> list[Any]:
        with AdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            found = admin.describe_topics([TOPIC], raise_errors=False)
            return list(found[TOPIC].partitions) if TOPIC in found else []

    def wait_until_whole(self, replicas: int = 3) -> None:
        """Return when all replicas, or so many, are in sync."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            found = self._partitions()
            if len(found) == PARTITIONS and all(one.leader and len(one.in_sync_replicas) == replicas for one in found):
                return
            time.sleep(0.05)
        raise SystemExit(f"the replicas of {self.name} are not in sync within two minutes")

    @property
    def cpu(self) -> float:
        """CPU seconds of the brokers so far."""
        return sum(cpu_seconds(broker.pid) for broker in self.cluster.brokers.values())

    @property
    def memory(self) -> float:
        """MB that the brokers hold."""
        return sum(resident_mb(broker.pid) for broker in self.cluster.brokers.values())

    def throughput(self, records: int, figures: Figures) -> None:
        """Produce as fast as possible."""
        value = bytes(100)
        with Producer({**self.settings, "linger.ms": 5, "batch.size": 1 << 17}) as producer:
            for number in range(PARTITIONS):
                producer.send(TOPIC, value, partition=number).result(30)
            cpu, begun = self.cpu, time.monotonic()
            for number in range(records):
                producer.send(TOPIC, value, partition=number % PARTITIONS)
            producer.flush()
            seconds = time.monotonic() - begun
        figures.add("produce, 100-byte records, acks=all", self.peer, records / seconds)
        figures.add("CPU of the three brokers", self.peer, (self.cpu - cpu) / records * 1e6)

    def round_trips(self, count: int, figures: Figures) -> None:
        """Send one record after the answer of the one before."""
        taken = []
        with Producer({**self.settings, "linger.ms": 0}) as producer:
            for number in range(count + 20):
                begun = time.monotonic()
                producer.send(TOPIC, b"x" * 100, partition=number % PARTITIONS).result(30)
                taken.append((time.monotonic() - begun) * 1000)
        taken = sorted(taken[20:])
        figures.add("round trip of one record, p50", self.peer, statistics.median(taken))
        figures.add("round trip of one record, p99", self.peer, taken[int(len(taken) * 0.99)])

    def _longest_wait(self, end: Callable[[Any], None]) -> float:
        """Return how long the longest record took while the leader of partition 0 ended."""
        leader = next(one.leader.id for one in self._partitions() if one.partition == 0)
        broker, longest = self.cluster.brokers[leader], 0.0
        # Beside the records: an end waits for the process, which may be at its flushes when another broker leads.
        ending = threading.Thread(target=end, args=(broker,))
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
        broker.start()
        self.wait_until_whole()
        return longest

    def failures(self, figures: Figures) -> None:
        """Kill the leader, and shut one down, while records are sent."""
        label = "SIGKILL of the leader to the next acknowledged record"
        figures.add(label, self.peer, self._longest_wait(lambda broker: broker.stop(kill=True)))
        label = "controlled shutdown of the leader: longest wait"
        figures.add(label, self.peer, self._longest_wait(lambda broker: broker.stop()))

    def recovery(self, megabytes: int, figures: Figures) -> None:
        """Kill a broker and start it again; then once more, with records that it has to copy."""
        for size in (0, megabytes):
            broker = self.cluster.brokers[3]
            broker.stop(kill=True)
            self.wait_until_whole(2)
            with Producer({**self.settings, "batch.size": 1 << 19}) as producer:
                for number in range(size * 100):
                    producer.send(TOPIC, bytes(10_000), partition=number % PARTITIONS)
            cpu = sum(cpu_seconds(one.pid) for one in self.cluster.brokers.values() if one is not broker)
            begun = time.monotonic()
            broker.start()
            self.wait_until_whole()
            seconds = time.monotonic() - begun
            if not size:
                figures.add("killed broker: from its start to all ISRs", self.peer, seconds)
            else:
                figures.add("killed broker: copied until it is in all ISRs", self.peer, size / seconds)
                figures.add("killed broker: CPU of all three for that", self.peer, (self.cpu - cpu) / size * 1000)


def main() -> None:
    """Run both clusters, and print the medians and ratios."""
    found = options(__doc__, records=200_000, rounds=3, trips=300, megabytes=1000)
    need_apache_kafka()
    logging.getLogger("barnabas").setLevel(logging.ERROR)
    figures = Figures()
    with (
        MixedCluster(theirs=0, ours=3, controllers=0, our_controllers=1, settings=DEFAULTS) as ours,
        MixedCluster(theirs=3, ours=0, controllers=1, settings=DEFAULTS) as theirs,
    ):
        racing = {OURS: RacingCluster(OURS, ours), THEIRS: RacingCluster(THEIRS, theirs)}
        for peer in in_turns([one.peer for one in racing.values()], found.rounds):
            racing[peer.name].throughput(found.records, figures)
            racing[peer.name].round_trips(found.trips, figures)
        for one in racing.values():
            figures.add("memory of the three brokers", one.peer, one.memory)
        for one in racing.values():
            one.failures(figures)
            one.recovery(found.megabytes, figures)
    figures.report(TARGETS)


if __name__ == "__main__":
    main()
