"""What computes on the cluster, in the console: Spark's queries by their checkpoints, streams applications drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas import AdminClient, Consumer, NewTopic, Producer
from barnabas.console.topologies import internal_topics
from tests.contract.waiting import eventually
from tests.support.core_broker import SocketClient
from tests.support.running_console import RunningConsole
from tests.support.streams_member import StreamsMember, subtopology

pytest.importorskip("starlette")

TOPOLOGY = """
from barnabas.streams import StreamsBuilder

def topology():
    builder = StreamsBuilder()
    builder.stream("words").group_by(lambda key, value: value).count().to_stream().to("counts")
    return builder.build()
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(scope="module")
def console(
    bootstrap_servers: str, checkpoints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningConsole]:
    module = tmp_path_factory.mktemp("modules") / "drawn_topology.py"
    module.write_text(TOPOLOGY)
    options = ["--checkpoint", str(checkpoints), "--topology", f"drawn={module.stem}:topology"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(module.parent))
        running = RunningConsole(bootstrap_servers, *options)
    with running:
        yield running.log_in()


def checkpoint(folder: Path, planned: dict[int, dict[str, int]], finished: int, topic: str) -> None:
    """Write what Spark writes: offsets planned for each micro-batch, and which are finished."""
    (folder / "offsets").mkdir(parents=True)
    (folder / "commits").mkdir()
    for batch, ends in planned.items():
        lines = ["v1", json.dumps({"batchWatermarkMs": 0}), json.dumps({topic: ends})]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    for batch in range(finished + 1):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_a_query_shows_by_its_checkpoint_how_far_it_is(
    console: RunningConsole, bootstrap_servers: str, topic: str, checkpoints: Path, new_name: Callable[[str], str]
) -> None:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        for number in range(20):
            producer.send(topic, b"x", partition=number % 2)
    name, group = new_name("query"), new_name("group")
    checkpoint(checkpoints / name, {0: {"0": 2, "1": 2}, 1: {"0": 4, "1": 6}}, 0, topic)
    with Consumer(group_id=group, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0), (topic, 1)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 2))

    def row() -> dict[str, Any]:
        rows = {each["name"]: each for each in console.get("/api/spark")["queries"]}
        found: dict[str, Any] = rows[name]
        return found

    assert (row()["batch"], row()["lag"], row()["partitions"], row()["isUnfinished"]) == (0, 16, 2, True)
    assert row()["finished"] > 1_700_000_000_000
    # Groups are known once the cluster was looked at.
    console.events("lags", "lags")
    eventually(lambda: group in row()["groups"])

    one = console.get(f"/api/spark/query?query={name}")
    fields = "position", "planned", "end", "lag", "lost", "beyond"
    assert [tuple(each[field] for field in fields) for each in one["partitions"]] == [
        (2, 4, 10, 8, 0, 0), (2, 6, 10, 8, 0, 0),
    ]  # fmt: skip
    assert one["command"].startswith(f"barnabas spark lag --checkpoint {checkpoints / name}")
    assert "no checkpoint 'another'" in console.get("/api/spark/query?query=another", 400)["message"]


def test_a_checkpoint_that_cannot_be_read_and_a_topic_that_is_gone_are_said(
    console: RunningConsole, checkpoints: Path, new_name: Callable[[str], str]
) -> None:
    broken, gone = new_name("broken"), new_name("gone")
    checkpoint(checkpoints / broken, {0: {"0": 1}}, 0, "t")
    (checkpoints / broken / "offsets" / "0").write_text("v99\n{}\n{}")
    checkpoint(checkpoints / gone, {0: {"0": 5}}, 0, "topic-that-is-gone")
    rows = {each["name"]: each for each in console.get("/api/spark")["queries"]}
    assert "of version 'v99'" in rows[broken]["error"]
    assert (rows[gone]["error"], rows[gone]["lag"]) == (None, 0)
    (partition,) = console.get(f"/api/spark/query?query={gone}")["partitions"]
    assert (partition["position"], partition["end"], partition["lag"]) == (5, None, None)


def test_a_given_topology_is_drawn_with_all_of_its_nodes(console: RunningConsole) -> None:
    assert {"application": "drawn", "known": "topology", "state": None, "internalTopics": 0} in console.get(
        "/api/streams"
    )["applications"]
    found = console.get("/api/streams/topology?application=drawn")
    assert [part["title"] for part in found["parts"]] == ["Sub-topology 0", "Sub-topology 1"]
    arrows = {arrow["topic"]: arrow["way"] for part in found["parts"] for arrow in part["arrows"] if arrow["way"]}
    assert arrows["words"] == "read"
    assert arrows["counts"] == "written"
    # Its topics bear the application's name, which a topology does not know.
    assert any(topic.startswith("drawn-") and topic.endswith("-repartition") for topic in arrows)
    assert all(node["kind"] != "untold" for part in found["parts"] for node in part["nodes"])
    for part in found["parts"]:
        assert all(node["x"] >= 0 and node["x"] + node["width"] <= part["width"] + 1 for node in part["nodes"])
        places = {(node["x"] + node["width"] / 2, node["y"]) for node in part["nodes"]}
        # Each arrow ends at the upper side of a box.
        assert all(
            any(abs(arrow["path"][-1][0] - x) < 1 and abs(arrow["path"][-1][1] - y) < 1 for x, y in places)
            for arrow in part["arrows"]
        )


def test_a_streams_group_is_drawn_from_what_it_tells(
    console: RunningConsole, bootstrap_servers: str, topic: str, admin: AdminClient, new_name: Callable[[str], str]
) -> None:
    name = new_name("streams")
    with SocketClient(bootstrap_servers) as client:
        admin.list_consumer_group_offsets(name)
        member = StreamsMember(lambda said: client.request(said, 0), name, (subtopology("0", topic),), group=name)
        eventually(lambda: not member.heartbeat().error_code and bool(member.active))
        rows = {row["application"]: row for row in console.get("/api/streams")["applications"]}
        assert (rows[name]["known"], rows[name]["state"]) == ("group", "STABLE")
        (part,) = console.get(f"/api/streams/topology?application={name}")["parts"]
        assert part["title"] == "Sub-topology 0"
        # Where it writes to topics of others is drawn as what it is: not told.
        assert [(arrow["topic"], arrow["way"]) for arrow in part["arrows"]] == [(topic, "read"), (None, "")]
        assert [node["kind"] for node in part["nodes"]] == ["topic", "processor", "untold"]
        member.leave()


def test_an_application_is_known_by_its_internal_topics(
    console: RunningConsole, bootstrap_servers: str, topic: str, admin: AdminClient, new_name: Callable[[str], str]
) -> None:
    name = new_name("app")
    admin.create_topics([NewTopic(f"{name}-{what}", 1) for what in ("counts-changelog", "by-word-repartition")])
    with Consumer(group_id=name, bootstrap_servers=bootstrap_servers, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        consumer.commit(dict.fromkeys(consumer.assignment(), 0))

    def row() -> dict[str, Any] | None:
        return next((one for one in console.get("/api/streams")["applications"] if one["application"] == name), None)

    eventually(lambda: row() is not None)
    found = row()
    assert found is not None
    assert (found["known"], found["internalTopics"]) == ("topics", 2)
    (part,) = console.get(f"/api/streams/topology?application={name}")["parts"]
    assert {(arrow["topic"], arrow["way"]) for arrow in part["arrows"]} == {
        (topic, "read"), (f"{name}-by-word-repartition", "written"), (None, ""),
    }  # fmt: skip
    assert next(node["stores"] for node in part["nodes"] if node["id"] == name) == ["counts"]
    missing = console.get("/api/streams/topology?application=nothing", 404)
    assert missing["error"] == "GroupIdNotFoundError"


def test_an_internal_topic_is_that_of_the_longest_name_before_it() -> None:
    topics = ["app-one-changelog", "app-b-two-changelog", "app-b-x-repartition", "app-changelog", "other", "-changelog"]
    assert internal_topics(topics, ["app", "app-b", "oth", ""]) == {
        "app": ["app-one-changelog"], "app-b": ["app-b-two-changelog", "app-b-x-repartition"],
    }  # fmt: skip
