"""Does a client's work grow with the partitions it knows? 10, 1,000 and 10,000 of them, and beside it confluent-kafka.

One topic each; all data is in six of its partitions, the others are idle.
send: CPU per record sent to the six partitions (confluent-kafka: produce()).
poll: all partitions are assigned; CPU per record of 100 bytes read by polls of at most 500 (consume(500)).
fetch: CPU per answer that brings one record of 2 KB, so that nothing but the request and the answer counts; one every
    50 ms, since a broker takes longer with more partitions, and a process that has slept runs slowly at first.
idle: share of a core that polling takes while nothing comes.
Positions are committed automatically, every five seconds, but for `fetch`: a commit names all of them, as in Kafka.
All CPU of the process counts, its threads included; connecting and learning the metadata do not.
Run: ./run bench client_partitions [--rounds N] [--records N] [--only WORD]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from barnabas import AdminClient, Broker, Consumer, NewTopic, Producer, TopicPartition
from benchmarks import _options

COUNTS = (10, 1000, 10_000)
BUSY = 6
FETCHES = 100
PAUSE = 0.05
IDLE_SECONDS = 3.0
SMALL, LARGE = bytes(100), bytes(2000)
Work = Callable[[str, int, int], float]


def _spread(partitions: int, number: int) -> int:
    """One of the six partitions with data, which lie far apart."""
    return number % BUSY * (partitions // BUSY)


def send(bootstrap: str, partitions: int, records: int) -> float:
    """µs per record."""
    with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for number in range(BUSY):
            producer.send(f"sent-{partitions}", SMALL, partition=_spread(partitions, number)).result()
        began = time.process_time()
        for number in range(records):
            producer.send(f"sent-{partitions}", SMALL, partition=_spread(partitions, number))
        producer.flush()
        return (time.process_time() - began) / records * 1e6


def send_confluent(bootstrap: str, partitions: int, records: int) -> float:
    """µs per record."""
    from confluent_kafka import Producer as Peer

    producer = Peer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for number in range(BUSY):
        producer.produce(f"sent-{partitions}", SMALL, partition=_spread(partitions, number))
    producer.flush()
    began = time.process_time()
    for number in range(records):
        while True:
            try:
                producer.produce(f"sent-{partitions}", SMALL, partition=_spread(partitions, number))
                break
            except BufferError:
                producer.poll(0.01)
    producer.flush()
    return (time.process_time() - began) / records * 1e6


def _reader(bootstrap: str, topic: str, partitions: int, **settings: Any) -> Consumer[Any, Any]:
    reader: Consumer[Any, Any] = Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=f"{topic}-{time.time_ns()}", **settings
    )
    reader.assign([TopicPartition(topic, number) for number in range(partitions)])
    while not reader.poll(1.0):
        pass
    return reader


def _peer_reader(bootstrap: str, topic: str, partitions: int, **settings: Any) -> Any:
    from confluent_kafka import Consumer as Peer
    from confluent_kafka import TopicPartition as Place

    reader = Peer(
        {"bootstrap.servers": bootstrap, "group.id": f"{topic}-{time.time_ns()}", "message.max.bytes": 1000, **settings}
    )
    reader.assign([Place(topic, number, 0) for number in range(partitions)])
    while not reader.consume(1, 1.0):
        pass
    return reader


def poll(bootstrap: str, partitions: int, records: int) -> float:
    """µs per record."""
    with _reader(bootstrap, f"read-{partitions}", partitions) as reader:
        count, began = 0, time.process_time()
        while count < records:
            count += len(reader.poll(5.0))
        return (time.process_time() - began) / count * 1e6


def poll_confluent(bootstrap: str, partitions: int, records: int) -> float:
    """µs per record."""
    reader = _peer_reader(bootstrap, f"read-{partitions}", partitions)
    count, began = 0, time.process_time()
    while count < records:
        count += len(reader.consume(500, 5.0))
    return (time.process_time() - began) / count * 1e6


def fetch(bootstrap: str, partitions: int, records: int) -> float:
    """µs per answer."""
    with _reader(bootstrap, f"single-{partitions}", partitions, fetch_max_bytes=1, enable_auto_commit=False) as reader:
        count, began = 0, time.process_time()
        while count < FETCHES:
            time.sleep(PAUSE)
            count += len(reader.poll(5.0))
        return (time.process_time() - began) / count * 1e6


def idle(bootstrap: str, partitions: int, records: int) -> float:
    """Percent of a core."""
    with _reader(bootstrap, f"sent-{partitions}", partitions, max_poll_records=10_000) as reader:
        while reader.poll(1.0):
            pass
        began, started = time.process_time(), time.monotonic()
        while time.monotonic() - started < IDLE_SECONDS:
            reader.poll(0.1)
        return (time.process_time() - began) / (time.monotonic() - started) * 100


def idle_confluent(bootstrap: str, partitions: int, records: int) -> float:
    """Percent of a core."""
    reader = _peer_reader(bootstrap, f"sent-{partitions}", partitions)
    while reader.consume(10_000, 1.0):
        pass
    began, started = time.process_time(), time.monotonic()
    while time.monotonic() - started < IDLE_SECONDS:
        reader.consume(500, 0.1)
    return (time.process_time() - began) / (time.monotonic() - started) * 100


WORK: dict[str, tuple[str, Work]] = {
    "send, barnabas": ("µs a record", send),
    "send, confluent-kafka": ("µs a record", send_confluent),
    "poll, barnabas": ("µs a record", poll),
    "poll, confluent-kafka": ("µs a record", poll_confluent),
    "fetch, barnabas": ("µs a fetch", fetch),
    "idle, barnabas": ("% of a core", idle),
    "idle, confluent-kafka": ("% of a core", idle_confluent),
}


def prepare(bootstrap: str, records: int) -> None:
    """Make the topics, and write what is to be read."""
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        for partitions in COUNTS:
            admin.create_topics([NewTopic(f"{kind}-{partitions}", partitions) for kind in ("sent", "read", "single")])
    with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for partitions in COUNTS:
            for number in range(2 * records):
                producer.send(f"read-{partitions}", SMALL, partition=_spread(partitions, number))
    with Producer(bootstrap_servers=bootstrap, linger_ms=0, batch_size=1) as producer:
        for partitions in COUNTS:
            for number in range(2 * FETCHES):
                producer.send(f"single-{partitions}", LARGE, partition=_spread(partitions, number))


def measure(bootstrap: str, name: str, partitions: int, records: int) -> float:
    """Run one client in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.client_partitions", "--one", name, bootstrap, str(partitions)]
    done = subprocess.run([*command, "--records", str(records)], capture_output=True, text=True, timeout=280)
    if done.returncode:
        raise SystemExit(f"{name} failed with {partitions} partitions: {done.stderr[-500:]}")
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure and print."""
    parser = _options.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--only", default="", help="part of a name, such as fetch or barnabas")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, bootstrap, partitions = arguments.one
        print(json.dumps(WORK[name][1](bootstrap, int(partitions), arguments.records)))
        return
    with Broker() as broker:
        prepare(broker.bootstrap_servers, arguments.records)
        for name, (unit, _) in WORK.items():
            if arguments.only not in name:
                continue
            found = [
                statistics.median(
                    measure(broker.bootstrap_servers, name, partitions, arguments.records)
                    for _ in range(arguments.rounds)
                )
                for partitions in COUNTS
            ]
            row = "   ".join(f"{count:>6}: {each:9.2f}" for count, each in zip(COUNTS, found, strict=True))
            print(f"{name:24} {unit:12} {row}   {found[-1] / found[0]:7.2f} x", flush=True)


if __name__ == "__main__":
    main()
