"""Race: from the start of the process to the first answered Produce and Fetch, and the memory, against Apache Kafka.

Both on an empty directory, with 2,000 partitions, with 2 GB of log, and after SIGKILL under load.
Run: ./run bench race_start [--rounds N]
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from barnabas import Producer
from benchmarks._options import options
from benchmarks._race import Figures, Peer, answered, brokers, create_topic, fill, in_turns, resident_mb

GIGABYTES = 2


def time_starts(label: str, peers: list[Peer], figures: Figures, rounds: int, end: Callable[[Peer], object]) -> None:
    """Start each broker in turn; `end` takes it down again."""
    for peer in in_turns(peers, rounds):
        began = time.perf_counter()
        peer.start()
        answered(peer)
        figures.add(label, peer, time.perf_counter() - began)
        end(peer)


def kill_under_load(peer: Peer) -> None:
    """SIGKILL while a producer sends as fast as it can."""
    stopped = threading.Event()

    def send() -> None:
        with Producer(bootstrap_servers=peer.bootstrap_servers, delivery_timeout_ms=3000, request_timeout_ms=1000,
                      linger_ms=5) as producer:  # fmt: skip
            while not stopped.is_set():
                producer.send("bench", value=bytes(1000))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    time.sleep(2)
    stopped.set()
    peer.kill()
    thread.join(10)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=3)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            create_topic(peer, "bench")
            time.sleep(1)
            figures.add("memory, idle", peer, resident_mb(peer.pid()))
            peer.stop()
        time_starts("start, one topic", peers, figures, given.rounds, lambda peer: peer.stop())
        for peer in peers:
            peer.start()
            create_topic(peer, "many", 2000)
            peer.stop()
        time_starts("start, 2,000 partitions", peers, figures, given.rounds, lambda peer: peer.stop())
        for peer in peers:
            peer.start()
            fill(peer, "bench", 6, GIGABYTES << 30, 100_000)
            figures.add("memory, after load", peer, resident_mb(peer.pid()))
            peer.stop()
        time_starts(f"start, {GIGABYTES} GB of log more", peers, figures, given.rounds, lambda peer: peer.stop())
        for peer in peers:
            peer.start()
            answered(peer)
            kill_under_load(peer)
        time_starts("start, after SIGKILL under load", peers, figures, given.rounds, kill_under_load)
    figures.report(
        {
            "start, one topic": ("s", 0.1),
            "start, 2,000 partitions": ("s", 0.1),
            f"start, {GIGABYTES} GB of log more": ("s", 0.1),
            "start, after SIGKILL under load": ("s", 0.1),
            "memory, idle": ("MB", 0.2),
            "memory, after load": ("MB", 0.2),
        }
    )


if __name__ == "__main__":
    main()
