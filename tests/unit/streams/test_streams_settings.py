"""Every setting that a stream application knows does something, or the reason why not is told."""

from __future__ import annotations

import ast
import logging
from pathlib import Path
from typing import Any

import pytest

import barnabas.streams
from barnabas.errors import ConfigError
from barnabas.streams import Materialized, Serdes, StreamsBuilder, TaskId, TimeWindows, Topology, config
from barnabas.streams.config import SETTINGS, WITHOUT_EFFECT, StreamsConfig
from barnabas.streams.engine.task import Task, TaskSettings
from barnabas.streams.state.memory import MemoryBackend, MemoryMap
from barnabas.streams.topology.processor_topology import build_topology, topics_by_subtopology

APPLICATION = {"application.id": "app"}
TABLES = {"SETTINGS", "WITHOUT_EFFECT"}
#: Read by name of the settings of clients that they are, too.
OF_CLIENTS = {"bootstrap.servers"}


def names_read() -> set[str]:
    """The settings that some code of the room names outside of the tables that declare them."""
    found: set[str] = set()
    for path in Path(barnabas.streams.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tables = [
            node.value
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(target := node.target if isinstance(node, ast.AnnAssign) else node.targets[0], ast.Name)
            and target.id in TABLES
            and node.value is not None
        ]
        declared = {id(part) for table in tables for part in ast.walk(table)}
        found |= {
            part.value
            for part in ast.walk(tree)
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in declared
        }
    return found


def test_each_setting_is_read_or_has_a_reason_why_not() -> None:
    refused = {name for name, setting in SETTINGS.items() if isinstance(setting.check, config.Refused)}

    assert SETTINGS.keys() - names_read() - OF_CLIENTS - refused == WITHOUT_EFFECT.keys()


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_one_without_effect_is_told_of_once(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_told", set())
    with caplog.at_level(logging.INFO, "barnabas.streams"):
        for _ in range(2):
            StreamsConfig({**APPLICATION, name: 2})

    assert [record.getMessage() for record in caplog.records] == [f"{name} has no effect here: {WITHOUT_EFFECT[name]}"]


@pytest.mark.parametrize(
    ("name", "value", "in_memory"),
    [
        ("default.dsl.store", "rocksDB", False),
        ("dsl.store.suppliers.class", "BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers", True),
        ("dsl.store.suppliers.class", "org.x.BuiltInDslStoreSuppliers$RocksDBDslStoreSuppliers", False),
    ],
)
def test_stores_of_the_dsl_lie_where_the_settings_say_unless_they_say_it_themselves(
    name: str, value: str, in_memory: bool
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=Serdes.string(), value=Serdes.string()).group_by_key()
    stream.count(store="plain").to_stream().to("out", value=Serdes.long())
    windows = stream.windowed_by(TimeWindows.of_size(seconds=1))
    windows.count(Materialized.as_("windows")).to_stream(lambda window, count: window.key).to("out2")
    stream.count(Materialized.as_("own").with_store_type(persistent=True)).to_stream().to("out3")
    builder.table("in2", store="table")
    config = StreamsConfig({**APPLICATION, name: value, "default.key.serde": "string", "default.value.serde": "long"})
    topology = builder.build().builder
    topology.rewrite_topology(config.values)
    backend = Kept()

    Task(build_topology(topology), TaskId(0, 0), TaskSettings(config, backend))

    kept = {"own"} if in_memory else {"plain", "windows", "own", "table"}
    assert {store.partition(".")[0] for store in backend.opened} - {"windows"} == kept - {"windows"}
    assert backend.looked_for == ({"windows."} if "windows" in kept else set())


class Kept(MemoryBackend):
    """A backend that notes what is kept in it."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: set[str] = set()
        self.looked_for: set[str] = set()

    def open(self, name: str) -> MemoryMap:
        self.opened.add(name)
        return super().open(name)

    def names(self, prefix: str) -> list[str]:
        self.looked_for.add(prefix)
        return super().names(prefix)


def test_the_deprecated_setting_for_memory_names_the_one_that_is_meant() -> None:
    with pytest.raises(ConfigError, match="InMemoryDslStoreSuppliers"):
        StreamsConfig({**APPLICATION, "default.dsl.store": "in_memory"})


@pytest.mark.parametrize("additional", [0, 5000])
def test_changelogs_of_windows_keep_records_longer_than_their_stores(additional: int) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(60_000, 30_000)
    builder.stream("in").group_by_key().windowed_by(windows).count().to_stream().to("out")
    topology = builder.build().builder
    topology.rewrite_topology(StreamsConfig(APPLICATION).values)

    [info] = topics_by_subtopology(topology, additional).values()
    [changelog] = info.state_changelog_topics.values()

    assert changelog.config["retention.ms"] == str(90_000 + additional)


@pytest.mark.parametrize("made", [StreamsBuilder, Topology, lambda config: StreamsConfig({**APPLICATION, **config})])
def test_the_internal_setting_that_changes_names_is_refused(made: Any) -> None:
    with pytest.raises(ConfigError, match=r"__enable.process.processValue.fix__.*repartition topics"):
        made({"__enable.process.processValue.fix__": "true"})
