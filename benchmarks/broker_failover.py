"""Brokers: how long is nothing acknowledged when a leader is killed, or ends cleanly? Peer: Apache Kafka 4.3.

Three brokers under one controller, replication factor 3, min.insync.replicas=2, acks=all, default settings on both
sides (broker.session.timeout.ms=9000); the producer is ours. SIGKILL of the leader to the next acknowledged record, and
the longest time without an acknowledgement while the leader shuts down.
Run: ./run bench broker_failover [--rounds N] [--session-timeout-ms N]
"""

from __future__ import annotations

import statistics
import threading
import time
from typing import TYPE_CHECKING

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._options import options
from tests.peers.mixed_cluster import MixedCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.peers.mixed_cluster import Node

_TOPIC = "failover"


def _leader(cluster: MixedCluster, admin: AdminClient) -> Node:
    """Return the leader, once everybody is in sync."""
    while True:
        (partition,) = admin.describe_topics([_TOPIC])[_TOPIC].partitions
        if partition.leader is not None and len(partition.in_sync_replicas) == 3:
            return cluster.brokers[partition.leader.id]
        time.sleep(0.2)


def _longest_gap(producer: Producer, end: Callable[[], None], least: float) -> float:
    """Return the longest time between two acknowledgements while `end` runs, and for some seconds."""
    thread = threading.Thread(target=end)
    longest, last = 0.0, time.perf_counter()
    until = last + least
    thread.start()
    while thread.is_alive() or time.perf_counter() < until:
        producer.send(_TOPIC, b"value").result(60)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return longest


def measure(theirs: int, ours: int, rounds: int, settings: dict[str, str]) -> dict[str, list[float]]:
    """Return the seconds without an acknowledgement, for a kill and for a shutdown."""
    found: dict[str, list[float]] = {"killed": [], "shut down": []}
    cluster = MixedCluster(
        theirs=theirs, ours=ours, controllers=1 if theirs else 0, our_controllers=0 if theirs else 1, settings=settings
    )
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    with cluster, AdminClient(client) as admin, Producer({**client, "acks": "all"}) as producer:
        admin.create_topics([NewTopic(_TOPIC, 1, 3)])
        for _ in range(rounds):
            for how, gaps in found.items():
                node = _leader(cluster, admin)
                producer.send(_TOPIC, b"value").result(60)
                time.sleep(1)
                kill = how == "killed"
                gaps.append(_longest_gap(producer, lambda node=node, kill=kill: node.stop(kill=kill), 2.0))  # type: ignore[misc]
                node.start()
    return found


def main() -> None:
    """Print one line for each kind of brokers and each kind of end."""
    given = options(__doc__, rounds=5, session_timeout_ms=9000)
    settings = {
        "broker.session.timeout.ms": str(given.session_timeout_ms),
        "broker.heartbeat.interval.ms": "2000",
        "replica.lag.time.max.ms": "30000",
        "controller.quorum.election.timeout.ms": "1000",
        "controller.quorum.fetch.timeout.ms": "2000",
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "min.insync.replicas": "2",
        "auto.leader.rebalance.enable": "false",
    }
    for name, theirs, ours in (("barnabas", 0, 3), ("Apache Kafka", 3, 0)):
        for how, gaps in measure(theirs, ours, given.rounds, settings).items():
            print(
                f"{name:13} leader {how}: no acknowledgement for {statistics.median(gaps):6.3f} s "
                f"(median of {len(gaps)}; {min(gaps):.3f} to {max(gaps):.3f})"
            )


if __name__ == "__main__":
    main()
