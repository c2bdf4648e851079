"""Apache Kafka's own command-line tools, with its Java clients, against our broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas import Broker
from tools import apache_kafka

pytestmark = pytest.mark.skipif(apache_kafka.why_not() is not None, reason=str(apache_kafka.why_not()))


def run(broker: Broker, tool: str, *arguments: str) -> str:
    """What a tool prints when it succeeds."""
    done = apache_kafka.run_tool(
        f"org.apache.kafka.tools.{tool}", "--bootstrap-server", broker.bootstrap_servers, *arguments
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(240)
def test_topics_records_and_groups(broker: Broker, new_name: Callable[[str], str]) -> None:
    topic, group = new_name("java"), new_name("group")
    created = run(
        broker, "TopicCommand", "--create", "--topic", topic, "--partitions", "4", "--config", "retention.ms=3600000"
    )
    assert f"Created topic {topic}." in created
    described = run(broker, "TopicCommand", "--describe", "--topic", topic)
    assert "PartitionCount: 4" in described
    assert "retention.ms=3600000" in described
    produced = run(
        broker, "ProducerPerformance",
        "--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
    )  # fmt: skip
    assert "20000 records sent" in produced
    consumed = run(
        broker,
        "ConsumerPerformance",
        "--topic",
        topic,
        "--num-records",
        "20000",
        "--group",
        group,
        "--timeout",
        "20000",
    )
    assert int(consumed.strip().splitlines()[-1].split(",")[4]) >= 20000
    offsets = run(broker, "GetOffsetShell", "--topic", topic)
    assert sum(int(line.rpartition(":")[2]) for line in offsets.split()) == 20000
    groups = run(broker, "consumer.group.ConsumerGroupCommand", "--describe", "--group", group)
    lags = [line.split() for line in groups.splitlines() if line.startswith(group)]
    assert sum(int(line[3]) for line in lags) == 20000
    assert {line[5] for line in lags} == {"0"}
    run(broker, "TopicCommand", "--delete", "--topic", topic)
    assert topic not in run(broker, "TopicCommand", "--list").split()
