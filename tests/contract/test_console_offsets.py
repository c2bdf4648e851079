"""Offsets of groups in the console, moved by a file and relatively, of share groups too; members removed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from barnabas import AdminClient, Consumer, Producer, ShareConsumer
from barnabas.client.offsets_plan import parse_plan
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition
from tests.contract.queue import Queue
from tests.contract.waiting import eventually
from tests.support.running_console import RunningConsole

pytest.importorskip("starlette")

PEERS = ["barnabas", pytest.param("apache-kafka", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def console(bootstrap_servers: str) -> Iterator[RunningConsole]:
    with RunningConsole(bootstrap_servers) as running:
        yield running.log_in()


@pytest.fixture
def group(bootstrap_servers: str, topic: str, new_name: Callable[[str], str]) -> str:
    """A group that read 3 of the 10 records of each partition of `topic`, and left."""
    name = new_name("group")
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(20):
            producer.send(topic, b"x", partition=number % 2)
    with Consumer(group_id=name, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 3))
    return name


def offsets(console: RunningConsole, group: str) -> list[int | None]:
    return [row["committed"] for row in console.get(f"/api/group?group={quote(group, safe='')}")["offsets"]]


def lags(console: RunningConsole, group: str) -> list[int | None]:
    return [row["lag"] for row in console.get(f"/api/group?group={quote(group, safe='')}")["offsets"]]


def barnabas(*words: str, stdin: str = "") -> str:
    command = [sys.executable, "-m", "barnabas.cli.main", *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("by", "moved"), [(4, [7, 7]), (-2, [1, 1]), (-50, [0, 0]), (50, [10, 10])])
def test_offsets_move_relatively_and_stay_in_range(
    console: RunningConsole, group: str, by: int, moved: list[int]
) -> None:
    preview = console.post("/api/group/offsets", {"group": group, "shiftBy": by, "dryRun": True})
    assert [(move["committed"], move["wanted"], move["offset"]) for move in preview["moves"]] == [
        (3, 3 + by, offset) for offset in moved
    ]
    assert f"--shift-by={by}" in preview["command"]
    assert offsets(console, group) == [3, 3]
    console.post("/api/group/offsets", {"group": group, "shiftBy": by})
    assert offsets(console, group) == moved


def test_offsets_move_as_a_file_says_in_the_page_and_in_the_command_line(
    console: RunningConsole, bootstrap_servers: str, topic: str, group: str, tmp_path: Path
) -> None:
    plan = f"topic,partition,offset\n{topic},0,5\n\n{topic},1,99\n"
    done = console.post("/api/group/offsets", {"group": group, "plan": plan})
    assert [(move["wanted"], move["offset"]) for move in done["moves"]] == [(5, 5), (99, 10)]
    assert offsets(console, group) == [5, 10]

    def says(**body: object) -> str:
        return str(console.post("/api/group/offsets", {"group": group, **body}, 400)["message"])

    assert "line 1" in says(plan="nonsense")
    assert "give one of" in says(plan=plan, to="end")
    assert "give one of" in says()
    missing = console.post("/api/group/offsets", {"group": group, "plan": "no-such-topic,0,1"}, 404)
    assert "no-such-topic-0" in missing["message"]

    path = tmp_path / "plan.csv"
    path.write_text(f"{topic},0,2\n")
    shown = barnabas("group", "offsets", "import", group, str(path), "-b", bootstrap_servers, "-o", "json")
    assert '"newOffset": 2' in shown
    assert offsets(console, group) == [5, 10]
    barnabas("group", "offsets", "import", group, "-", "--execute", "-b", bootstrap_servers, stdin=path.read_text())
    assert offsets(console, group) == [2, 10]


def test_offsets_of_a_topic_are_forgotten_after_they_were_shown(
    console: RunningConsole, topic: str, group: str
) -> None:
    body = {"group": group, "topics": [topic]}
    preview = console.post("/api/group/offsets/forget", {**body, "dryRun": True})
    assert [(row["partition"], row["committed"]) for row in preview["offsets"]] == [(0, 3), (1, 3)]
    assert offsets(console, group) == [3, 3]
    console.post("/api/group/offsets/forget", body)
    assert offsets(console, group) == []
    assert "no committed offsets" in console.post("/api/group/offsets/forget", body, 400)["message"]


def test_a_member_is_made_to_leave(
    console: RunningConsole, bootstrap_servers: str, topic: str, group: str, admin: AdminClient
) -> None:
    path = f"/api/group?group={quote(group, safe='')}"
    settings: dict[str, Any] = {"group_id": group, "bootstrap_servers": bootstrap_servers, "group_protocol": "classic"}
    with Consumer(topic, **settings) as consumer:
        eventually(lambda: bool(consumer.poll(0.2)) or bool(consumer.assignment()))
        (member,) = console.get(path)["members"]
        body = {"group": group, "members": [member["member"]], "confirm": group}
        remove = "/api/group/members/remove"
        assert "confirm" in console.post(remove, {**body, "confirm": ""}, 400)["message"]
        assert "members must be" in console.post(remove, {**body, "members": ["another"]}, 400)["message"]
        done = console.post(remove, body)
        assert f"group remove-members {group} {member['member']}" in done["command"]
        assert console.get(path)["members"] == []
        # It comes again, as another member.
        eventually(lambda: consumer.poll(0.2) is not None and bool(console.get(path)["members"]))
        barnabas("group", "remove-members", group, "--all", "-b", bootstrap_servers)
        assert admin.describe_groups([group])[group].members == []


def test_a_share_group_shows_where_it_begins_and_is_moved_and_forgotten(
    console: RunningConsole, bootstrap_servers: str, topic: str, group: str, new_name: Callable[[str], str]
) -> None:
    name = new_name("queue")
    path = f"/api/group?group={quote(name, safe='')}"
    Queue(bootstrap_servers, topic, name)
    with ShareConsumer(topic, bootstrap_servers=bootstrap_servers, group_id=name) as consumer:
        # What a poll handed out is acknowledged by the next one. The broker counts what is left: records that were
        # acknowledged may lie after where it would begin.
        eventually(lambda: consumer.poll(0.2) is not None and lags(console, name) == [0, 0])
        found = console.get(path)
        assert (found["type"], len(found["members"])) == ("SHARE", 1)
        assert [row["members"] for row in found["offsets"]] == [[found["members"][0]["member"]]] * 2
        refused = console.post("/api/group/offsets", {"group": name, "to": "beginning"}, 409)
        assert refused["error"] == "GroupNotEmptyError"
    eventually(lambda: console.get(path)["members"] == [])

    preview = console.post("/api/group/offsets", {"group": name, "to": "beginning", "dryRun": True})
    assert [move["offset"] for move in preview["moves"]] == [0, 0]
    console.post("/api/group/offsets", {"group": name, "plan": f"{topic},0,4\n{topic},1,6"})
    assert offsets(console, name) == [4, 6]
    assert lags(console, name) == [6, 4]
    console.post("/api/group/offsets/forget", {"group": name, "topics": [topic]})
    assert offsets(console, name) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [("t,0", "line 1"), ("t,0,-1", "line 1"), ("t,0,1\nt,0,2", "line 2 names t-0 again"), ("", "there is no line"),
     ("t,²,1", "line 1"), (",0,1", "line 1"), ("t,0," + "9" * 30, "line 1")],
)  # fmt: skip
def test_a_plan_that_says_something_else_is_refused_by_its_line(text: str, says: str) -> None:
    with pytest.raises(IllegalArgumentError, match=says):
        parse_plan(text)


def test_a_plan_reads_as_kafkas_scripts_write_it() -> None:
    assert parse_plan('"a,b",0,1\r\nTopic, Partition, Offset\nt, 1, 2\n') == {
        TopicPartition("a,b", 0): 1,
        TopicPartition("t", 1): 2,
    }


def test_a_setting_of_a_broker_is_changed_and_taken_back(console: RunningConsole, admin: AdminClient) -> None:
    broker = admin.describe_cluster().nodes[0].id

    def value(path: str) -> str | None:
        rows = {row["name"]: row["value"] for row in console.get(path)["settings"]}
        found: str | None = rows.get("log.cleaner.threads")
        return found

    for name in (str(broker), "default"):
        path = f"/api/brokers/{name}/settings"
        before = value(path)
        done = console.post(path, {"set": {"log.cleaner.threads": "2"}})
        assert f"config set broker {name} log.cleaner.threads=2" in done["command"]
        eventually(lambda path=path: value(path) == "2")
        done = console.post(path, {"unset": ["log.cleaner.threads"]})
        assert f"config unset broker {name} log.cleaner.threads" in done["command"]
        eventually(lambda path=path, before=before: value(path) == before)
    assert "nothing to change" in console.post(f"/api/brokers/{broker}/settings", {}, 400)["message"]
    assert "a broker is a number" in console.get("/api/brokers/one/settings", 400)["message"]
    wrong = console.ask("POST", f"/api/brokers/{broker}/settings", '{"set": {"broker.id": "9"}}',
                        {"Content-Type": "application/json", "Origin": console.url})  # fmt: skip
    assert wrong[0] == 400
