"""Other people's share consumers and tools on our broker, as they are on Apache Kafka's (KIP-932).

franz-go's are the tests of its own repository, which `go test` builds from the module.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.admin import ConfigResource
from tests.peers import apache_kafka, foreign_programs
from tests.peers.java_tools import JavaTools

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

QUICK = {"group.share.heartbeat.interval.ms": 500, "group.share.min.heartbeat.interval.ms": 100}
COUNT = 3000


@pytest.fixture(scope="module", params=["barnabas", "apache-kafka"])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    """Ours; and Apache Kafka's, so that what is asked of ours is what its users have."""
    if request.param == "barnabas":
        with Broker(config=QUICK) as running:
            yield running.bootstrap_servers
            assert "please report this" not in running.log_text()
        return
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    with apache_kafka.ApacheKafka({name: str(value) for name, value in QUICK.items()}) as kafka:
        yield kafka.bootstrap_servers


@pytest.fixture(scope="module")
def java() -> Iterator[JavaTools]:
    with JavaTools() as running:
        yield running


def fill(servers: str, topic: str, group: str, count: int = COUNT, partitions: int = 3) -> None:
    """Records 0, 1, ... in a topic that the group reads from the start."""
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=partitions)])
        admin.incremental_alter_configs({ConfigResource.group(group): {"share.auto.offset.reset": "earliest"}})
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def lag(servers: str, group: str) -> int:
    """How many records of the group's are not done with, once that is told."""
    with AdminClient(bootstrap_servers=servers) as admin:
        found = admin.list_share_group_offsets({group: None})[group]
    return sum(one.lag or 0 for one in found.values())


def test_confluent_kafka_accepts_releases_and_rejects(servers: str) -> None:
    from confluent_kafka import AcknowledgeType, ShareConsumer

    fill(servers, "confluent", "confluent-group")
    settings = {"bootstrap.servers": servers, "group.id": "confluent-group"}
    consumer = ShareConsumer({**settings, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe(["confluent"])
    seen: Counter[int] = Counter()
    done: set[int] = set()
    deadline = time.monotonic() + 90
    while len(done) < COUNT and time.monotonic() < deadline:
        for message in consumer.poll(1.0):
            assert message.error() is None
            number = int(message.value() or b"")
            seen[number] += 1
            assert message.delivery_count() == seen[number]
            if number % 10 == 0 and seen[number] == 1:
                consumer.acknowledge(message, AcknowledgeType.RELEASE)
            else:
                consumer.acknowledge(message, AcknowledgeType.REJECT if number % 10 == 1 else AcknowledgeType.ACCEPT)
                done.add(number)
    consumer.commit_sync(10)
    consumer.close()
    assert seen == Counter({number: 2 if number % 10 == 0 else 1 for number in range(COUNT)})
    assert lag(servers, "confluent-group") == 0


def test_kafka_share_consumer_perf_test(servers: str, java: JavaTools) -> None:
    fill(servers, "perf", "perf-group")
    found = java.run(
        "org.apache.kafka.tools.ShareConsumerPerformance", "--bootstrap-server", servers, "--topic", "perf",
        "--group", "perf-group", "--num-records", str(COUNT), "--timeout", "60000",
    )  # fmt: skip
    row = next(line for line in found.out.splitlines() if line.startswith("20"))
    assert int(float(row.split(",")[5])) == COUNT, found.out + found.err


@pytest.mark.parametrize("mode", ["auto", "sync", "async"])
def test_verifiable_share_consumer(servers: str, java: JavaTools, mode: str) -> None:
    topic, group = f"verifiable-{mode}", f"verifiable-{mode}-group"
    fill(servers, topic, group)
    found = java.run(
        "org.apache.kafka.tools.VerifiableShareConsumer", "--bootstrap-server", servers, "--topic", topic,
        "--group-id", group, "--max-messages", str(COUNT), "--acknowledgement-mode", mode, "--verbose",
        "--offset-reset-strategy", "earliest",
    )  # fmt: skip
    events = [json.loads(line) for line in found.out.splitlines() if line.startswith("{")]
    consumed = sum(event["count"] for event in events if event["name"] == "records_consumed")
    assert consumed == COUNT, found.out[-2000:] + found.err[-2000:]
    values = Counter(int(event["value"]) for event in events if event["name"] == "record_data")
    assert values == Counter(range(COUNT))
    answers = [event for event in events if event["name"] == "offsets_acknowledged"]
    assert answers, "the consumer says what became of what it acknowledged"
    assert all(event["success"] for event in answers)
    assert lag(servers, group) == 0


@pytest.fixture(scope="module")
def kgo() -> Path:
    """The tests of franz-go's package kgo."""
    return foreign_programs.go_tests("github.com/twmb/franz-go", "./pkg/kgo")


@pytest.mark.parametrize(
    "test", ["TestShareGroup", "TestShareGroupAckOnClose", "TestShareGroupOffsetsAdmin", "TestShareGroupETL"]
)
def test_franz_gos_own_tests(servers: str, kgo: Path, test: str) -> None:
    done = subprocess.run(
        [str(kgo), "-test.run", f"^{test}$", "-test.v", "-test.timeout", "300s"],
        env={**os.environ, "KGO_SEEDS": servers, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": "20000"},
        capture_output=True, text=True, timeout=320, check=False, cwd=kgo.parent,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert "--- PASS" in done.stdout
