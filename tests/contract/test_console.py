"""The console's API against running brokers, ours and Apache's: what it shows is so, and what it changes is changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Producer
from tests.contract.waiting import eventually
from tests.support.running_console import RunningConsole

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def console(bootstrap_servers: str) -> Iterator[RunningConsole]:
    with RunningConsole(bootstrap_servers) as running:
        yield running.log_in()


def fill(bootstrap_servers: str, topic: str, records: int) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(records):
            producer.send(topic, value=b"x" * 100, partition=number % 2)


def test_a_topic_shows_its_partitions_offsets_and_sizes(
    console: RunningConsole, bootstrap_servers: str, topic: str
) -> None:
    fill(bootstrap_servers, topic, 10)

    names = console.get("/api/topics")
    found = console.get(f"/api/topics/{topic}")
    sizes = console.get("/api/sizes")

    assert topic in names["names"]
    assert names["command"] == f"barnabas topic list -b {bootstrap_servers}"
    assert [(row["partition"], row["first"], row["end"]) for row in found["partitions"]] == [(0, 0, 5), (1, 0, 5)]
    assert found["records"] == 10
    assert found["bytes"] == sum(row["bytes"] for row in found["partitions"]) > 1000
    assert all(row["isr"] == row["replicas"] == [row["leader"]] for row in found["partitions"])
    assert sizes["sizes"][topic] == [2, 1, found["bytes"]]
    assert found["commands"]["delete"] == f"barnabas topic delete {topic} -b {bootstrap_servers}"


def settings_of(console: RunningConsole, topic: str) -> dict[str, Any]:
    return {row["name"]: row for row in console.get(f"/api/topics/{topic}/settings")["settings"]}


def test_settings_say_where_they_come_from_and_what_they_mean(console: RunningConsole, topic: str) -> None:
    changed = console.post(f"/api/topics/{topic}/settings", {"set": {"retention.ms": "86400000"}})

    # Apache Kafka's brokers learn of a change after it is acknowledged.
    eventually(lambda: settings_of(console, topic)["retention.ms"]["source"] == "DYNAMIC_TOPIC_CONFIG")
    rows = settings_of(console, topic)
    retention = rows["retention.ms"]
    assert (retention["value"], retention["source"], retention["isDefault"]) == (
        "86400000",
        "DYNAMIC_TOPIC_CONFIG",
        False,
    )
    assert [synonym["source"] for synonym in retention["synonyms"]][:2] != []
    assert retention["synonyms"][0]["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert retention["documentation"]
    assert rows["cleanup.policy"]["isDefault"]
    assert f"topic config {topic} --set retention.ms=86400000" in changed["command"]

    console.post(f"/api/topics/{topic}/settings", {"unset": ["retention.ms"]})

    eventually(lambda: settings_of(console, topic)["retention.ms"]["source"] != "DYNAMIC_TOPIC_CONFIG")


def test_a_topic_is_checked_created_grown_emptied_and_deleted(
    console: RunningConsole, bootstrap_servers: str, admin: AdminClient, new_name: Callable[[str], str]
) -> None:
    name = new_name("topic")
    wanted = {"name": name, "partitions": 2, "replicationFactor": 1, "settings": {"retention.ms": "1000000"}}

    checked = console.post("/api/topics", {**wanted, "dryRun": True})
    assert name not in console.get("/api/topics")["names"]
    console.post("/api/topics", wanted)
    assert checked["command"].endswith(f"-p 2 -r 1 --set retention.ms=1000000 --dry-run -b {bootstrap_servers}")
    assert console.post("/api/topics", wanted, 409)["error"] == "TopicExistsError"

    console.post(f"/api/topics/{name}/partitions", {"total": 3})
    eventually(lambda: len(console.get(f"/api/topics/{name}")["partitions"]) == 3)
    assert console.post(f"/api/topics/{name}/partitions", {"total": 1}, 400)["error"] == "InvalidPartitionsError"

    fill(bootstrap_servers, name, 6)
    assert console.post(f"/api/topics/{name}/empty", {"confirm": "another"}, 400)["error"] == "IllegalArgumentError"
    assert console.get(f"/api/topics/{name}")["records"] == 6
    console.post(f"/api/topics/{name}/empty", {"confirm": name})
    assert console.get(f"/api/topics/{name}")["records"] == 0

    assert console.post(f"/api/topics/{name}/delete", {}, 400)["message"] == "confirm must be a text"
    console.post(f"/api/topics/{name}/delete", {"confirm": name})
    eventually(lambda: name not in admin.list_topics())
    assert console.get(f"/api/topics/{name}", 404)["error"] == "UnknownTopicOrPartitionError"


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/api/topics", {"name": 5}, "name must be a text"),
        ("/api/topics", {"name": "x", "partitions": "3"}, "partitions must be a whole number"),
        ("/api/topics", {"name": "x", "partitions": True}, "partitions must be a whole number"),
        ("/api/topics", {"name": "x", "settings": {"a": 1}}, "settings must be an object of texts"),
        ("/api/topics", {"name": "bad name!", "partitions": 1}, "bad name!"),
        ("/api/topics", {"name": "good", "partitions": 1, "settings": {"no.such": "1"}, "dryRun": True}, "no.such"),
        ("/api/topics", [], "the body is no JSON object"),
        ("/api/topics/x/settings", {}, "nothing to change"),
        ("/api/topics/x/settings", {"unset": "retention.ms"}, "unset must be a list of texts"),
    ],
)
def test_a_wrong_change_is_refused_with_what_is_wrong(console: RunningConsole, path: str, body: Any, says: str) -> None:
    assert says in console.post(path, body, 400)["message"]


def test_a_body_that_is_no_json_is_refused(console: RunningConsole) -> None:
    headers = {"Content-Type": "application/json", "Origin": console.url}

    for body in ("{", "[" * 100_000, "\xff"):
        status, _, _ = console.ask("POST", "/api/topics", body, headers)
        assert status == 400


def test_the_stream_tells_how_the_cluster_is(console: RunningConsole, topic: str) -> None:
    overview = console.events("overview,trouble", "overview")

    assert overview["partitions"] >= 2
    assert sum(row["leads"] for row in overview["brokers"]) == overview["partitions"]
    assert overview["problems"] == [] or {p["text"] for p in overview["problems"]} == {"problem.littleSpace"}
    assert console.get("/api/events?kinds=nonsense", 400)["error"] == "IllegalArgumentError"


def test_the_link_lets_in_once_and_a_signal_makes_a_new_one(bootstrap_servers: str) -> None:
    with RunningConsole(bootstrap_servers) as running:
        used = running.link
        running.log_in()
        running.cookie = ""
        path = used.removeprefix(running.url)
        status, headers, body = running.ask("GET", path)
        assert (status, "set-cookie" in headers) == (401, False)
        assert b"used already" in body
        assert running.ask("GET", "/")[0] == 401
        running.process.send_signal(signal.SIGHUP)
        running.link = running.next_link()
        running.log_in()
        status, headers, _ = running.ask("GET", "/")
        assert status == 200
        assert running.close() == 0


def test_the_cookie_is_for_this_site_only_and_no_script_reads_it(bootstrap_servers: str) -> None:
    with RunningConsole(bootstrap_servers) as running:
        _, headers, _ = running.ask("GET", running.link.removeprefix(running.url))

    attributes = {part.strip().lower() for part in headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    assert headers["location"] == "/"


def test_a_read_only_console_shows_everything_and_changes_nothing(bootstrap_servers: str, topic: str) -> None:
    with RunningConsole(bootstrap_servers, "--read-only") as running:
        running.log_in()
        assert running.get("/api/session")["readOnly"]
        assert topic in running.get("/api/topics")["names"]
        for path in ("/api/topics", *(f"/api/topics/{topic}/{change}" for change in ("delete", "empty", "settings"))):
            assert running.post(path, {"name": "x", "confirm": topic}, 403)["error"] == "ReadOnly"
        assert topic in running.get("/api/topics")["names"]


@pytest.mark.parametrize(
    "path", ["/../settings.py", "/..%2fsettings.py", "/%2e%2e/server.py", "/texts/..%2f..%2fserver.py", "//etc/passwd"]
)
def test_files_beside_the_pages_are_not_served(console: RunningConsole, path: str) -> None:
    status, _, body = console.ask("GET", path)

    assert status == 404
    assert b"import" not in body


def test_no_secret_of_the_client_settings_is_in_any_answer(bootstrap_servers: str) -> None:
    with RunningConsole(
        bootstrap_servers, "-X", "sasl.jaas.config=hunter2", "-X", "ssl.key.password=hunter2"
    ) as running:
        running.log_in()
        for path in ("/api/session", "/api/topics", "/api/sizes"):
            assert b"hunter2" not in running.ask("GET", path)[2]


def test_a_console_without_a_cluster_or_a_port_says_why(bootstrap_servers: str, console: RunningConsole) -> None:
    def fails(*options: str) -> str:
        command = [sys.executable, "-m", "barnabas.cli.main", "console", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode in (1, 2)
        return done.stderr

    assert "cannot connect to 127.0.0.1:1" in fails("-b", "127.0.0.1:1", "--listen", "127.0.0.1:0")
    assert "cannot listen on" in fails("-b", bootstrap_servers, "--listen", console.address)
    assert "--tls-certificate" in fails("-b", bootstrap_servers, "--listen", "0.0.0.0:0")


def test_the_files_are_those_that_the_wheel_takes() -> None:
    import barnabas.console

    static = Path(barnabas.console.__file__).parent / "static"
    assert (static / "index.html").is_file()
    assert {path.suffix for path in static.rglob("*") if path.is_file()} <= {
        ".html", ".css", ".mjs", ".json", ".htm", ".preact", ".uplot",
    }  # fmt: skip


def test_a_broker_starts_its_console_and_takes_it_along(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "up", "--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    with subprocess.Popen([*command, "--console"], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            assert broker.stdout.readline().startswith("listening on 127.0.0.1:")
            assert "/login?token=" in broker.stdout.readline()
        finally:
            broker.kill()
        # The console holds the same pipe: this returns when it is gone too.
        assert broker.stdout.read() == ""


def test_what_was_changed_is_noted_without_what_was_written(bootstrap_servers: str, topic: str, tmp_path: Path) -> None:
    path = tmp_path / "changes.jsonl"
    with RunningConsole(bootstrap_servers, "--change-log", str(path)) as console:
        console.log_in()
        console.post(f"/api/topics/{topic}/settings", {"set": {"retention.ms": "123456789"}, "dryRun": True})
        assert console.get("/api/changes") == {"changes": []}
        console.post(f"/api/topics/{topic}/settings", {"set": {"retention.ms": "123456789"}})
        console.post(f"/api/topics/{topic}/delete", {"confirm": "another"}, 400)
        refused, done = console.get("/api/changes")["changes"]
    assert (done["login"], done["path"], done["fields"], done["status"]) == (
        1, f"/api/topics/{topic}/settings", {"set": ["retention.ms"]}, 200,
    )  # fmt: skip
    assert (refused["path"], refused["status"]) == (f"/api/topics/{topic}/delete", 400)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [done, refused]
    assert "123456789" not in path.read_text()


def test_a_change_log_that_cannot_be_written_keeps_the_console_from_starting(
    bootstrap_servers: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "barnabas.cli.main", "console", "-b", bootstrap_servers, "--listen", "127.0.0.1:0"]
    done = subprocess.run(
        [*command, "--change-log", str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert f"--change-log {tmp_path}: Is a directory" in done.stderr
