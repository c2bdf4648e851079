"""Controllers: how long after the active one of three is killed is the next topic created? Peer: Apache Kafka 4.3.

Both quorums have the same settings (Kafka's defaults, unless given) and two brokers of ours. One is measured after the
other, for a quorum of Java and one of ours at once would share the machine; the admin client is ours in both.
Run: ./run bench controller_failover [--rounds N] [--fetch-timeout-ms N] [--election-timeout-ms N]
"""

from __future__ import annotations

import statistics
import time

from barnabas import AdminClient, NewTopic
from benchmarks._options import quorum_options
from tests.peers.mixed_cluster import MixedCluster


def measure(theirs: int, ours: int, rounds: int, settings: dict[str, str]) -> list[float]:
    """Return the seconds from each kill to the response to CreateTopics."""
    found = []
    cluster = MixedCluster(theirs=0, ours=2, controllers=theirs, our_controllers=ours, settings=settings)
    client = {"bootstrap.servers": cluster.bootstrap_servers, "retry.backoff.max.ms": 100}
    with cluster, AdminClient(client) as admin:
        admin.create_topics([NewTopic("first", 1, 2)])
        for number in range(rounds):
            node = cluster.controllers[admin.describe_metadata_quorum().leader_id]
            node.stop(kill=True)
            began = time.perf_counter()
            admin.create_topics([NewTopic(f"topic-{number}", 1, 2)], timeout=60)
            found.append(time.perf_counter() - began)
            node.start()
            time.sleep(3)  # until it follows again
    return found


def main() -> None:
    """Print one line for each quorum."""
    rounds, settings = quorum_options(__doc__, 5)
    settings |= {"default.replication.factor": "2", "min.insync.replicas": "1"}
    for name, theirs, ours in (("barnabas", 0, 3), ("Apache Kafka", 3, 0)):
        seconds = measure(theirs, ours, rounds, settings)
        print(
            f"{name:13} next topic after {statistics.median(seconds):5.2f} s (median of {len(seconds)}; "
            f"{min(seconds):.2f} to {max(seconds):.2f})"
        )


if __name__ == "__main__":
    main()
