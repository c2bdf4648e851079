"""Apache Kafka's own producer with transactions, and its tool for transactions, against our broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from barnabas import Broker
from tests.peers import apache_kafka

pytestmark = pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not()))

RECORDS = 20_000


def run(tool: str, *arguments: str) -> str:
    """What a tool prints when it succeeds."""
    done = apache_kafka.run_tool(f"org.apache.kafka.tools.{tool}", *arguments)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(240)
def test_the_java_producer_commits_and_the_tool_shows_it(broker: Broker, new_name: Callable[[str], str]) -> None:
    topic, transactional_id = new_name("java-txn"), new_name("java-id")
    server = ("--bootstrap-server", broker.bootstrap_servers)
    produced = run(
        "ProducerPerformance",
        "--topic", topic, "--num-records", str(RECORDS), "--record-size", "100", "--throughput", "10000",
        "--transaction-duration-ms", "100", "--transactional-id", transactional_id,
        "--command-property", f"bootstrap.servers={broker.bootstrap_servers}",
    )  # fmt: skip
    assert f"{RECORDS} records sent" in produced

    described = run("TransactionsCommand", *server, "describe", "--transactional-id", transactional_id)
    row = described.splitlines()[1].split()
    assert (row[1], row[4]) == (transactional_id, "CompleteCommit")
    # The second protocol: each of the transactions had an epoch of its own.
    assert int(row[3]) >= 5
    listed = run("TransactionsCommand", *server, "list")
    assert transactional_id in listed
    producers = run("TransactionsCommand", *server, "describe-producers", "--topic", topic, "--partition", "0")
    assert producers.splitlines()[1].split()[-1] == "None"

    reader = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": new_name("group"),
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    reader.subscribe([topic])
    count = 0
    for _ in range(100):
        count += sum(message.error() is None for message in reader.consume(5000, 0.2))
        if count >= RECORDS:
            break
    reader.close()
    assert count == RECORDS
