"""Race: 200 producers at once, and 1,000 connections that mostly wait, beside Apache Kafka.

One record of 100 bytes per request, acks=all, one in flight for each: round trips of 200 clients (franz-go) that send
again at once; then of 1,000 connections that ask once a second each, with the broker's CPU and memory.
Run: ./run bench race_connections [--rounds N] [--requests N] [--seconds S]
"""

from __future__ import annotations

import itertools
import time

from barnabas.protocol.framing import encode_request
from benchmarks._many_clients import Clients, Connection
from benchmarks._options import options
from benchmarks._race import Figures, Peer, brokers, cpu_seconds, create_topic, franz_go, in_turns, resident_mb
from tests.support.core_broker import batch, produce

TOPIC, PARTITIONS = "connections", 10
BUSY, CALM = 200, 1000
CALM_PAUSE = 1.0


class Load:
    """Connections with one Produce in flight each; `trips` are the round trips in seconds."""

    def __init__(self, clients: Clients, peer: Peer, connections: int) -> None:
        record = batch(bytes(100), now_ms=int(time.time() * 1000))
        self._requests = itertools.cycle(
            [encode_request(produce(TOPIC, record, index), 12, 1, "bench") for index in range(PARTITIONS)]
        )
        self._clients = clients
        self._sent: dict[Connection, float] = {}
        self.trips: list[float] = []
        self.connections = [clients.connect(peer.bootstrap_servers, lambda _frame: None) for _ in range(connections)]

    def send(self, connection: Connection) -> None:
        """Send the next request on a connection that has none in flight."""
        self._sent[connection] = time.perf_counter()
        connection.send_bytes(next(self._requests))

    def run_with_pauses(self, seconds: float) -> None:
        """Let the connections ask one after the other, each once in `CALM_PAUSE`."""
        for connection in self.connections:

            def answered(_frame: memoryview, connection: Connection = connection) -> None:
                self.trips.append(time.perf_counter() - self._sent.pop(connection))

            connection.on_frame = answered
        gap = CALM_PAUSE / len(self.connections)
        due = time.perf_counter()
        turn = itertools.cycle(self.connections)
        end = due + seconds
        while (now := time.perf_counter()) < end:
            if now >= due:
                connection = next(turn)
                if connection not in self._sent:
                    self.send(connection)
                due += gap
            for key, _ in self._clients.selector.select(max(0.0, due - time.perf_counter())):
                key.data.receive()

    def percentile(self, share: float) -> float:
        """Return a percentile of the round trips in milliseconds."""
        ordered = sorted(self.trips)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1e3


def busy(peer: Peer, requests: int) -> tuple[float, float, float, float]:
    """Return requests a second, p50 and p99 in ms, and the broker's CPU per request in µs, of 200 producers at once."""
    before = cpu_seconds(peer.pid())
    found = franz_go("latency", peer, TOPIC, requests, clients=BUSY)
    spent = cpu_seconds(peer.pid()) - before
    return requests / found["seconds"], found["p50"], found["p99"], spent / requests * 1e6


def calm(peer: Peer, seconds: float) -> tuple[float, float, float, float]:
    """Return p50 and p99 in ms, CPU in percent of a core, and memory in MB, of 1,000 connections that mostly wait."""
    with Clients() as clients:
        load = Load(clients, peer, CALM)
        before, began = cpu_seconds(peer.pid()), time.perf_counter()
        load.run_with_pauses(seconds)
        share = (cpu_seconds(peer.pid()) - before) / (time.perf_counter() - began)
        return load.percentile(0.5), load.percentile(0.99), share * 100, resident_mb(peer.pid())


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=3, requests=100_000, seconds=5.0)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            create_topic(peer, TOPIC, PARTITIONS)
            for _ in range(3):
                busy(peer, given.requests)  # Java compiles what it runs often
        for peer in in_turns(peers, given.rounds):
            rate, p50, p99, cpu = busy(peer, given.requests)
            figures.add(f"{BUSY} at once, rate", peer, rate)
            figures.add(f"{BUSY} at once, p50", peer, p50)
            figures.add(f"{BUSY} at once, p99", peer, p99)
            figures.add(f"{BUSY} at once, broker CPU per request", peer, cpu)
            p50, p99, share, memory = calm(peer, given.seconds)
            figures.add(f"{CALM} calm, p50", peer, p50)
            figures.add(f"{CALM} calm, p99", peer, p99)
            figures.add(f"{CALM} calm, broker CPU", peer, share)
            figures.add(f"{CALM} calm, broker memory", peer, memory)
    figures.report(
        {
            f"{BUSY} at once, rate": ("1/s", 1.0),
            f"{BUSY} at once, p50": ("ms", 1.0),
            f"{BUSY} at once, p99": ("ms", 1.0),
            f"{BUSY} at once, broker CPU per request": ("µs", 0.33),
            f"{CALM} calm, p50": ("ms", 1.0),
            f"{CALM} calm, p99": ("ms", 1.0),
            f"{CALM} calm, broker CPU": ("% of one", 0.5),
            f"{CALM} calm, broker memory": ("MB", 0.2),
        }
    )


if __name__ == "__main__":
    main()
