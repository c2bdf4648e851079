"""Share consumers: records/s and client CPU per record, ours, confluent-kafka's and Java's in turn, on both brokers.

`./run bench race_share [--records N] [--java-records N] [--seconds N] [--rounds N] [--size BYTES] [--brokers ...]`
The brokers are processes of their own, and stay there while the other one is asked. Every run is a fresh client process
with a share group of its own that reads a topic of 6 partitions from the beginning, with implicit acknowledgement and
the defaults of each client; the loop reads key, value, offset and delivery count of every record. Time runs from the
first record to the last, or until so many seconds are over; of Java's, which is kafka-share-consumer-perf-test, it
counts the start as well. Medians of the rounds; the ratios of the clients on each broker, and of the brokers for each
client. Three rounds on both brokers take some five minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.admin import ConfigResource
from tests.peers import apache_kafka

TOPIC, PARTITIONS = "share", 6


class Lap:
    """How many records were read, and in how many seconds since the first of them."""

    def __init__(self, records: int, seconds: float) -> None:
        self._records, self._seconds = records, seconds
        self.count, self._began = 0, 0.0

    def begin(self) -> None:
        """Note that there are records."""
        self._began = self._began or time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the first record."""
        return time.monotonic() - self._began if self._began else 0.0

    @property
    def is_over(self) -> bool:
        """Whether all was read, or the time is over."""
        return self.count >= self._records or self.elapsed > self._seconds


def barnabas(bootstrap: str, topic: str, group: str, lap: Lap) -> float:
    """poll() in a loop; returns the seconds."""
    from barnabas import ShareConsumer

    with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        while not lap.is_over:
            for record in consumer.poll(5.0):
                lap.begin()
                _ = record.key, record.value, record.offset, record.delivery_count
                lap.count += 1
        return lap.elapsed


def barnabas_arrow(bootstrap: str, topic: str, group: str, lap: Lap) -> float:
    """poll_arrow() in a loop; returns the seconds."""
    from barnabas import ShareConsumer

    with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        while not lap.is_over:
            batch = consumer.poll_arrow(5.0)
            if batch is not None:
                lap.begin()
                lap.count += batch.num_rows
        return lap.elapsed


def confluent(bootstrap: str, topic: str, group: str, lap: Lap) -> float:
    """confluent-kafka's poll() in a loop; returns the seconds."""
    from confluent_kafka import ShareConsumer

    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    while not lap.is_over:
        for message in consumer.poll(5.0):
            assert message.error() is None
            lap.begin()
            _ = message.key(), message.value(), message.offset(), message.delivery_count()
            lap.count += 1
    seconds = lap.elapsed
    consumer.close()
    return seconds


CLIENTS = {client.__name__: client for client in (barnabas, barnabas_arrow, confluent)}


def java(bootstrap: str, topic: str, group: str, records: int) -> dict[str, Any]:
    """Run kafka-share-consumer-perf-test."""
    done = apache_kafka.run_tool(
        "org.apache.kafka.tools.ShareConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic,
        "--group", group, "--num-records", str(records), "--timeout", "60000", timeout=300,
    )  # fmt: skip
    row = next((line for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)), None)
    if row is None:
        raise SystemExit(f"kafka-share-consumer-perf-test failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    rates = [float(part) for part in row.split(",")[2:]]
    return {"rate": rates[2], "cpu": float("nan")}


def run(client: str, bootstrap: str, group: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run one client in a process of its own."""
    if client == "java":
        return java(bootstrap, TOPIC, group, min(args.records, args.java_records))
    how = [client, bootstrap, group, str(args.records), str(args.seconds)]
    command = [sys.executable, "-m", "benchmarks.race_share", "--client", *how]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Fill the topic, let the clients read it in turn, print medians and ratios."""
    if sys.argv[1:2] == ["--client"]:
        _, _, name, bootstrap, group, records, most_seconds = sys.argv
        before, lap = resource.getrusage(resource.RUSAGE_SELF), Lap(int(records), float(most_seconds))
        seconds = CLIENTS[name](bootstrap, TOPIC, group, lap)
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps({"rate": lap.count / seconds, "cpu": cpu / lap.count * 1e6}))
        return
    parser = argparse.ArgumentParser(prog="./run bench race_share", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--java-records", type=int, default=150_000, help="at most so many for Java's")
    parser.add_argument("--seconds", type=float, default=10, help="a client stops after this time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--brokers", default="kafka,barnabas", help="which, by comma")
    args = parser.parse_args()
    with ExitStack() as stack:
        servers = {}
        for name in args.brokers.split(","):
            if name == "kafka":
                servers[name] = stack.enter_context(apache_kafka.ApacheKafka()).bootstrap_servers
            else:
                servers[name] = stack.enter_context(Broker()).bootstrap_servers
        _race(servers, args)


def _race(servers: dict[str, str], args: argparse.Namespace) -> None:
    for bootstrap in servers.values():
        _fill(bootstrap, args.records, args.size)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(args.rounds):
        for client in (*CLIENTS, "java"):
            for broker, bootstrap in servers.items():
                group = f"{client}-{number}"
                earliest = {ConfigResource.group(group): {"share.auto.offset.reset": "earliest"}}
                with AdminClient(bootstrap_servers=bootstrap) as admin:
                    admin.incremental_alter_configs(earliest)
                one = run(client, bootstrap, group, args)
                print(f"round {number + 1}, {client} on {broker}: {one['rate']:,.0f} records/s", flush=True)
                found.setdefault((broker, client), []).append(one)
    print(f"{args.records} records of {args.size} bytes, {args.rounds} rounds")
    _tell(servers, found)


def _tell(servers: dict[str, str], found: dict[tuple[str, str], list[dict[str, Any]]]) -> None:
    rates: dict[tuple[str, str], float] = {}
    for broker in servers:
        print(f"on {broker}")
        medians = {
            client: [statistics.median(one[key] for one in found[broker, client]) for key in ("rate", "cpu")]
            for client in (*CLIENTS, "java")
        }
        own = medians["barnabas"][0]
        for client, (rate, cpu) in medians.items():
            rates[broker, client] = rate
            ratio = own / rate
            print(
                f"{client:15} {rate:12,.0f} records/s  {ratio:5.2f} times that is ours  {cpu:6.2f} us of CPU a record"
            )

    if len(servers) > 1:
        print("barnabas beside Apache Kafka, with each client")
        for client in (*CLIENTS, "java"):
            print(
                f"{client:15} {rates['barnabas', client] / rates['kafka', client]:5.2f} times Apache Kafka's records/s"
            )


def _fill(bootstrap: str, records: int, size: int) -> None:
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS)])
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(records):
            producer.send(TOPIC, bytes(size), partition=number % PARTITIONS)


if __name__ == "__main__":
    main()
