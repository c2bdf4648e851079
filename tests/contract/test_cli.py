"""The command line as people use it: the real command in a process of its own, against running brokers.

A command that is only waited for is forked by a process that has imported it (`ForkedCommands`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest

from tests.support.forked_commands import ForkedCommands
from tests.support.patience import PATIENCE

TIMEOUT = PATIENCE


class CommandLine:
    """Runs `barnabas` with the broker in its environment, as a shell does, or forked where there is what forks."""

    def __init__(self, bootstrap_servers: str, commands: ForkedCommands | None = None) -> None:
        self._commands = commands
        self._environment = {**os.environ, "BARNABAS_BOOTSTRAP_SERVERS": bootstrap_servers}
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "barnabas.cli.main", *arguments]
        process = subprocess.Popen(
            command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def _ended(self, arguments: tuple[str, ...], stdin: str) -> subprocess.CompletedProcess[str]:
        if self._commands is not None:
            return self._commands.run(arguments, self._environment, stdin, TIMEOUT)
        process = self.start(*arguments)
        out, err = process.communicate(stdin, TIMEOUT)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def run(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What it prints; it must end with `code`, and say something on stderr if that is not 0."""
        done = self._ended(arguments, stdin)
        assert done.returncode == code, done.stderr
        return done.stdout

    def fails(self, *arguments: str, stdin: str = "", code: int = 1) -> str:
        """What it complains about."""
        done = self._ended(arguments, stdin)
        assert done.returncode == code, done.stderr
        return done.stderr

    def json(self, *arguments: str, stdin: str = "") -> Any:
        return json.loads(self.run(*arguments, "-o", "json", stdin=stdin))

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with closing(ForkedCommands()) as commands:
        yield commands


@pytest.fixture
def barnabas(commands: ForkedCommands, bootstrap_servers: str) -> Iterator[CommandLine]:
    command_line = CommandLine(bootstrap_servers, commands)
    yield command_line
    command_line.close()


def end(process: subprocess.Popen[str], number: int) -> tuple[str, str, int]:
    process.send_signal(number)
    out, err = process.communicate(timeout=TIMEOUT)
    return out, err, process.returncode


def values(lines: str) -> list[tuple[str | None, str | None]]:
    return [(record["key"], record["value"]) for record in map(json.loads, lines.splitlines())]


def test_a_topic_from_its_creation_to_its_end(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("topic")

    barnabas.run("topic", "create", topic, "-p", "2", "--set", "retention.ms=86400000")
    again = barnabas.fails("topic", "create", topic)
    barnabas.run("topic", "create", topic, "--if-not-exists")
    barnabas.run("topic", "alter", topic, "--partitions", "3")
    listed = barnabas.run("topic", "list", f"{topic}*")
    (described,) = barnabas.json("topic", "describe", topic)
    barnabas.run("topic", "delete", topic)

    assert "choose another name" in again
    assert again.count("\n") == 1
    assert listed.split() == ["TOPIC", "PARTITIONS", "REPLICAS", topic, "3", "1"]
    assert described["settings"] == {"retention.ms": "86400000"}
    assert [(p["partition"], p["beginningOffset"], p["endOffset"]) for p in described["partitions"]] == [
        *((0, 0, 0), (1, 0, 0), (2, 0, 0)),
    ]
    assert f"{topic}: " in barnabas.fails("topic", "describe", topic)
    assert "`barnabas topic list`" in barnabas.fails("topic", "delete", topic)


def test_lines_become_records_and_records_lines(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("lines")
    barnabas.run("topic", "create", topic, "-p", "1")

    barnabas.run("produce", topic, "-k", r"\t", "-H", "gate=C71", "-T", stdin="EWR\tone\nJFK\t\n\ttwo\n", code=0)
    shown = barnabas.run("consume", topic, "-e", "-f", r"%p@%o %k=%s (%S) [%h]\n")
    last = barnabas.run("consume", topic, "-e", "--from", "-1", "-o", "raw")
    middle = barnabas.run("consume", topic, "--from", "1", "--to", "2", "-o", "json")
    first = barnabas.run("consume", topic, "-n", "1", "-o", "raw")

    assert shown.splitlines() == ["0@0 EWR=one (3) [gate=C71]", "0@1 JFK= (-1) [gate=C71]", "0@2 =two (3) [gate=C71]"]
    assert (last, values(middle), first) == ("two\n", [("JFK", None)], "one\n")


def test_a_topic_is_copied_through_json_without_loss(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    one, other = new_name("one"), new_name("other")
    for topic in (one, other):
        barnabas.run("topic", "create", topic, "-p", "2")
    lines = [
        '{"key": "a", "value": "/w==", "valueEncoding": "base64", "partition": 1, "timestamp": 1370088000000}',
        '{"key": null, "value": {"to": "Z\\u00fcrich"}, "headers": {"h": "1"}}',
        '{"key": "b", "value": null}',
    ]
    barnabas.run("produce", one, "-f", "json", stdin="\n".join(lines))
    original = barnabas.run("consume", one, "-e", "-o", "json")

    report = barnabas.json("produce", other, "-f", "json", stdin=original)
    copied = barnabas.run("consume", other, "-e", "-o", "json")

    assert report["delivered"] == 3

    def by_place(text: str) -> dict[tuple[int, int], Mapping[str, Any]]:
        records = map(json.loads, text.splitlines())
        return {(record["partition"], record["offset"]): {**record, "topic": ""} for record in records}

    assert by_place(copied) == by_place(original)
    assert len(by_place(copied)) == 3


def test_a_range_by_time_has_the_records_of_that_time(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("times")
    barnabas.run("topic", "create", topic, "-p", "1")
    lines = [f'{{"value": "{hour}", "timestamp": "2013-06-01T{hour:02}:00"}}' for hour in range(24)]
    barnabas.run("produce", topic, "-f", "json", stdin="\n".join(lines))

    range_text = ("--from", "2013-06-01T07:30", "--to", "2013-06-01T10:00Z")
    morning = barnabas.run("consume", topic, *range_text, "-o", "raw")
    (offsets,) = barnabas.json("topic", "offsets", topic, "--at", "2013-06-01T22:00")
    (trimmed,) = barnabas.json("topic", "trim", topic, "--before", "2013-06-01T22:00")
    rest = barnabas.run("consume", topic, "-e", "-o", "raw")

    assert morning.split() == ["8", "9"]
    assert (offsets["endOffset"], offsets["offsetAt"]) == (24, 22)
    assert (trimmed["beginningOffset"], rest.split()) == (22, ["22", "23"])


def test_lines_that_cannot_be_sent_are_named_and_the_others_are_sent(
    barnabas: CommandLine, new_name: Callable[[str], str]
) -> None:
    topic = new_name("bad")
    barnabas.run("topic", "create", topic, "-p", "1")
    too_large = json.dumps({"value": "x" * 2_000_000})
    lines = ['{"value": "1"}', "{", '{"value": "3", "partition": 7}', too_large, '{"value": "5"}']

    complaint = barnabas.fails("produce", topic, "-f", "json", stdin="\n".join(lines))

    assert "line 2: it is not JSON" in complaint
    assert "line 3: topic" in complaint
    assert "line 4: " in complaint
    assert "2 of 5 records sent" in complaint
    assert barnabas.run("consume", topic, "-e", "-o", "raw").split() == ["1", "5"]


def test_consume_says_that_it_waits_prints_what_comes_and_ends_on_ctrl_c(
    barnabas: CommandLine, new_name: Callable[[str], str]
) -> None:
    topic = new_name("empty")
    barnabas.run("topic", "create", topic, "-p", "1")
    process = barnabas.start("consume", topic, "-o", "raw")
    assert process.stderr is not None
    assert process.stdout is not None

    said = process.stderr.readline()
    barnabas.run("produce", topic, stdin="hello")
    came = process.stdout.readline()
    _, rest, code = end(process, signal.SIGINT)

    assert said == f"barnabas: {topic} is empty; waiting for records (Ctrl-C ends)\n"
    assert (came, code) == ("hello\n", 130)
    assert "Traceback" not in rest
    assert barnabas.fails("consume", topic + "-not", "-e").startswith(
        f"barnabas consume: there is no topic '{topic}-not'"
    )


def test_a_closed_pipe_ends_consume_quietly(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("pipe")
    barnabas.run("topic", "create", topic, "-p", "1")
    barnabas.run("produce", topic, stdin="\n".join(map(str, range(100))))
    process = barnabas.start("consume", topic, "-o", "raw")
    assert process.stdout is not None

    first = process.stdout.readline()
    process.stdout.close()

    assert process.wait(TIMEOUT) == 141
    assert first == "0\n"
    assert process.stderr is not None
    assert "Error" not in process.stderr.read()


def test_a_group_goes_on_where_it_stopped_and_its_offsets_can_be_moved(
    barnabas: CommandLine, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("shared"), new_name("group")
    barnabas.run("topic", "create", topic, "-p", "1")
    barnabas.run("produce", topic, stdin="a\nb\nc\nd\ne")

    first = barnabas.run("consume", topic, "-g", group, "-n", "2", "-o", "raw")
    (described,) = barnabas.json("group", "describe", group)
    planned = barnabas.json("group", "offsets", "reset", group, "--topic", topic, "--to-earliest")
    rest = barnabas.run("consume", topic, "-g", group, "-e", "-o", "raw")
    barnabas.run("group", "offsets", "reset", group, "--all-topics", "--shift-by", "-1", "--execute")
    last = barnabas.run("consume", topic, "-g", group, "-e", "-o", "raw")
    barnabas.run("group", "delete", group)

    assert (first.split(), rest.split(), last.split()) == (["a", "b"], ["c", "d", "e"], ["e"])
    assert (described["state"], described["lag"]) == ("Empty", 3)
    assert [(p["committedOffset"], p["endOffset"], p["lag"]) for p in described["partitions"]] == [(2, 5, 3)]
    assert [(p["committedOffset"], p["newOffset"]) for p in planned] == [(2, 0)]
    assert group not in barnabas.run("group", "list")


def test_a_group_with_members_is_shown_and_its_offsets_stay(
    barnabas: CommandLine, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("busy"), new_name("members")
    barnabas.run("topic", "create", topic, "-p", "2")
    barnabas.run("produce", topic, "-p", "1", stdin="a\nb")
    process = barnabas.start("consume", topic, "-g", group, "-o", "raw")
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    deadline = time.monotonic() + TIMEOUT
    while (described := barnabas.json("group", "describe", group)[0])["lag"] or not described["partitions"]:
        assert time.monotonic() < deadline, described

    refused = barnabas.fails("group", "offsets", "reset", group, "--all-topics", "--to-earliest", "--execute")
    _, errors, code = end(process, signal.SIGTERM)
    (after,) = barnabas.json("group", "describe", group)

    assert described["state"] == "Stable"
    assert described["members"][0]["assignment"] == [f"{topic}-0", f"{topic}-1"]
    assert "end its consumers first" in refused
    assert (code, "Traceback" in errors) == (143, False)
    assert (after["state"], after["members"], after["lag"]) == ("Empty", [], 0)


def test_an_interrupted_produce_says_how_far_it_came(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("typed")
    barnabas.run("topic", "create", topic, "-p", "1")
    process = barnabas.start("produce", topic)
    assert process.stdin is not None
    process.stdin.write("one\ntwo\nunfinished")
    process.stdin.flush()
    assert barnabas.run("consume", topic, "-n", "2", "-o", "raw").split() == ["one", "two"]

    _, errors, code = end(process, signal.SIGINT)

    assert (code, errors) == (130, "barnabas: stopped after line 2\n")
    assert barnabas.run("consume", topic, "-e", "-o", "raw").split() == ["one", "two"]


def test_settings_are_shown_with_their_sources(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("settings")
    barnabas.run("topic", "create", topic, "--set", "max.message.bytes=2000000")

    changed = barnabas.json("config", "get", "topic", topic, "max.message.bytes")
    shown = barnabas.run("topic", "config", topic, "--all")
    (node,) = barnabas.json("cluster")["brokers"]
    broker = barnabas.json("config", "get", "broker", str(node["id"]), "log.retention.hours")

    assert [(entry["value"], entry["source"]) for entry in changed] == [("2000000", "DYNAMIC_TOPIC_CONFIG")]
    assert "min.insync.replicas" in shown
    assert broker[0]["value"] == "168"
    assert "did you mean 'retention.ms'?" in barnabas.fails("config", "get", "topic", topic, "retention.m", code=2)


def test_a_setting_is_changed_and_unset(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic = new_name("changed")
    barnabas.run("topic", "create", topic)

    barnabas.run("config", "set", "topic", topic, "retention.ms=60000", "max.message.bytes=2000")
    barnabas.run("config", "unset", "topic", topic, "max.message.bytes")

    (described,) = barnabas.json("topic", "describe", topic)
    assert described["settings"] == {"retention.ms": "60000"}
    refused = barnabas.fails("topic", "config", topic, "--set", "retention.ms=soon")
    assert "soon" in refused


def test_metrics_of_clients_are_subscribed_to(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    subscription = new_name("subscription")

    barnabas.run("config", "set", "client-metrics", subscription, "metrics=a.,b.", "interval.ms=60000")

    shown = barnabas.json("config", "get", "client-metrics", subscription)
    assert {row["name"]: row["value"] for row in shown} == {"metrics": "a.,b.", "interval.ms": "60000"}
    barnabas.run("config", "unset", "client-metrics", subscription, "metrics", "interval.ms")
    refused = barnabas.fails("config", "set", "client-metrics", subscription, "interval.ms=1")
    assert "between 100 and 3600000" in refused


def test_the_broker_may_be_named_by_option_setting_and_file(
    commands: ForkedCommands, bootstrap_servers: str, tmp_path: Any, new_name: Callable[[str], str]
) -> None:
    wrong = CommandLine("127.0.0.1:1", commands)
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={bootstrap_servers}\nacks=all\nmax.poll.records=7\n")
    try:
        refused = wrong.fails("cluster")
        for option in (
            ["-b", bootstrap_servers],
            ["-X", f"bootstrap.servers={bootstrap_servers}"],
            ["--config", str(file)],
        ):
            assert wrong.json("cluster", *option)["brokers"]
        assert "'linger.sm' is not a setting" in wrong.fails("cluster", "-X", "linger.sm=1", code=2)
    finally:
        wrong.close()
    assert "127.0.0.1:1 (Connection refused)" in refused


def test_what_the_command_line_says_holds_against_the_file(
    barnabas: CommandLine, tmp_path: Any, new_name: Callable[[str], str]
) -> None:
    topic, group = new_name("file"), new_name("chosen")
    file = tmp_path / "client.properties"
    file.write_text("enable.auto.commit=true\ngroup.id=another\n")
    barnabas.run("topic", "create", topic, "-p", "1")

    barnabas.run("produce", topic, "--config", str(file), "-H", "a= b =c", stdin="one\ntwo")
    shown = barnabas.run("consume", topic, "--config", str(file), "-g", group, "-n", "1", "-f", "%s [%h]")

    (described,) = barnabas.json("group", "describe", group)
    assert shown == "one [a= b =c]"
    assert described["lag"] == 1


def test_topics_and_groups_that_are_there_complete(barnabas: CommandLine, new_name: Callable[[str], str]) -> None:
    topic, group = new_name("tab"), new_name("tabbed")
    barnabas.run("topic", "create", topic)
    barnabas.run("consume", topic, "-g", group, "-e")

    assert barnabas.run("completion", "--words", "--", "topic", "describe", topic[:-1]).split() == [topic]
    assert group in barnabas.run("completion", "--words", "--", "group", "describe", "").split()
