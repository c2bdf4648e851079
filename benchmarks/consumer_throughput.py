"""Consumer: records/s and client CPU per record, barnabas and its peers in turn against the same broker.

`./run bench consumer_throughput [--aio] [--bootstrap HOST:PORT] [--records N] [--rounds N] [--size BYTES]`
The peer is confluent-kafka; with --aio the clients are those for asyncio and the peer is aiokafka, which reads a fifth
of the records.
Without --bootstrap it runs against barnabas' own broker, started as a process of its own. Every run is a fresh client
process that reads a topic of 6 partitions from the beginning; the loop reads key, value, headers, offset and timestamp
of every record (confluent-kafka: consume(10000)). The Arrow run takes whole batches; poll_raw() only receives, and the
loop alone reads the same few records again and again, without a broker. Medians of the rounds, and ratios.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import _aio_clients as aio
from benchmarks import _options

PARTITIONS = 6


def barnabas(bootstrap: str, topic: str, records: int, max_poll_records: int = 500) -> None:
    """poll() with the default of 500 records."""
    from barnabas import Consumer, TopicPartition

    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", max_poll_records=max_poll_records
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        poll = consumer.poll
        count = 0
        while count < records:
            for record in poll(5.0):
                _ = record.key, record.value, record.headers, record.offset, record.timestamp
                count += 1
    assert count == records


def barnabas_large(bootstrap: str, topic: str, records: int) -> None:
    """poll() with as many records as confluent-kafka gets."""
    barnabas(bootstrap, topic, records, 10_000)


def barnabas_iterate(bootstrap: str, topic: str, records: int) -> None:
    """One record at a time."""
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        for count, record in enumerate(consumer, 1):
            _ = record.key, record.value, record.headers, record.offset, record.timestamp
            if count == records:
                break


def barnabas_arrow(bootstrap: str, topic: str, records: int) -> None:
    """Whole batches as columns."""
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        count = 0
        while count < records:
            batch = consumer.poll_arrow(5.0)
            count += 0 if batch is None else batch.num_rows
    assert count == records


def barnabas_raw(bootstrap: str, topic: str, records: int) -> None:
    """Only receiving: what the broker and the socket allow."""
    from barnabas import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        count = 0
        while count < records:
            count += sum(found.end_offset - found.offset for found in consumer.poll_raw(5.0))
    assert count == records


def loop_alone(_bootstrap: str, _topic: str, records: int) -> None:
    """Loop over records that are there already: what no client can beat in this Python."""
    from barnabas.records import ConsumerRecord

    found = [ConsumerRecord("t", 0, number, 1_700_000_000_000, 0, b"key", b"value") for number in range(500)]
    count = 0
    while count < records:
        for record in found:
            _ = record.key, record.value, record.headers, record.offset, record.timestamp
            count += 1


def confluent(bootstrap: str, topic: str, records: int) -> None:
    """Run the peer, at its fastest."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "benchmark", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    count = 0
    while count < records:
        for record in consumer.consume(10_000, 5.0):
            _ = record.key(), record.value(), record.headers(), record.offset(), record.timestamp()
            count += 1
    consumer.close()
    assert count == records


RUNS: dict[str, Callable[[str, str, int], None]] = {
    "barnabas, poll()": barnabas,
    "barnabas, poll(max 10000)": barnabas_large,
    "barnabas, iteration": barnabas_iterate,
    "barnabas, poll_arrow()": barnabas_arrow,
    "barnabas, poll_raw()": barnabas_raw,
    "barnabas, the loop alone": loop_alone,
    "confluent, consume(10000)": confluent,
}
IMPORTS = {
    "barnabas": ("barnabas.client.consumer.consumer", "barnabas.records.arrow", "pyarrow"),
    "confluent": ("confluent_kafka",),
    "aio": ("barnabas.aio.consumer", "barnabas.records.arrow", "pyarrow"),
    "aio on uvloop": ("barnabas.aio.consumer", "uvloop"),
    "aiokafka": ("aiokafka",),
}
PEER = "confluent, consume(10000)"
AIO_RUNS: dict[str, Callable[[str, str, int], None]] = {
    "aio, poll(max 10000)": aio.in_loop(aio.poll),
    "aio, async for": aio.in_loop(aio.iterate),
    "aio, poll_arrow()": aio.in_loop(aio.poll_arrow),
    "aio on uvloop, poll(max 10000)": aio.in_loop(aio.poll, uvloop=True),
    "aiokafka, async for": aio.in_loop(aio.aiokafka_iterate),
    "aiokafka, getmany(10000)": aio.in_loop(aio.aiokafka_getmany),
}
AIO_PEER = "aiokafka, getmany(10000)"
# A peer that would take too long reads fewer records.
SHARES = {name: 0.2 for name in AIO_RUNS if name.startswith("aiokafka")}


def measure(name: str, bootstrap: str, topic: str, records: int) -> None:
    """In a process of its own: run, and print seconds and CPU seconds, without those of the imports."""
    for module in IMPORTS[name.partition(",")[0]]:
        importlib.import_module(module)
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    records = int(records * SHARES.get(name, 1))
    (RUNS | AIO_RUNS)[name](bootstrap, topic, records)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([seconds / records, cpu / records]))


def fill(bootstrap: str, topic: str, records: int, size: int) -> None:
    """Make the topic: keyed records of `size` bytes over 6 partitions."""
    from barnabas import AdminClient, NewTopic, Producer

    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    value = b"x" * size
    with Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
        for number in range(records):
            producer.send(topic, value, b"key-%06d" % (number % 1000), number // 100 % PARTITIONS)


def run(bootstrap: str, records: int, rounds: int, size: int, runs: dict[str, Any], peer: str) -> None:
    """All clients in turn, `rounds` times; prints medians and ratios."""
    topic = f"benchmark-{time.time_ns()}"
    fill(bootstrap, topic, records, size)
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name in runs:
            command = [sys.executable, __file__, "--run", name, "--bootstrap", bootstrap, "--topic", topic]
            done = subprocess.run(
                [*command, "--records", str(records)], capture_output=True, text=True, check=True, timeout=300
            )
            results[name].append(tuple(json.loads(done.stdout.splitlines()[-1])))
    rates = {name: 1 / statistics.median(seconds for seconds, _ in found) for name, found in results.items()}
    cpus = {name: statistics.median(cpu for _, cpu in found) * 1e6 for name, found in results.items()}
    print(f"{records:,} records of {size} bytes, {PARTITIONS} partitions, median of {rounds}")
    for name in runs:
        print(
            f"  {name:32} {rates[name]:12,.0f} records/s {cpus[name]:7.3f} us CPU per record"
            f"   {rates[name] / rates[peer]:6.2f} x rate, {cpus[peer] / cpus[name]:6.2f} x less CPU than the last"
        )


def main() -> None:
    """Parse the arguments and run."""
    parser = _options.parser(__doc__)
    parser.add_argument("--bootstrap")
    parser.add_argument("--aio", action="store_true", help="the clients for asyncio")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    options = parser.parse_args()
    clients = (AIO_RUNS, AIO_PEER) if options.aio else (RUNS, PEER)
    if options.run:
        measure(options.run, options.bootstrap, options.topic, options.records)
    elif options.bootstrap:
        run(options.bootstrap, options.records, options.rounds, options.size, *clients)
    else:
        from barnabas import Broker

        with Broker() as broker:
            run(broker.bootstrap_servers, options.records, options.rounds, options.size, *clients)


if __name__ == "__main__":
    main()
