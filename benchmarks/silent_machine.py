"""Machines that die silently: how long is nothing acknowledged? Peers: Apache Kafka 4.3 (KRaft), 3.9 (ZooKeeper).

Three brokers, replication factor 3, min.insync.replicas=2, acks=all, each on a machine of its own (a network
namespace; needs root). The link of a machine is cut, and its process killed: nothing comes from it any more. From
there to the next acknowledged record, when it was the leader or a follower of the partition, and to the next topic,
when it was the controller; sessions are alike on both sides (`--session-timeout-ms`, 0 for the default: 9 s under
KRaft, 18 s under ZooKeeper; heartbeats each third of that). Under KRaft there are three controllers, on machines of
their own. Producer and admin client are ours; a request of theirs, or a connection, may take a second, so that it is
the brokers that are measured, or as long as by default (`--clients default`).
Run: ./run bench silent_machine [--rounds N] [--session-timeout-ms N] [--plane kraft|zookeeper] [--only ours|theirs]
    [--clients impatient|default]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

from barnabas import AdminClient, NewTopic, Producer
from barnabas.errors import KafkaError, TopicExistsError
from benchmarks._failover import IMPATIENT, end_in_order_when_told, until_created
from benchmarks._options import parser
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.mixed_cluster import BarnabasBroker, MixedCluster
from tests.peers.namespaces import Machines, why_not
from tests.peers.zookeeper import ZooKeeperCluster

Node = ApacheKafka | BarnabasBroker

_PATIENCE = 120.0
#: Of clients that show what the brokers do, and not how long a client waits for a machine that is gone.
_SETUP = {"socket.connection.setup.timeout.ms": 1000, "socket.connection.setup.timeout.max.ms": 1000}
CLIENTS: dict[str, dict[str, int]] = {"impatient": {**IMPATIENT, **_SETUP}, "default": {}}
#: Sessions that last as long as by default, in milliseconds.
_SESSIONS = {"kraft": 9000, "zookeeper": 18000}
KINDS = ("leader", "follower", "controller")


def _until_in_sync(admin: AdminClient, topic: str) -> int:
    """Wait until all three replicas are in sync; returns the leader."""
    while True:
        try:
            (partition,) = admin.describe_topics([topic])[topic].partitions
        except KafkaError:
            # One that was asked does not know of it yet, or is gone.
            time.sleep(0.2)
            continue
        if partition.leader is not None and len(partition.in_sync_replicas) == 3:
            return partition.leader.id
        time.sleep(0.2)


def _make(admin: AdminClient, topic: str, replicas: list[int]) -> None:
    with suppress(TopicExistsError):  # by a request that took longer than a client waits
        admin.create_topics([NewTopic(topic, replica_assignments={0: replicas})], timeout=_PATIENCE)
    _until_in_sync(admin, topic)


def _dies(machines: Machines, node: Node) -> None:
    machines.cut(node)
    node.stop(kill=True)


def rounds_of(
    machines: Machines,
    nodes: Callable[[AdminClient], tuple[Node, dict[int, Node]]],
    bootstrap: str,
    lasting: float,
    given: argparse.Namespace,
) -> dict[str, list[float]]:
    """Return the seconds, by who died; `nodes` gives the controller and those that may lead beside it."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    client = {"bootstrap.servers": bootstrap, "retry.backoff.max.ms": 100, **CLIENTS[given.clients]}
    for_topic = 1.0 if given.clients == "impatient" else _PATIENCE
    with AdminClient(client) as admin, Producer({**client, "acks": "all"}) as producer:
        for number in range(given.rounds):
            for kind in KINDS:
                controller, brokers = nodes(admin)
                topic = f"{kind}-{number}"
                _make(admin, topic, list(brokers))
                # The leader or a follower; neither is the controller.
                dying = controller if kind == "controller" else brokers[list(brokers)[KINDS.index(kind)]]
                producer.send(topic, b"value").result(_PATIENCE)
                time.sleep(2)
                began = time.perf_counter()
                _dies(machines, dying)
                if kind == "controller":
                    seconds = until_created(admin, f"next-of-{topic}", began, for_topic)
                else:
                    producer.send(topic, b"value").result(_PATIENCE)
                    seconds = time.perf_counter() - began
                found[kind].append(seconds)
                print(f"  {kind}: {seconds:.2f} s", flush=True)
                time.sleep(max(0.0, lasting - seconds))  # a broker of theirs does not start while its session lasts
                machines.mend(dying)
                dying.start()
                _until_in_sync(admin, topic)
    return found


def of_kraft(theirs: bool, session_ms: int, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return what is measured under three controllers."""
    settings = {
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // 3),
        "replica.lag.time.max.ms": "30000",
        "controller.quorum.election.timeout.ms": "1000",
        "controller.quorum.fetch.timeout.ms": "2000",
        "auto.leader.rebalance.enable": "false",
    }
    counts = (3, 0, 3, 0) if theirs else (0, 3, 0, 3)
    cluster = MixedCluster(*counts[:3], settings=settings, our_controllers=counts[3])
    with Machines() as machines:
        machines.place([*cluster.controllers.values(), *cluster.brokers.values()])

        def nodes(admin: AdminClient) -> tuple[Node, dict[int, Node]]:
            active = admin.describe_metadata_quorum().leader_id
            return cluster.controllers[active], dict(cluster.brokers)

        with cluster:
            return rounds_of(machines, nodes, cluster.bootstrap_servers, session_ms / 1000 + 2, given)


def of_zookeeper(theirs: bool, session_ms: int, given: argparse.Namespace) -> dict[str, list[float]]:
    """Return what is measured under ZooKeeper, where one of the three brokers is the controller."""
    settings = {"zookeeper.session.timeout.ms": str(session_ms), "replica.lag.time.max.ms": "30000"}
    cluster = ZooKeeperCluster(3 if theirs else 0, 0 if theirs else 3, settings)
    with Machines() as machines:
        machines.place(cluster.brokers.values(), outside=[cluster.zookeeper.port])

        def nodes(_: AdminClient) -> tuple[Node, dict[int, Node]]:
            while (controller := cluster.controller) is None:
                time.sleep(0.1)
            others = [number for number in cluster.brokers if number != controller]
            # Who leads first; the controller follows.
            return cluster.brokers[controller], {one: cluster.brokers[one] for one in (*others, controller)}

        with cluster:
            return rounds_of(machines, nodes, cluster.bootstrap_servers, session_ms / 1000 + 4, given)


_PLANES = {"kraft": of_kraft, "zookeeper": of_zookeeper}


def main() -> None:
    """Print the medians of both sides, and their ratio."""
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--session-timeout-ms", type=int, default=6000)
    made.add_argument("--plane", choices=_PLANES)
    made.add_argument("--clients", choices=CLIENTS, default="impatient")
    made.add_argument("--only", choices=("ours", "theirs"))
    given = made.parse_args()
    missing = why_not()
    if missing is not None:
        raise SystemExit(missing)
    end_in_order_when_told()
    for plane in [given.plane] if given.plane else _PLANES:
        session_ms = given.session_timeout_ms or _SESSIONS[plane]
        medians: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for side in [given.only] if given.only else ("ours", "theirs"):
            print(f"{plane}, {side}, sessions of {session_ms / 1000:g} s, {given.clients} clients", flush=True)
            for kind, seconds in _PLANES[plane](side == "theirs", session_ms, given).items():
                medians[kind].append(statistics.median(seconds))
                spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
                print(f"{plane} {side:6} {kind:10} {medians[kind][-1]:6.2f} s (median of {len(seconds)}; {spread})")
        for kind, (ours, *theirs) in medians.items():
            if theirs:
                print(f"{plane} {kind:10} ratio {ours / theirs[0]:.2f}")


if __name__ == "__main__":
    main()
