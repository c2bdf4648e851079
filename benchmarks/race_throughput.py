"""Race: large batches in and out, with franz-go and with Kafka's own performance tools, against Apache Kafka.

100-byte records, 6 partitions, acks=all. Run: ./run bench race_throughput [--rounds N] [--records N]
"""

from __future__ import annotations

import re

from benchmarks._options import options
from benchmarks._race import Figures, Peer, brokers, cpu_seconds, create_topic, franz_go, in_turns
from tests.peers import apache_kafka

SIZE = 100


def perf_tool(name: str, peer: Peer, *arguments: str) -> str:
    """Run one of Kafka's performance tools and give what it printed."""
    done = apache_kafka.run_tool(
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", peer.bootstrap_servers, *arguments, timeout=300
    )
    if done.returncode:
        raise SystemExit(f"{name} failed on {peer.name}: {done.stderr[-500:]}")
    return done.stdout


def produce_java(peer: Peer, records: int) -> float:
    """Records/s of ProducerPerformance."""
    options = ("--command-property", "acks=all", "--command-property", "linger.ms=5")
    load = ("--num-records", str(records), "--record-size", str(SIZE), "--throughput", "-1")
    printed = perf_tool("ProducerPerformance", peer, "--topic", "java", *load, *options)
    return float(re.findall(r"([\d.]+) records/sec", printed)[-1])


def consume_java(peer: Peer, records: int) -> float:
    """Records/s of ConsumerPerformance, without the time that its group takes to form."""
    arguments = ("--topic", "java", "--num-records", str(records), "--timeout", "60000")
    printed = perf_tool("ConsumerPerformance", peer, *arguments)
    names, values = (line.split(", ") for line in printed.strip().splitlines()[-2:])
    return float(dict(zip(names, values, strict=True))["fetch.nMsg.sec"])


def measure(figures: Figures, peer: Peer, records: int) -> None:
    """All four on one broker."""
    for label, rate in (
        ("produce, franz-go", lambda: records / franz_go("produce", peer, "go", records, SIZE)["seconds"]),
        ("produce, ProducerPerformance", lambda: produce_java(peer, records)),
        ("consume, franz-go", lambda: records / franz_go("consume", peer, "go", records, SIZE)["seconds"]),
        ("consume, ConsumerPerformance", lambda: consume_java(peer, records)),
    ):
        before = cpu_seconds(peer.pid())
        figures.add(label, peer, rate())
        figures.add(f"{label}: broker CPU per record", peer, (cpu_seconds(peer.pid()) - before) / records * 1e6)


def main() -> None:
    """Measure and print."""
    given = options(__doc__, rounds=5, records=2_000_000)
    figures = Figures()
    with brokers() as peers:
        for peer in peers:
            for topic in ("go", "java"):
                create_topic(peer, topic)
            measure(Figures(), peer, given.records)  # Java compiles what it runs often
        for peer in in_turns(peers, given.rounds):
            measure(figures, peer, given.records)
    targets: dict[str, tuple[str, float | None]] = {}
    for label in (
        "produce, franz-go",
        "produce, ProducerPerformance",
        "consume, franz-go",
        "consume, ConsumerPerformance",
    ):
        targets[label] = ("records/s", 1.0)
        targets[f"{label}: broker CPU per record"] = ("µs", 0.5 if label.startswith("produce") else None)
    figures.report(targets)


if __name__ == "__main__":
    main()
