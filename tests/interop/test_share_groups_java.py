"""Java's share consumer and its tools against our broker (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from barnabas import Broker
from tests.interop.test_kafkas_own_tools import NewName, Run, run, table
from tests.peers.java_tools import JavaTools

# The first test of a fresh machine fetches Apache Kafka.
pytestmark = pytest.mark.timeout(300)
__all__ = ["run"]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose share groups heartbeat often."""
    # Members take up their partitions with a heartbeat.
    quick = {"group.share.heartbeat.interval.ms": 100, "group.share.min.heartbeat.interval.ms": 100}
    with Broker(config=quick) as running:
        yield running
        assert "please report this" not in running.log_text()


def share_groups(run: Run, *arguments: str) -> str:
    return run("consumer.group.ShareGroupCommand", *arguments)


def consume(run: Run, topic: str, group: str, count: int, *options: str) -> list[str]:
    limits = ("--max-messages", str(count), "--timeout-ms", "20000")
    return run("consumer.ConsoleShareConsumer", "--topic", topic, "--group", group, *limits, *options).split()[:count]


def test_javas_share_consumer_and_its_tools(run: Run, java: JavaTools, broker: Broker, new_name: NewName) -> None:
    topic, group = new_name("shared"), new_name("group")
    run("TopicCommand", "--create", "--topic", topic, "--partitions", "1")
    earliest = ("--alter", "--entity-type", "groups", "--entity-name", group)
    run("kafka.admin.ConfigCommand", *earliest, "--add-config", "share.auto.offset.reset=earliest")
    run("ConsoleProducer", "--topic", topic, stdin="a\nb\nc\n")
    assert consume(run, topic, group, 3) == ["a", "b", "c"]
    assert group in share_groups(run, "--list").split()
    assert [row["LAG"] for row in table(share_groups(run, "--describe", "--group", group), "GROUP")] == ["0"]
    moved = share_groups(run, "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
    assert [row["NEW-OFFSET"] for row in table(moved, "GROUP")] == ["0"]
    assert consume(run, topic, group, 3, "--release")[:3] == ["a", "b", "c"]
    assert consume(run, topic, group, 3, "--reject") == ["a", "b", "c"]
    assert [row["LAG"] for row in table(share_groups(run, "--describe", "--group", group), "GROUP")] == ["0"]
    share_groups(run, "--delete-offsets", "--group", group, "--topic", topic)
    share_groups(run, "--delete", "--group", group)
    assert group not in share_groups(run, "--list").split()
