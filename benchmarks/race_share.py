"""Share consumers: records/s and client CPU per record, ours, confluent-kafka's and Java's in turn, on both brokers.

`./run bench race_share [--records N] [--rounds N] [--size BYTES] [--brokers kafka,barnabas]`
The brokers are processes of their own, and stay there while the other one is asked. Every run is a fresh client process
with a share group of its own that reads a topic of 6 partitions from the beginning, with implicit acknowledgement and
the defaults of each client; the loop reads key, value, offset and delivery count of every record. Time runs from the
first record to the last, but for Java's, which is kafka-share-consumer-perf-test and counts its start. Medians of the
rounds, and ratios.
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

PARTITIONS = 6


def barnabas(bootstrap: str, topic: str, group: str, records: int) -> float:
    """poll() in a loop; returns the seconds."""
    from barnabas import ShareConsumer

    count, began = 0, 0.0
    with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        while count < records:
            for record in consumer.poll(5.0):
                began = began or time.monotonic()
                _ = record.key, record.value, record.offset, record.delivery_count
                count += 1
        return time.monotonic() - began


def barnabas_arrow(bootstrap: str, topic: str, group: str, records: int) -> float:
    """poll_arrow() in a loop; returns the seconds."""
    from barnabas import ShareConsumer

    count, began = 0, 0.0
    with ShareConsumer(topic, group_id=group, bootstrap_servers=bootstrap) as consumer:
        while count < records:
            batch = consumer.poll_arrow(5.0)
            if batch is not None:
                began = began or time.monotonic()
                count += batch.num_rows
        return time.monotonic() - began


def confluent(bootstrap: str, topic: str, group: str, records: int) -> float:
    """confluent-kafka's poll() in a loop; returns the seconds."""
    from confluent_kafka import ShareConsumer

    count, began = 0, 0.0
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.subscribe([topic])
    while count < records:
        for message in consumer.poll(5.0):
            assert message.error() is None
            began = began or time.monotonic()
            _ = message.key(), message.value(), message.offset(), message.delivery_count()
            count += 1
    seconds = time.monotonic() - began
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


def run(client: str, bootstrap: str, topic: str, group: str, records: int) -> dict[str, Any]:
    """Run one client in a process of its own."""
    if client == "java":
        return java(bootstrap, topic, group, records)
    command = [sys.executable, "-m", "benchmarks.race_share", "--client", client, bootstrap, topic, group, str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Fill the topic, let the clients read it in turn, print medians and ratios."""
    if sys.argv[1:2] == ["--client"]:
        _, _, name, bootstrap, topic, group, records = sys.argv
        before = resource.getrusage(resource.RUSAGE_SELF)
        seconds = CLIENTS[name](bootstrap, topic, group, int(records))
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps({"rate": int(records) / seconds, "cpu": cpu / int(records) * 1e6}))
        return
    parser = argparse.ArgumentParser(prog="./run bench race_share", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
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
        _race(servers, args.records, args.rounds, args.size)


def _race(servers: dict[str, str], records: int, rounds: int, size: int) -> None:
    for bootstrap in servers.values():
        _fill(bootstrap, records, size)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for number in range(rounds):
        for client in (*CLIENTS, "java"):
            for broker, bootstrap in servers.items():
                group = f"{client}-{number}"
                earliest = {ConfigResource.group(group): {"share.auto.offset.reset": "earliest"}}
                with AdminClient(bootstrap_servers=bootstrap) as admin:
                    admin.incremental_alter_configs(earliest)
                found.setdefault((broker, client), []).append(run(client, bootstrap, "share", group, records))
    print(f"{records} records of {size} bytes, {rounds} rounds")
    for broker in servers:
        print(f"on {broker}")
        medians = {
            client: [statistics.median(one[key] for one in found[broker, client]) for key in ("rate", "cpu")]
            for client in (*CLIENTS, "java")
        }
        own = medians["barnabas"][0]
        for client, (rate, cpu) in medians.items():
            ratio = own / rate
            print(
                f"{client:15} {rate:12,.0f} records/s  {ratio:5.2f} times that is ours  {cpu:6.2f} us of CPU a record"
            )


def _fill(bootstrap: str, records: int, size: int) -> None:
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("share", num_partitions=PARTITIONS)])
    with Producer(bootstrap_servers=bootstrap, linger_ms=20) as producer:
        for number in range(records):
            producer.send("share", bytes(size), partition=number % PARTITIONS)


if __name__ == "__main__":
    main()
