"""Race: does the broker's cost per record stay flat as partitions and connections grow? Beside Apache Kafka.

One record of 100 bytes per request, acks=all. Run: ./run bench race_growth [--seconds S]
"""

from __future__ import annotations

import itertools
import time

from barnabas.protocol.framing import encode_request
from benchmarks._many_clients import Clients
from benchmarks._options import options
from benchmarks._race import Peer, brokers, cpu_seconds, create_topic
from tests.support.core_broker import batch, produce

PARTITIONS = (10, 100, 2000)
CONNECTIONS = (1, 20, 200)


def cost(peer: Peer, partitions: int, connections: int, seconds: float) -> float:
    """Return the broker's CPU per request in microseconds."""
    topic = f"growth-{partitions}"
    record = batch(bytes(100), now_ms=int(time.time() * 1000))
    requests = [encode_request(produce(topic, record, index), 12, 1, "bench") for index in range(partitions)]
    turn = itertools.cycle(requests)
    answers = 0
    with Clients() as clients:
        for _ in range(connections):
            connection = clients.connect(peer.bootstrap_servers, lambda _frame: None)

            def answered(_frame: memoryview, connection: object = connection) -> None:
                nonlocal answers
                answers += 1
                connection.send_bytes(next(turn))  # type: ignore[attr-defined]  # a Connection

            connection.on_frame = answered
            connection.send_bytes(next(turn))
        clients.run(lambda: False, 0.5)
        before, seen = cpu_seconds(peer.pid()), answers
        clients.run(lambda: False, seconds)
        return (cpu_seconds(peer.pid()) - before) / (answers - seen) * 1e6


def main() -> None:
    """Measure and print."""
    given = options(__doc__, seconds=4.0)
    with brokers() as peers:
        for peer in peers:
            for partitions in PARTITIONS:
                create_topic(peer, f"growth-{partitions}", partitions)
            cost(peer, PARTITIONS[0], CONNECTIONS[1], given.seconds)  # Java compiles what it runs often
            by_partitions = [cost(peer, partitions, 1, given.seconds) for partitions in PARTITIONS]
            by_connections = [cost(peer, PARTITIONS[0], connections, given.seconds) for connections in CONNECTIONS]
            for what, counts, costs in (
                ("partitions", PARTITIONS, by_partitions),
                ("connections", CONNECTIONS, by_connections),
            ):
                row = "   ".join(f"{count:>5}: {each:6.1f} µs" for count, each in zip(counts, costs, strict=True))
                print(f"{peer.name:<13} broker CPU per request by {what:<12} {row}   {costs[-1] / costs[0]:.2f} x")


if __name__ == "__main__":
    main()
