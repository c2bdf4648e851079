"""Race: one 100-byte record per request, acks=all, one in flight (franz-go), against Apache Kafka.

Round trips, and the broker's CPU per request. Run: ./run bench race_small_requests [--rounds N] [--requests N]
"""

from __future__ import annotations

from benchmarks._options import options
from benchmarks._race import Figures, brokers, cpu_seconds, create_topic, franz_go, in_turns


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=7, requests=5_000)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            create_topic(peer, "bench", 1)
            franz_go("latency", peer, "bench", 5000)  # Java compiles what it runs often
        for peer in in_turns(peers, given.rounds):
            before = cpu_seconds(peer.pid())
            found = franz_go("latency", peer, "bench", given.requests)
            spent = cpu_seconds(peer.pid()) - before
            figures.add("round trip p50", peer, found["p50"])
            figures.add("round trip p99", peer, found["p99"])
            figures.add("broker CPU per request", peer, spent / (given.requests + 201) * 1e3)
    figures.report(
        {
            "round trip p50": ("ms", 0.5),
            "round trip p99": ("ms", 0.5),
            "broker CPU per request": ("ms", 1 / 3),
        }
    )


if __name__ == "__main__":
    main()
