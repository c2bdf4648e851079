"""What anatomy costs: a producer and its broker while nothing listens, and while both record themselves. Pairs in turn.

A broker of barnabas and a producer of ours in a process of its own (100 bytes, 6 partitions). What the comparisons cost
where nothing listens follows from how many there are, one for each event that a recorder gets, and what one takes; the
CPU with a recorder is compared with that without one. The peer is the same broker and producer without recording.
Run: ./run bench anatomy_cost [--rounds N] [--records N]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path
from statistics import median
from typing import NamedTuple

from barnabas import AdminClient, Broker, NewTopic
from barnabas.anatomy import recording
from benchmarks._options import options
from benchmarks._race import cpu_seconds

PRODUCE = """
import resource, sys
from barnabas import Producer
value = b"v" * 100
with Producer(bootstrap_servers=sys.argv[1]) as producer:
    producer.send("load", value).result()
    used = resource.getrusage(resource.RUSAGE_SELF)
    before = used.ru_utime + used.ru_stime
    for _ in range(int(sys.argv[2])):
        producer.send("load", value)
    producer.flush()
    used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime - before)
"""


class Cost(NamedTuple):
    """CPU of a record in microseconds, and how many events there were for each."""

    producer: float
    broker: float
    producer_events: float
    broker_events: float


def produce(records: int, recordings: Path | None) -> Cost:
    """Start a broker and a producer, which record themselves where a directory is given."""
    environment = {name: value for name, value in os.environ.items() if name != "BARNABAS_ANATOMY"}
    if recordings is not None:
        environment["BARNABAS_ANATOMY"] = os.environ["BARNABAS_ANATOMY"] = str(recordings)
    try:
        broker = Broker()
    finally:
        os.environ.pop("BARNABAS_ANATOMY", None)
    with broker:
        assert broker.pid is not None
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("load", 6)])
        before = cpu_seconds(broker.pid)
        command = [sys.executable, "-c", PRODUCE, broker.bootstrap_servers, str(records)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        broker_cpu = cpu_seconds(broker.pid) - before
    events = {"broker": 0, "producer": 0}
    for path in [] if recordings is None else recordings.iterdir():
        events["broker" if path.name.startswith("broker") else "producer"] += len(recording.read(path).events)
    each = 1e6 / records
    found = events["producer"] / records, events["broker"] / records
    return Cost(float(done.stdout) * each, broker_cpu * each, *found)


def main() -> None:
    """Print a line for each round, and the medians of the ratios."""
    found = options(__doc__, rounds=5, records=400_000)
    check = min(timeit.repeat("anatomy.active is not None", "from barnabas import anatomy", number=10**6, repeat=5))
    producers, brokers, asked = [], [], Cost(1, 1, 0, 0)
    for number in range(found.rounds):
        with tempfile.TemporaryDirectory() as directory:
            alone, asked = produce(found.records, None), produce(found.records, Path(directory))
        producers.append(asked.producer / alone.producer)
        brokers.append(asked.broker / alone.broker)
        print(
            f"round {number + 1}: producer {alone.producer:.3f} us a record, {asked.producer:.3f} recorded; "
            f"broker {alone.broker:.3f} and {asked.broker:.3f}"
        )
    print(f"recorded, medians of {found.rounds}: {median(producers):.3f} times the producer's CPU per record")
    print(f"  {median(brokers):.3f} times the broker's")
    print(f"  events of a record: {asked.producer_events:.4f} in the producer, {asked.broker_events:.4f} in the broker")
    shares = asked.producer_events * check / alone.producer * 100, asked.broker_events * check / alone.broker * 100
    print(f"while nothing listens, at {check * 1000:.0f} ns a comparison:")
    print(f"  {shares[0]:.3f}% of the producer's CPU, {shares[1]:.3f}% of the broker's")


if __name__ == "__main__":
    main()
