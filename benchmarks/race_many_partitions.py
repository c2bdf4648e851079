"""Many partitions: one of two brokers stops and starts, with 5,000 replicas of its own. Peer: Apache Kafka 4.3.1.

Each cluster has one controller of its own software. Every partition has two replicas and a record; each broker leads
half of them. How long they take to be created; from SIGTERM to the end of the process, from its start until all ISRs
have it again, and that after SIGKILL; with the CPU of that broker from its start on.
Run: ./run bench race_many_partitions [--partitions N] [--rounds N]
"""

from __future__ import annotations

import logging
import time
from typing import Any

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._options import options
from benchmarks._race import OURS, THEIRS, Figures, Peer, cpu_seconds, in_turns, need_apache_kafka
from tests.peers.mixed_cluster import MixedCluster

_PER_TOPIC = 500
_PATIENCE = 300.0
SETTINGS = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "replica.lag.time.max.ms": "30000",
    "min.insync.replicas": "1",
    "default.replication.factor": "2",
    "offsets.topic.replication.factor": "2",
}
TARGETS: dict[str, tuple[str, float | None]] = {
    "created, until all ISRs have both brokers": ("s", 1.0),
    "from SIGTERM to the end of the process": ("s", 1.0),
    "from its start to all ISRs": ("s", 1.0),
    "CPU of the broker until then": ("s", None),
    "killed: from its start to all ISRs": ("s", 1.0),
    "killed: CPU of the broker until then": ("s", None),
}


class _WithRoom(MixedCluster):
    broker_heap = "1g"


class StoppedBroker:
    """One of two brokers of a cluster, which stops and starts."""

    def __init__(self, name: str, cluster: MixedCluster, partitions: int) -> None:
        self.peer = Peer(name, cluster.bootstrap_servers, *[lambda: 0] * 4)
        self._broker: Any = cluster.brokers[2]
        # The one that stays: the other is away when it is asked.
        self._settings = {"bootstrap.servers": cluster.brokers[1].bootstrap_servers, "request.timeout.ms": 120_000}
        self._topics = [f"many-{number}" for number in range(partitions // _PER_TOPIC)]
        replicas = {index: [1 + index % 2, 2 - index % 2] for index in range(_PER_TOPIC)}
        began = time.perf_counter()
        with AdminClient(self._settings) as admin:
            for topic in self._topics:
                admin.create_topics([NewTopic(topic, replica_assignments=replicas)], timeout=120)
        self._wait(2)
        self.creation = time.perf_counter() - began
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.size": 512}
        with Producer(settings) as producer:
            sent = [producer.send(topic, b"x", partition=n) for topic in self._topics for n in range(_PER_TOPIC)]
            for future in sent:
                future.result(120)

    def _wait(self, in_sync: int) -> None:
        """Return when so many replicas of each partition are in sync."""
        deadline = time.monotonic() + _PATIENCE
        with AdminClient(self._settings) as admin:
            for topic in self._topics:
                while not self._is(admin, topic, in_sync):
                    if time.monotonic() > deadline:
                        raise SystemExit(f"{self.peer.name}: {topic} has not {in_sync} replicas in sync everywhere")
                    time.sleep(0.1)

    @staticmethod
    def _is(admin: AdminClient, topic: str, in_sync: int) -> bool:
        found = admin.describe_topics([topic], raise_errors=False)
        partitions = found[topic].partitions if topic in found else []
        return len(partitions) == _PER_TOPIC and all(
            one.leader is not None and len(one.in_sync_replicas) == in_sync for one in partitions
        )

    def round(self, figures: Figures) -> None:
        """Stop and start it, and kill and start it."""
        for kill in (False, True):
            prefix = "killed: " if kill else ""
            began = time.perf_counter()
            self._broker.stop(kill=kill)
            if not kill:
                figures.add("from SIGTERM to the end of the process", self.peer, time.perf_counter() - began)
            self._wait(1)
            began = time.perf_counter()
            self._broker.launch()
            self._wait(2)
            figures.add(f"{prefix}from its start to all ISRs", self.peer, time.perf_counter() - began)
            figures.add(f"{prefix}CPU of the broker until then", self.peer, cpu_seconds(self._broker.pid))


def main() -> None:
    """Run both clusters, and print the medians and ratios."""
    found = options(__doc__, partitions=5000, rounds=3)
    need_apache_kafka()
    logging.getLogger("barnabas").setLevel(logging.ERROR)
    figures = Figures()
    with (
        MixedCluster(theirs=0, ours=2, controllers=0, our_controllers=1, settings=SETTINGS) as ours,
        _WithRoom(theirs=2, ours=0, controllers=1, settings=SETTINGS) as theirs,
    ):
        racing = {
            OURS: StoppedBroker(OURS, ours, found.partitions),
            THEIRS: StoppedBroker(THEIRS, theirs, found.partitions),
        }
        for one in racing.values():
            figures.add("created, until all ISRs have both brokers", one.peer, one.creation)
        for peer in in_turns([one.peer for one in racing.values()], found.rounds):
            racing[peer.name].round(figures)
    figures.report(TARGETS)


if __name__ == "__main__":
    main()
