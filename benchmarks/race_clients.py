"""Race of the clients: barnabas, franz-go and confluent-kafka on Apache Kafka, and once more on barnabas.

Keyed records, 6 partitions, acks=all, idempotent, a callback per record; reading takes every field of every record.
Each run is a process of its own, in turns; medians, ratios pair by pair.
Run: ./run bench race_clients [--rounds N] [--records N] [--size BYTES] [--broker apache|barnabas|both]
     [--only produce|consume|one ...]: the clients whose names begin so
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks import _options, consumer_throughput, producer_throughput
from benchmarks._race import THEIRS, Peer, brokers, create_topic, franz_go

LATENCIES = 2000


class Run(NamedTuple):
    """What one run of one client showed; CPU in µs per record, round trips in ms."""

    rate: float = 0.0
    cpu: float = 0.0
    p50: float = 0.0
    p99: float = 0.0


class Race(NamedTuple):
    """One comparison: ours must reach `factor` times the other's figure, or stay below it where less is better."""

    ours: str
    other: str
    figure: str
    factor: float


RACES = [
    Race("produce", "produce, franz-go", "rate", 1.0),
    Race("produce", "produce, confluent", "rate", 2.5),
    Race("produce", "produce, franz-go", "cpu", 0.5),
    Race("produce", "produce, confluent", "cpu", 0.2),
    Race("produce futures", "produce, franz-go", "rate", 1.0),
    Race("produce futures", "produce, confluent", "rate", 2.5),
    Race("produce futures", "produce, franz-go", "cpu", 0.5),
    Race("produce futures", "produce, confluent", "cpu", 0.2),
    Race("produce Arrow", "produce", "rate", 4.0),
    Race("consume", "consume, franz-go", "rate", 2.0),
    Race("consume", "consume, confluent", "rate", 10.0),
    Race("consume", "consume, franz-go", "cpu", 0.5),
    Race("consume Arrow", "consume", "rate", 4.0),
    Race("one at a time", "one at a time, franz-go", "p50", 1.3),
    Race("one at a time", "one at a time, franz-go", "p99", 2.0),
]


def one_at_a_time(bootstrap: str, topic: str) -> None:
    """Send a record and wait for it, again and again; print p50 and p99 in ms."""
    from barnabas import Producer

    trips = []
    with Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for number in range(LATENCIES + 200):
            began = time.perf_counter()
            producer.send(topic, bytes(100)).result()
            if number >= 200:
                trips.append((time.perf_counter() - began) * 1e3)
    trips.sort()
    print(json.dumps({"p50": trips[len(trips) // 2], "p99": trips[len(trips) * 99 // 100]}))


def _python(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def _produce(client: str, peer: Peer, records: int, size: int) -> Run:
    arguments = ("--bootstrap", peer.bootstrap_servers, "--topic", "written", "--records", str(records))
    found = _python("benchmarks.producer_throughput", "--one", client, *arguments, "--size", str(size))
    return Run(rate=found["rate"], cpu=found["cpu_us"])


def _consume(client: str, peer: Peer, records: int) -> Run:
    arguments = ("--bootstrap", peer.bootstrap_servers, "--topic", "read", "--records", str(records))
    seconds, cpu = _python("benchmarks.consumer_throughput", "--run", client, *arguments)
    return Run(rate=1 / seconds, cpu=cpu * 1e6)


def _franz_go(command: str, peer: Peer, topic: str, records: int, size: int) -> Run:
    found = franz_go(command, peer, topic, records, size, keyed=command == "produce")
    rate, cpu = records / found["seconds"], found["cpu"] / records * 1e6
    return Run(rate, cpu, found.get("p50", 0.0), found.get("p99", 0.0))


def _one_at_a_time(peer: Peer) -> Run:
    found = _python("benchmarks.race_clients", "--one-at-a-time", peer.bootstrap_servers)
    return Run(p50=found["p50"], p99=found["p99"])


def runs(peer: Peer, records: int, size: int) -> dict[str, Callable[[], Run]]:
    """Every client on this broker, by the name that the races use."""
    names = producer_throughput.CLIENTS
    confluent = next(name for name in names if name.startswith("confluent"))
    return {
        "produce": lambda: _produce("barnabas, callbacks, 1 MB batches", peer, records, size),
        "produce futures": lambda: _produce("barnabas, futures, 1 MB batches", peer, records, size),
        "produce Arrow": lambda: _produce("barnabas, Arrow tables, 1 MB batches", peer, records, size),
        "produce, franz-go": lambda: _franz_go("produce", peer, "written", records, size),
        "produce, confluent": lambda: _produce(confluent, peer, records, size),
        "consume": lambda: _consume("barnabas, poll(max 10000)", peer, records),
        "consume Arrow": lambda: _consume("barnabas, poll_arrow()", peer, records),
        "consume, franz-go": lambda: _franz_go("consume", peer, "read", records, size),
        "consume, confluent": lambda: _consume(consumer_throughput.PEER, peer, records),
        "one at a time": lambda: _one_at_a_time(peer),
        "one at a time, franz-go": lambda: _franz_go("latency", peer, "one", LATENCIES, 100),
    }


def report(peer: Peer, found: dict[str, list[Run]]) -> None:
    """Print every race: medians, the median of the ratios pair by pair, the target."""
    print(f"on {peer.name}:")
    for race in RACES:
        if race.ours not in found or race.other not in found:
            continue
        ours = [getattr(run, race.figure) for run in found[race.ours]]
        theirs = [getattr(run, race.figure) for run in found[race.other]]
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        met = ratio >= race.factor if race.figure == "rate" else ratio <= race.factor
        print(
            f"  {race.ours + ' : ' + race.other:<44} {race.figure:<5} {statistics.median(ours):>14,.3f} : "
            f"{statistics.median(theirs):>14,.3f} {ratio:7.2f} x   target {race.factor:g} {'met' if met else 'MISSED'}",
            flush=True,
        )


def race(peer: Peer, rounds: int, records: int, size: int, only: tuple[str, ...]) -> None:
    """Run the clients in turn on one broker."""
    for topic in ("written", "one"):
        create_topic(peer, topic)
    clients = {name: run for name, run in runs(peer, records, size).items() if name.startswith(only)}
    if any(name.startswith("consume") for name in clients):
        consumer_throughput.fill(peer.bootstrap_servers, "read", records, size - 10)
    found: dict[str, list[Run]] = {name: [] for name in clients}
    for name in [name for name in clients if name.endswith("franz-go")]:
        clients[name]()  # Java compiles what it runs often
    for _ in range(rounds):
        for name, run in clients.items():
            found[name].append(run())
    report(peer, found)


def main() -> None:
    """Read the arguments, and run."""
    parser = _options.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--broker", choices=("apache", "barnabas", "both"), default="both")
    parser.add_argument("--only", action="append", help="how the names of clients begin; may be given several times")
    parser.add_argument("--one-at-a-time", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_at_a_time:
        one_at_a_time(options.one_at_a_time, "one")
        return
    with brokers() as peers:
        for peer in reversed(peers):
            if options.broker in ("both", "apache" if peer.name == THEIRS else "barnabas"):
                race(peer, options.rounds, options.records, options.size, tuple(options.only or [""]))


if __name__ == "__main__":
    main()
