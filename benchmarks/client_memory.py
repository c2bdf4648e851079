"""What clients hold in memory: records in flight while the broker does not answer, and data that is not read yet.

Producing: 1 M records are sent through a proxy that has stopped forwarding, a future (kept) or a callback each, keys
and values shared, so that all growth is the client's; then the broker answers, and every record must be acknowledged.
buffer.memory is just enough. Target: what the process grows by stays within buffer.memory + 10%; futures that the
application keeps (56 bytes each, its list included) come on top. The peers are confluent-kafka and kafka-python (a
tenth of the records and of the memory).
Consuming: an application takes one poll every 20 ms of a large topic. Target: what the process grows by stays within
twice what one answer may hold (the smaller of fetch.max.bytes and the partitions' max.partition.fetch.bytes): the data
that is handed out, and the answer that is in progress meanwhile; 10% and 1 MB more for all else. The peer is
confluent-kafka.
Every client is a process of its own. Run: ./run bench client_memory [--records N] [--size BYTES] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas import Broker, Producer
from barnabas.testing.fault_proxy import FaultProxy
from benchmarks import _options
from benchmarks._workload import KEYS
from benchmarks.producer_throughput import create_topic

MB = 1 << 20
PARTITIONS = 6
WARM = 60
POLLS = 100
PAUSE = 0.02
# What kafka-python takes of the records and of the memory: it needs a minute for a million.
SLOW_SHARE = 0.1


def memory(name: str) -> float:
    """VmRSS or VmHWM (the peak) of this process in MB."""
    return int(Path("/proc/self/status").read_text().partition(f"{name}:")[2].split()[0]) / 1024


def forget_peak() -> None:
    """Let the peak begin at what is held now."""
    Path("/proc/self/clear_refs").write_text("5")


def told(state: str, **figures: float) -> None:
    """Tell the parent, and wait for its answer."""
    print(json.dumps({"state": state, **figures}), flush=True)
    sys.stdin.readline()


class Frozen:
    """Sends while the broker is silent and reports the growth; `with` it around what is to be measured."""

    def __enter__(self) -> None:
        told("warm")
        forget_peak()
        self._before = memory("VmRSS")

    def __exit__(self, *_: object) -> None:
        told("sent", growth=memory("VmHWM") - self._before)

    def acknowledged(self) -> None:
        """All records are acknowledged."""
        told("acknowledged", growth=memory("VmHWM") - self._before)


def futures(bootstrap: str, topic: str, records: int, value: bytes, buffer: int) -> None:
    """Keep a future per record."""
    frozen = Frozen()
    with Producer(bootstrap_servers=bootstrap, buffer_memory=buffer, max_block_ms=1000) as producer:
        for number in range(WARM):
            producer.send(topic, value, partition=number % PARTITIONS).result()
        with frozen:
            kept = [producer.send(topic, value, KEYS[number % 1000]) for number in range(records)]
        assert all(future.result().offset >= 0 for future in kept)
        frozen.acknowledged()


def callbacks(bootstrap: str, topic: str, records: int, value: bytes, buffer: int) -> None:
    """Produce with a callback per record."""
    done = [0]

    def on_delivery(_: object, error: object) -> None:
        assert error is None, error
        done[0] += 1

    frozen = Frozen()
    with Producer(bootstrap_servers=bootstrap, buffer_memory=buffer, max_block_ms=1000) as producer:
        for number in range(WARM):
            producer.send(topic, value, partition=number % PARTITIONS).result()
        with frozen:
            for number in range(records):
                producer.send(topic, value, KEYS[number % 1000], on_delivery=on_delivery)
        producer.flush()
        assert done[0] == records, done
        frozen.acknowledged()


def confluent(bootstrap: str, topic: str, records: int, value: bytes, buffer: int) -> None:
    """confluent-kafka, a callback per record."""
    from confluent_kafka import Producer as Peer

    done = [0]

    def on_delivery(error: object, _: object) -> None:
        assert error is None, error
        done[0] += 1

    frozen = Frozen()
    limits = {"queue.buffering.max.messages": 2 * records, "queue.buffering.max.kbytes": buffer // 1024}
    producer = Peer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **limits})
    for number in range(WARM):
        producer.produce(topic, value, partition=number % PARTITIONS)
    producer.flush()
    with frozen:
        for number in range(records):
            producer.produce(topic, value, KEYS[number % 1000], on_delivery=on_delivery)
    producer.flush()
    assert done[0] == records, done
    frozen.acknowledged()


def kafka_python(bootstrap: str, topic: str, records: int, value: bytes, buffer: int) -> None:
    """kafka-python, a future per record."""
    from kafka import KafkaProducer

    frozen = Frozen()
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=60_000)  # it bounds no memory
    for number in range(WARM):
        producer.send(topic, value, partition=number % PARTITIONS).get(10)
    with frozen:
        kept = [producer.send(topic, value, KEYS[number % 1000]) for number in range(records)]
    assert all(future.get(60).offset >= 0 for future in kept)
    frozen.acknowledged()
    producer.close()


def consumer(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    """Read slowly."""
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as first:
        # What is loaded with the first record is not what is to be seen.
        first.assign([TopicPartition(f"{topic}-small", 0)])
        while not first.poll(1):
            pass
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings) as reader:
        reader.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        told("warm")
        forget_peak()
        before, read = memory("VmRSS"), 0
        for _ in range(POLLS):
            read += len(reader.poll(5))
            time.sleep(PAUSE)
        told("read", growth=memory("VmHWM") - before, records=read)


def confluent_consumer(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    """confluent-kafka reads slowly; its queued.max.messages.kbytes (64 MB) bounds it beside the fetch settings."""
    from confluent_kafka import Consumer as Peer
    from confluent_kafka import TopicPartition

    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    reader = Peer({"bootstrap.servers": bootstrap, "group.id": "memory", "auto.offset.reset": "earliest", **dotted})
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    told("warm")
    forget_peak()
    before, read = memory("VmRSS"), 0
    for _ in range(POLLS):
        read += len(reader.consume(500, 5))
        time.sleep(PAUSE)
    told("read", growth=memory("VmHWM") - before, records=read)
    reader.close()


PRODUCERS: dict[str, tuple[Callable[[str, str, int, bytes, int], None], float]] = {
    "barnabas, callbacks": (callbacks, 1),
    "barnabas, futures kept": (futures, 1),
    "confluent-kafka, callbacks": (confluent, 1),
    "kafka-python, futures kept": (kafka_python, SLOW_SHARE),
}
CONSUMERS = {"barnabas": consumer, "confluent-kafka": confluent_consumer}
# By name: the settings, and what one answer may hold.
FETCHES: dict[str, tuple[dict[str, Any], int]] = {
    "fetch settings of 8 MB": ({"fetch_max_bytes": 8 * MB, "max_partition_fetch_bytes": 8 * MB}, 8 * MB),
    "defaults (1 MB a partition)": ({}, PARTITIONS * MB),
    "50 MB": ({"fetch_max_bytes": 50 * MB, "max_partition_fetch_bytes": 50 * MB}, 50 * MB),
}


class Client:
    """A client in a process of its own, which tells what it does line by line."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.client_memory", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def until(self, state: str) -> dict[str, Any]:
        """Wait until it says so."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        said: dict[str, Any] = json.loads(line) if line else {"state": "nothing: it ended"}
        if said["state"] != state:
            raise SystemExit(f"the client was to say {state!r} and said {said['state']!r}")
        return said

    def go_on(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Wait for its end."""
        self.go_on()
        self._process.wait(60)


def produce(proxy: FaultProxy, name: str, topic: str, records: int, size: int, buffer: int) -> tuple[float, float]:
    """MB by which one client grew until all was sent, and until all was acknowledged."""
    numbers = (str(records), str(size), str(buffer))
    client = Client("--produce", name, proxy.address, topic, *numbers)
    client.until("warm")
    proxy.freeze()
    time.sleep(0.3)  # until its thread has taken note
    client.go_on()
    sent = client.until("sent")["growth"]
    proxy.heal()
    client.go_on()
    acknowledged = client.until("acknowledged")["growth"]
    client.end()
    return sent, acknowledged


def consume(bootstrap: str, name: str, topic: str, settings: dict[str, Any]) -> tuple[float, float]:
    """MB by which one client grew, and the records that it handed out."""
    client = Client("--consume", name, bootstrap, topic, json.dumps(settings))
    client.until("warm")
    client.go_on()
    said = client.until("read")
    client.end()
    return said["growth"], said["records"]


def compare_producers(records: int, size: int, rounds: int) -> None:
    """Run the producers in turn and print medians beside buffer.memory."""
    # As much as the records take in their batches and 3% for those that are not quite full.
    full = int(records * (size + len(KEYS[0]) + 12) * 1.03)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PRODUCERS}
    with FaultProxy() as proxy, Broker(advertised_listeners=f"PLAINTEXT://{proxy.address}") as broker:
        proxy.forward_to(broker.bootstrap_servers)
        for number in range(rounds):
            for name, (_, share) in PRODUCERS.items():
                topic = f"memory-{number}-{len(found[name])}-{time.time_ns()}"
                create_topic(proxy.address, topic)
                found[name].append(produce(proxy, name, topic, int(records * share), size, int(full * share)))
    print(f"producing {records} records of {size} bytes, buffer.memory {full / MB:.0f} MB, median of {rounds}:")
    for name, (_, share) in PRODUCERS.items():
        buffer = full * share / MB
        sent, acknowledged = (statistics.median(pair[at] for pair in found[name]) for at in (0, 1))
        futures_of_the_application = 56 * records * share / MB if name == "barnabas, futures kept" else 0.0
        ratio = (acknowledged - futures_of_the_application) / buffer
        beside = f" beside {futures_of_the_application:.0f} MB of futures" if futures_of_the_application else ""
        print(
            f"  {name:28} {sent:7.0f} MB in flight, {acknowledged:7.0f} MB at most: {ratio:.2f} x buffer.memory "
            f"({buffer:.0f} MB){beside}, {'met' if ratio <= 1.1 else 'MISSED'}; {int(records * share)} records"
        )


def compare_consumers(records: int, size: int, rounds: int) -> None:
    """Run the consumers in turn and print medians beside what their settings allow."""
    with Broker() as broker:
        _compare_consumers(broker.bootstrap_servers, records, size, rounds)


def _compare_consumers(bootstrap: str, records: int, size: int, rounds: int) -> None:
    topic = f"memory-read-{time.time_ns()}"
    create_topic(bootstrap, topic)
    with Producer(bootstrap_servers=bootstrap, batch_size=256 << 10, linger_ms=5) as producer:
        producer.send(f"{topic}-small", bytes(size), partition=0)
        for number in range(2 * records):
            producer.send(topic, bytes(size), partition=number * PARTITIONS // (2 * records))
    print(f"consuming {POLLS} polls of at most 500 records of {size} bytes, {PARTITIONS} partitions, one broker:")
    for what, (settings, answer) in FETCHES.items():
        for name in CONSUMERS:
            runs = [consume(bootstrap, name, topic, settings) for _ in range(rounds)]
            growth, read = (statistics.median(run[at] for run in runs) for at in (0, 1))
            verdict = "within" if growth <= 2.2 * answer / MB + 1 else "MORE THAN"
            bound = f"twice an answer of {answer / MB:.0f} MB + 10% + 1 MB"
            print(f"  {name:16} {what:28} {growth:6.1f} MB ({verdict} {bound}), {read:.0f} records")


def main() -> None:
    """Read the arguments."""
    parser = _options.parser(__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", choices=("producer", "consumer"))
    parser.add_argument("--produce", nargs=6, help=argparse.SUPPRESS)
    parser.add_argument("--consume", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        name, bootstrap, topic, records, size, buffer = arguments.produce
        PRODUCERS[name][0](bootstrap, topic, int(records), b"x" * int(size), int(buffer))
        return
    if arguments.consume:
        name, bootstrap, topic, settings = arguments.consume
        CONSUMERS[name](bootstrap, topic, json.loads(settings))
        return
    for what, compare in (("producer", compare_producers), ("consumer", compare_consumers)):
        if arguments.only in (None, what):
            compare(arguments.records, arguments.size, arguments.rounds)


if __name__ == "__main__":
    main()
