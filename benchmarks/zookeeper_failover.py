"""Brokers under ZooKeeper: how long is nothing acknowledged when one is killed? Peer: Apache Kafka 3.9.

Three brokers, replication factor 3, min.insync.replicas=2, acks=all, default settings on both sides
(zookeeper.session.timeout.ms=18000, replica.lag.time.max.ms=30000). SIGKILL of a leader and of a follower, neither of
which is controller, to the next acknowledged record; SIGKILL of the controller to the next topic created, and to the
next record of a partition that it led; the longest time without an acknowledgement while a leader shuts down, and when
it is stopped (SIGSTOP; a producer waits for a second then, not the 30 s of request.timeout.ms); and from the start of a
broker that was killed until it is in the ISR. Producer and admin client are ours.
Run: ./run bench zookeeper_failover [--rounds N] [--session-timeout-ms N]
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._failover import IMPATIENT, longest_gap, until_created
from benchmarks._options import options
from tests.peers.zookeeper import ZooKeeperCluster

_PATIENCE = 90.0


def _make(admin: AdminClient, topic: str, replicas: list[int]) -> None:
    """Make a topic of one partition; returns when all replicas are in sync."""
    admin.create_topics([NewTopic(topic, replica_assignments={0: replicas})])
    while True:
        found = admin.describe_topics([topic], raise_errors=False).get(topic)
        if found is not None and found.partitions and len(found.partitions[0].in_sync_replicas) == len(replicas):
            return
        time.sleep(0.1)


def _until_acknowledged(producer: Producer, topic: str) -> float:
    began = time.perf_counter()
    producer.send(topic, b"value").result(_PATIENCE)
    return time.perf_counter() - began


KINDS = (
    "leader",
    "follower",
    "controller, its partition",
    "controller, next topic",
    "leader shuts down",
    "leader stopped",
)
_BACK = "killed leader, back in ISR"


def _ended(cluster: ZooKeeperCluster, kind: str, number: int, topic: str, ways: tuple[AdminClient, Producer]) -> float:
    """End a broker in one of these ways; returns how long nothing was acknowledged, or created."""
    broker, (admin, producer) = cluster.brokers[number], ways
    if kind == "leader shuts down":
        return longest_gap(producer, topic, broker.stop)
    if kind == "leader stopped":
        return longest_gap(producer, topic, lambda: os.kill(broker.pid, signal.SIGSTOP))
    broker.stop(kill=True)
    if kind.endswith("topic"):
        return until_created(admin, f"next-of-{topic}", time.perf_counter(), _PATIENCE)
    return _until_acknowledged(producer, topic)


def _until_back(admin: AdminClient, topic: str, start: Callable[[], object]) -> float:
    began = time.perf_counter()
    start()
    while len(admin.describe_topics([topic])[topic].partitions[0].in_sync_replicas) < 3:
        time.sleep(0.02)
    return time.perf_counter() - began


def measure(theirs: int, ours: int, rounds: int, session_timeout_ms: int) -> dict[str, list[float]]:
    """Return the seconds, by what happened to whom."""
    settings = {
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "replica.lag.time.max.ms": "30000",
        "default.replication.factor": "2",
    }
    found: dict[str, list[float]] = {}
    cluster = ZooKeeperCluster(theirs, ours, settings)
    client = {"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.max.ms": 100}
    lasting = session_timeout_ms / 1000 + 2
    acks = {**client, "acks": "all"}
    with cluster, AdminClient(client) as admin, Producer(acks) as usual, Producer({**acks, **IMPATIENT}) as impatient:
        for number in range(rounds):
            for turn, kind in enumerate(KINDS):
                controller = cluster.controller
                assert controller is not None
                others = [one for one in cluster.brokers if one != controller]
                ended = {"follower": others[1]}.get(kind, controller if kind.startswith("controller") else others[0])
                is_led_by_it = kind.startswith("controller, its")
                topic = f"ended-{number}-{turn}"
                _make(admin, topic, [controller, *others] if is_led_by_it else [*others, controller])
                producer = impatient if kind == "leader stopped" else usual
                producer.send(topic, b"value").result(_PATIENCE)
                time.sleep(2)
                seconds = _ended(cluster, kind, ended, topic, (admin, producer))
                found.setdefault(kind, []).append(seconds)
                print(f"{kind}: {seconds:.3f} s", file=sys.stderr, flush=True)
                if kind == "leader stopped":
                    os.kill(cluster.brokers[ended].pid, signal.SIGCONT)
                    continue
                time.sleep(max(0.0, lasting - seconds))  # a broker of theirs does not start while its session lasts
                back = _until_back(admin, topic, cluster.brokers[ended].start)
                if kind == "leader":
                    found.setdefault(_BACK, []).append(back)
    return found


def main() -> None:
    """Print one line for each kind of brokers and each kind of end."""
    given = options(__doc__, rounds=3, session_timeout_ms=18000)
    for name, theirs, ours in (("barnabas", 0, 3), ("Apache Kafka", 3, 0)):
        for kind, seconds in measure(theirs, ours, given.rounds, given.session_timeout_ms).items():
            print(
                f"{name:13} {kind:26} {statistics.median(seconds):6.3f} s "
                f"(median of {len(seconds)}; {min(seconds):.3f} to {max(seconds):.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
