"""Our verifiable producer and consumer print what Kafka's own do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import Broker
from tests.peers import apache_kafka

Event = dict[str, Any]
Run = Callable[..., list[Event]]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


def command(kind: str, *arguments: str, java: bool = False) -> list[str]:
    if java:
        name = f"org.apache.kafka.tools.Verifiable{kind.capitalize()}"
        return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", apache_kafka.classpath(), name, *arguments]
    return [sys.executable, "-m", f"barnabas.testing.verifiable_{kind}", *arguments]


def events(output: str) -> list[Event]:
    return [json.loads(line) for line in output.splitlines()]


def run(kind: str, *arguments: str, java: bool = False) -> list[Event]:
    """What one of the clients printed, which must succeed."""
    done = subprocess.run(command(kind, *arguments, java=java), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return events(done.stdout)


def form(events: list[Event]) -> set[tuple[str, ...]]:
    """Which events there were, with the names of their fields."""
    return {(event["name"], *sorted(event)) for event in events}


def by_name(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event["name"] == name]


def test_a_producer_says_what_became_of_every_message(servers: str) -> None:
    printed = run("producer", "--topic", "a", "--bootstrap-server", servers, "--max-messages", "100",
                  "--value-prefix", "7", "--repeating-keys", "3", "--acks", "-1")  # fmt: skip
    sent = by_name(printed, "producer_send_success")
    assert [event["value"] for event in sorted(sent, key=lambda event: event["offset"])] == [
        f"7.{n}" for n in range(100)
    ]
    assert {event["key"] for event in sent} == {"0", "1", "2"}
    assert [event["name"] for event in printed[-2:]] == ["shutdown_complete", "tool_data"]
    assert (printed[-1]["sent"], printed[-1]["acked"]) == (100, 100)

    read = run("consumer", "--topic", "a", "--group-id", "a", "--bootstrap-server", servers, "--max-messages", "60",
               "--verbose")  # fmt: skip
    assert [event["value"] for event in by_name(read, "record_data")] == [f"7.{n}" for n in range(60)]
    assert by_name(read, "offsets_committed")[-1]["offsets"] == [{"topic": "a", "partition": 0, "offset": 60}]
    rest = run("consumer", "--topic", "a", "--group-id", "a", "--bootstrap-server", servers, "--max-messages", "40")
    assert by_name(rest, "records_consumed")[0]["partitions"][0]["minOffset"] == 60
    assert rest[-1]["name"] == "shutdown_complete"


def test_messages_that_fail_are_named(servers: str, tmp_path: Path) -> None:
    settings = tmp_path / "producer.properties"
    settings.write_text("max.request.size=60\n", encoding="utf-8")
    printed = run("producer", "--topic", "b", "--bootstrap-server", servers, "--max-messages", "2",
                  "--producer.config", str(settings))  # fmt: skip
    failed = by_name(printed, "producer_send_error")
    assert [event["value"] for event in failed] == ["0", "1"]
    assert "RecordTooLarge" in failed[0]["exception"]
    assert (printed[-1]["sent"], printed[-1]["acked"]) == (2, 0)


def test_the_throughput_is_about_what_was_asked_for(servers: str) -> None:
    printed = run("producer", "--topic", "c", "--bootstrap-server", servers, "--max-messages", "40",
                  "--throughput", "80")  # fmt: skip
    assert printed[-1]["target_throughput"] == 80
    assert printed[-1]["avg_throughput"] < 100


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_a_signal_ends_them_well(servers: str, kind: str) -> None:
    options = ["--topic", "d", "--bootstrap-server", servers]
    options += ["--throughput", "100"] if kind == "producer" else ["--group-id", "d"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command(kind, *options), stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        printed = events(first + process.stdout.read())
    assert process.returncode == 0
    names = [event["name"] for event in printed]
    assert names[0] == "startup_complete"
    assert "shutdown_complete" in names[-2:]
    if kind == "consumer":
        assert "shutdown_requested" in names[-3:-1]  # partitions may be given up in between
    else:
        assert printed[-1]["sent"] == printed[-1]["acked"] == len(by_name(printed, "producer_send_success"))


def test_the_events_are_those_of_kafkas_own_clients(servers: str, tmp_path: Path) -> None:
    missing = apache_kafka.why_not()
    if missing:
        pytest.skip(missing)
    produce = ["--bootstrap-server", servers, "--max-messages", "10", "--repeating-keys", "2"]
    consume = ["--bootstrap-server", servers, "--max-messages", "10", "--verbose"]
    ours = run("producer", "--topic", "ours", *produce)
    theirs = run("producer", "--topic", "theirs", *produce, java=True)
    assert form(ours) == form(theirs)
    # Each reads what the other has written.
    our_events = run("consumer", "--topic", "theirs", "--group-id", "g1", *consume)
    their_events = run("consumer", "--topic", "ours", "--group-id", "g2", *consume, java=True)
    # Kafka's own says at its end, after shutdown_complete, that this was requested, whether it was or not.
    their_events = [event for event in their_events if event["name"] != "shutdown_requested"]
    assert form(our_events) == form(their_events)
    keep = ("key", "value", "partition", "offset")
    assert [[event[name] for name in keep] for event in by_name(our_events, "record_data")] == [
        [event[name] for name in keep] for event in by_name(their_events, "record_data")
    ]
