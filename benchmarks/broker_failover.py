"""Brokers: how long is nothing acknowledged when one is killed, ends cleanly, or falls silent? Peer: Apache Kafka 4.3.

Three brokers under one controller, replication factor 3, min.insync.replicas=2, acks=all, default settings on both
sides (broker.session.timeout.ms=9000); the producer is ours. The longest time without an acknowledgement when a leader
or a follower gets SIGKILL, when the leader shuts down, and when it is stopped (SIGSTOP: its connections stay and say
nothing, as those of a machine that is gone; a producer waits for a second then, not the 30 s of request.timeout.ms).
Run: ./run bench broker_failover [--rounds N] [--session-timeout-ms N]
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable
from functools import partial

from barnabas import AdminClient, NewTopic, Producer
from benchmarks._failover import IMPATIENT, longest_gap
from benchmarks._options import options
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster

Node = ApacheKafka | BarnabasBroker

_TOPIC = "failover"


def _replicas(cluster: MixedCluster, admin: AdminClient) -> tuple[Node, Node]:
    """Return the leader and a follower, once all are in sync."""
    while True:
        (partition,) = admin.describe_topics([_TOPIC])[_TOPIC].partitions
        if partition.leader is not None and len(partition.in_sync_replicas) == 3:
            leader = partition.leader.id
            return cluster.brokers[leader], cluster.brokers[next(one for one in cluster.brokers if one != leader)]
        time.sleep(0.2)


#: What happens to which of leader and follower.
_ENDS: dict[str, tuple[int, Callable[[Node], None]]] = {
    "leader killed": (0, lambda node: node.stop(kill=True)),
    "follower killed": (1, lambda node: node.stop(kill=True)),
    "leader shut down": (0, lambda node: node.stop()),
    "leader stopped": (0, lambda node: os.kill(node.pid, signal.SIGSTOP)),
}


def measure(theirs: int, ours: int, rounds: int, settings: dict[str, str]) -> dict[str, list[float]]:
    """Return the seconds without an acknowledgement, by what happened."""
    found: dict[str, list[float]] = {how: [] for how in _ENDS}
    cluster = MixedCluster(
        theirs=theirs, ours=ours, controllers=1 if theirs else 0, our_controllers=0 if theirs else 1, settings=settings
    )
    client = {"bootstrap.servers": cluster.bootstrap_servers}
    acks = {**client, "acks": "all"}
    with cluster, AdminClient(client) as admin, Producer(acks) as usual, Producer({**acks, **IMPATIENT}) as impatient:
        admin.create_topics([NewTopic(_TOPIC, 1, 3)])
        for _ in range(rounds):
            for how, (which, end) in _ENDS.items():
                node = _replicas(cluster, admin)[which]
                producer = impatient if how == "leader stopped" else usual
                producer.send(_TOPIC, b"value").result(60)
                time.sleep(1)
                found[how].append(longest_gap(producer, _TOPIC, partial(end, node)))
                if how == "leader stopped":
                    os.kill(node.pid, signal.SIGCONT)
                else:
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
                f"{name:13} {how:16}: no acknowledgement for {statistics.median(gaps):6.3f} s "
                f"(median of {len(gaps)}; {min(gaps):.3f} to {max(gaps):.3f})"
            )


if __name__ == "__main__":
    main()
