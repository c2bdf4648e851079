"""The command line with share groups: what is printed is accepted, and `group` knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.contract.queue import Queue
from tests.contract.test_cli import CommandLine
from tests.contract.waiting import create_topic


@pytest.fixture
def command(bootstrap_servers: str) -> Iterator[CommandLine]:
    made = CommandLine(bootstrap_servers)
    yield made
    made.close()


def test_a_queue_is_printed_described_moved_and_forgotten(
    bootstrap_servers: str, command: CommandLine, new_name: Callable[[str], str]
) -> None:
    topic, group = create_topic(bootstrap_servers, new_name("queue"), 1), new_name("share")
    queue = Queue(bootstrap_servers, topic, group)
    queue.send(b"a", b"b", b"c")

    assert command.run("consume", topic, "--share", group, "-n", "2", "-f", "%s\\n") == "a\nb\n"
    assert command.run("consume", topic, "--share", group, "-e", "-f", "%s\\n") == "c\n"
    (described,) = command.json("group", "describe", group)
    assert (described["type"], described["state"], described["members"]) == ("share", "Empty", [])
    assert [row["topic"] for row in described["partitions"]] == [topic]
    assert group in command.run("group", "describe", group)

    (moved,) = command.json("group", "offsets", "reset", group, "--all-topics", "--to-offset", "1", "--execute")
    assert moved["newOffset"] == 1
    assert queue.rest() == [b"b", b"c"]
    assert "whole topics" in command.fails("group", "offsets", "delete", group, "--topic", f"{topic}:0", code=2)
    assert command.json("group", "offsets", "delete", group, "--topic", topic) == [{"topic": topic, "deleted": True}]
    assert command.json("group", "delete", group) == [{"group": group, "deleted": True}]


def test_what_does_not_go_with_a_queue_is_refused(command: CommandLine, new_name: Callable[[str], str]) -> None:
    assert "share.auto.offset.reset" in command.fails("consume", "t", "--share", "g", "--from", "end", code=2)
    assert "no-such-topic" in command.fails("consume", "no-such-topic", "--share", new_name("share"))
