"""Producer: records/s and client CPU per record, barnabas and its peers in turn against the same broker.

`./run bench producer_throughput [--aio] [--bootstrap HOST:PORT] [--records N] [--rounds N] [--size BYTES]`
The peer is confluent-kafka; with --aio the clients are those for asyncio and the peer is aiokafka, which sends a tenth
of the records.
Without --bootstrap it runs against barnabas' own broker, started as a process of its own. Every run is a fresh client
process: keyed records over 6 partitions, acks=all, idempotent, a result per record. Medians of the rounds, and ratios.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks import _aio_clients as aio
from benchmarks import _options
from benchmarks._workload import KEYS, tables_of

PARTITIONS = 6
BIG = {"batch.size": 1_000_000, "linger.ms": 5}


def barnabas_future(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with a future per record."""
    from barnabas import Producer

    with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        send = producer.send
        last = None
        for _ in range(records // len(KEYS)):
            for key in KEYS:
                last = send(topic, value, key)
        producer.flush()
        assert last is not None
        last.result(0)
        assert producer.metrics()["record-error-total"] == 0


def barnabas_callback(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with a callback per record."""
    from barnabas import Producer

    done = [0]

    def on_delivery(_: object, error: BaseException | None) -> None:
        assert error is None
        done[0] += 1

    with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        send = producer.send
        for _ in range(records // len(KEYS)):
            for key in KEYS:
                send(topic, value, key, on_delivery=on_delivery)
        producer.flush()
    assert done[0] == records, done


def barnabas_table(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send Arrow tables of 10,000 rows."""
    from barnabas import Producer

    with Producer({"bootstrap.servers": bootstrap, **settings}) as producer:
        futures = [producer.send_table(topic, table) for table in tables_of(value, records)]
        assert sum(future.result(60) for future in futures) == records


def confluent(bootstrap: str, topic: str, records: int, value: bytes, settings: dict[str, object]) -> None:
    """Send with confluent-kafka, a callback per record."""
    from confluent_kafka import Producer

    done = [0]

    def on_delivery(error: object, _: object) -> None:
        assert error is None
        done[0] += 1

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "partitioner": "murmur2_random",
         "queue.buffering.max.messages": 1_000_000, **settings}
    )  # fmt: skip
    for _ in range(records // len(KEYS)):
        for key in KEYS:
            while True:
                try:
                    producer.produce(topic, value, key, on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    producer.flush()
    assert done[0] == records, done


CLIENTS: dict[str, tuple[Callable[[str, str, int, bytes, dict[str, object]], None], dict[str, object]]] = {
    "barnabas, futures, defaults": (barnabas_future, {}),
    "barnabas, futures, 1 MB batches": (barnabas_future, BIG),
    "barnabas, callbacks, 1 MB batches": (barnabas_callback, BIG),
    "barnabas, Arrow tables, 1 MB batches": (barnabas_table, BIG),
    "confluent-kafka, callbacks, its defaults (1 MB batches)": (confluent, {"linger.ms": 5}),
}


AIO_CLIENTS: dict[str, tuple[Callable[[str, str, int, bytes, dict[str, object]], None], dict[str, object]]] = {
    "aio, futures, defaults": (aio.in_loop(aio.send_futures), {}),
    "aio, futures, 1 MB batches": (aio.in_loop(aio.send_futures), BIG),
    "aio, callbacks, 1 MB batches": (aio.in_loop(aio.send_callbacks), BIG),
    "aio, Arrow tables, 1 MB batches": (aio.in_loop(aio.send_tables), BIG),
    "aio on uvloop, futures, 1 MB batches": (aio.in_loop(aio.send_futures, uvloop=True), BIG),
    "aiokafka, futures, 1 MB batches": (
        aio.in_loop(aio.aiokafka_send), {"max_batch_size": 1_000_000, "linger_ms": 5}
    ),
    "aiokafka, futures, its defaults": (aio.in_loop(aio.aiokafka_send), {}),
}  # fmt: skip
# A peer that would take too long sends fewer records.
SHARES = {name: 0.1 for name in AIO_CLIENTS if name.startswith("aiokafka")}


def run_one(name: str, bootstrap: str, topic: str, records: int, size: int) -> None:
    """In a process of its own: a first small run for connections and imports, then the one that counts."""
    client, settings = (CLIENTS | AIO_CLIENTS)[name]
    records = int(records * SHARES.get(name, 1)) // len(KEYS) * len(KEYS)
    value = b"x" * (size - len(KEYS[0]))
    client(bootstrap, topic, len(KEYS), value, settings)
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    client(bootstrap, topic, records, value, settings)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rate": records / seconds, "cpu_us": cpu / records * 1e6, "peak_mb": after.ru_maxrss / 1024}))


def create_topic(bootstrap: str, topic: str) -> None:
    """Make the topic, whichever broker it is."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(topic, PARTITIONS)]).values():
        created.result(30)


def compare(bootstrap: str, records: int, rounds: int, size: int, names: list[str]) -> None:
    """Run the clients in turn and print medians and ratios."""
    topic = f"producer-throughput-{time.time_ns()}"
    create_topic(bootstrap, topic)
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, "--one", name, "--bootstrap", bootstrap, "--topic", topic,
                       "--records", str(records), "--size", str(size)]  # fmt: skip
            out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
            results[name].append(json.loads(out))
    medians = {
        name: {what: statistics.median(run[what] for run in runs) for what in runs[0]} for name, runs in results.items()
    }
    reference = medians[names[-1]]
    print(f"{size}-byte records, {PARTITIONS} partitions, acks=all, {records} records, median of {rounds}:")
    for name, found in medians.items():
        print(
            f"  {name:56} {found['rate']:>11,.0f} records/s ({found['rate'] / reference['rate']:.2f}x)  "
            f"{found['cpu_us']:.2f} us CPU/record ({found['cpu_us'] / reference['cpu_us']:.2f}x)  "
            f"{found['peak_mb']:.0f} MB"
        )


def main() -> None:
    """Read the arguments."""
    parser = _options.parser(__doc__)
    parser.add_argument("--bootstrap")
    parser.add_argument("--aio", action="store_true", help="the clients for asyncio")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--only", action="append", help="part of a client's name; may be given several times")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--topic", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one, arguments.bootstrap, arguments.topic, arguments.records, arguments.size)
        return
    names = [
        name
        for name in (AIO_CLIENTS if arguments.aio else CLIENTS)
        if not arguments.only or any(part in name for part in arguments.only)
    ]
    if arguments.bootstrap:
        compare(arguments.bootstrap, arguments.records, arguments.rounds, arguments.size, names)
        return
    from barnabas import Broker

    with Broker() as broker:
        compare(broker.bootstrap_servers, arguments.records, arguments.rounds, arguments.size, names)


if __name__ == "__main__":
    main()
