"""`barnabas streams` against a broker."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas import AdminClient, Broker, NewTopic, Producer
from barnabas.cli.main import main
from barnabas.spark.exactly_once.decision import DECISION_TOPIC
from barnabas.spark.exactly_once.driver_steps import SinkPlace
from barnabas.streams.spark import topology_memory
from barnabas.streams.spark.query_plan import TRANSACTIONAL_ID_PREFIX
from barnabas.streams.spark.state_directory import Kept
from barnabas.streams.spark.topology_shape import StoreShape, TopologyShape
from barnabas.streams.state.disk import DiskBackend

PROGRAM = """
from barnabas.streams import Serdes, StreamsBuilder

def topology():
    builder = StreamsBuilder()
    lines = builder.stream("lines", key=Serdes.string(), value=Serdes.string())
    lines.group_by(lambda key, value: value, key=Serdes.string(), value=Serdes.string()).count(store="words")
    return builder.build()

number = 5
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker() as broker:
        with AdminClient(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("lines", num_partitions=3)])
        yield broker.bootstrap_servers


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    logger = logging.getLogger("barnabas")
    handlers, level, propagates = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagates
    logger.setLevel(level)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"program_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_describe_prints_what_kafka_prints(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "describe", f"{program}:topology"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith(
        "Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])"
    )


def test_describe_draws_a_picture(program: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "words.svg"

    assert main(["streams", "describe", f"{program}:topology", "--svg", str(file)]) == 0
    assert main(["streams", "describe", f"{program}:topology", "--svg", "-"]) == 0

    picture = file.read_text(encoding="utf-8")
    assert capsys.readouterr().out == picture
    assert picture.startswith("<svg")
    assert "words-repartition" in picture


def test_plan_tells_what_has_changed_since_the_last_start_until_the_application_is_reset(
    program: str, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    what = [f"{program}:topology", "--application-id", "changed", "-b", servers, "-o", "json"]
    place = SinkPlace((("bootstrap.servers", servers),), DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX)
    words = StoreShape("changed-words-changelog", "window", "StringSerde", "LongSerde", 5, False, "Counted", ("lines",))
    before = TopologyShape(("lines",), {"changed-old-repartition": "StringSerde"}, {"words": words}, {})
    topics = ["changed-words-changelog", "changed-old-repartition"]
    with AdminClient(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(topic, num_partitions=3) for topic in topics])
        for topic in topics:
            producer.send(topic, b"value", key=b"key").result(30)
    topology_memory.remember(place, "changed", before)

    def changes() -> dict[str, bool]:
        assert main(["streams", "plan", *what]) == 0
        return {each["name"]: each["is_safe"] for each in json.loads(capsys.readouterr().out)["changes"]}

    assert changes() == {"words": False, "changed-old-repartition": False, "changed-words-repartition": True}
    assert main(["streams", "plan", *what[:-2]]) == 0
    assert "NOT SAFE: words its changelog changed-words-changelog holds entries of a window store" in (
        capsys.readouterr().out
    )
    assert main(["streams", "reset", *what, "--execute"]) == 0
    capsys.readouterr()
    assert changes() == {}
    assert topology_memory.remembered(place, "changed") is None


def test_what_is_no_topology_is_refused(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["streams", "describe", f"{program}:number"]) != 0

    assert "is no Topology, nor makes one, but int" in capsys.readouterr().err


def test_plan_tells_tasks_and_topics_and_reset_deletes_what_is_the_applications_own(
    program: str, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    what = [f"{program}:topology", "--application-id", "app", "-b", servers, "-o", "json"]
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("app-words-changelog", num_partitions=3)])
        admin.alter_consumer_group_offsets("app", {("lines", 0): 0})

        assert main(["streams", "plan", *what]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert main(["streams", "reset", *what]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert "app-words-changelog" in admin.list_topics()
        assert main(["streams", "reset", *what, "--execute"]) == 0
        assert "app-words-changelog" not in admin.list_topics()
        assert "lines" in admin.list_topics()
        assert not admin.list_consumer_group_offsets("app")

    assert plan["tasks"] == {"0": 3, "1": 3}
    assert {(row["topic"], row["what"], row["partitions"], row["exists"]) for row in plan["topics"]} == {
        ("lines", "source", 3, True), ("app-words-repartition", "repartition", 3, False),
        ("app-words-changelog", "changelog", 3, True),
    }  # fmt: skip
    assert shown == {"executed": False, "topics": ["app-words-changelog"], "group": "app"}


def test_state_tells_how_large_stores_are_and_how_far_this_machine_lags_behind(
    program: str, servers: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("lmdb")
    what = [f"{program}:topology", "--application-id", "sized", "-b", servers]
    changelog = "sized-words-changelog"
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(changelog, num_partitions=3)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(5):
            producer.send(changelog, b"%d" % number, key=b"%d" % number, partition=1).result(30)
    with contextlib.closing(DiskBackend(tmp_path / "sized" / "1_1")) as backend:
        words = backend.open("words")
        for number in range(3):
            words.put(b"%d" % number, b"value")
        backend.open("words-of-another-store").put(b"key", b"value")
        backend.commit(Kept({changelog: "id"}, {changelog: 3}, {}, 0).encode())

    assert main(["streams", "state", *what, "--state-dir", str(tmp_path), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["streams", "state", *what, "--state-dir", str(tmp_path / "elsewhere")]) == 0
    printed = capsys.readouterr().out

    rows = {row["task"]: row for row in found["stores"]}
    assert sorted(rows) == ["1_0", "1_1", "1_2"]
    size = rows["1_1"].pop("bytes")
    assert size > 0
    assert rows["1_1"] == {
        "task": "1_1", "store": "words", "changelog": changelog, "changes": 5, "kept": 3, "lag": 2, "entries": 3,
    }  # fmt: skip
    assert rows["1_0"]["changes"] == 0
    assert rows["1_0"]["kept"] is None
    assert changelog in printed
