"""Brokers under ZooKeeper: how long is nothing acknowledged when one is killed? Peer: Apache Kafka 3.9.

Three brokers, replication factor 3, min.insync.replicas=2, acks=all, default settings on both sides
(zookeeper.session.timeout.ms=18000, replica.lag.time.max.ms=30000). SIGKILL of a leader and of a follower, neither of
which is controller, to the next acknowledged record; SIGKILL of the controller to the next topic created, and to the
next record of a partition that it led. Producer and admin client are ours.
Run: ./run bench zookeeper_failover [--rounds N] [--session-timeout-ms N]
"""

from __future__ import annotations

import statistics
import sys
import time

from barnabas import AdminClient, NewTopic, Producer
from barnabas.errors import KafkaError
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


def _until_created(admin: AdminClient, topic: str) -> float:
    began = time.perf_counter()
    while True:
        try:
            admin.create_topics([NewTopic(topic, 1, 2)], timeout=_PATIENCE)
        except KafkaError:
            if time.perf_counter() - began > _PATIENCE:
                raise
            time.sleep(0.02)
        else:
            return time.perf_counter() - began


def measure(theirs: int, ours: int, rounds: int, session_timeout_ms: int) -> dict[str, list[float]]:
    """Return the seconds, by who was killed."""
    settings = {
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "replica.lag.time.max.ms": "30000",
        "default.replication.factor": "2",
    }
    found: dict[str, list[float]] = {}
    cluster = ZooKeeperCluster(theirs, ours, settings)
    client = {"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.max.ms": 100}
    lasting = session_timeout_ms / 1000 + 2
    with cluster, AdminClient(client) as admin, Producer({**client, "acks": "all"}) as producer:
        for number in range(rounds):
            for turn, kind in enumerate(("leader", "follower", "controller, its partition", "controller, next topic")):
                controller = cluster.controller
                assert controller is not None
                others = [one for one in cluster.brokers if one != controller]
                is_led_by_it = kind.startswith("controller, its")
                replicas = [controller, *others] if is_led_by_it else [*others, controller]
                killed = {"leader": others[0], "follower": others[1]}.get(kind, controller)
                topic = f"killed-{number}-{turn}"
                _make(admin, topic, replicas)
                producer.send(topic, b"value").result(_PATIENCE)
                time.sleep(2)
                cluster.brokers[killed].stop(kill=True)
                if kind.endswith("topic"):
                    seconds = _until_created(admin, f"next-{number}")
                else:
                    seconds = _until_acknowledged(producer, topic)
                found.setdefault(kind, []).append(seconds)
                print(f"{kind}: {seconds:.3f} s", file=sys.stderr, flush=True)
                time.sleep(max(0.0, lasting - seconds))  # a broker of theirs does not start while its session lasts
                cluster.brokers[killed].start()
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
