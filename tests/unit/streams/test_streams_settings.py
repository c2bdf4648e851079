"""Every setting that a stream application knows does something, or the reason why not is told."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest

import barnabas.streams
from barnabas.errors import ConfigError
from barnabas.streams import StreamsBuilder, TimeWindows, config
from barnabas.streams.config import SETTINGS, WITHOUT_EFFECT, StreamsConfig
from barnabas.streams.topology.processor_topology import topics_by_subtopology

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

    assert SETTINGS.keys() - names_read() - OF_CLIENTS == WITHOUT_EFFECT.keys() | refused


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_one_without_effect_is_told_of_once(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_told", set())
    with caplog.at_level(logging.INFO, "barnabas.streams"):
        for _ in range(2):
            StreamsConfig({**APPLICATION, name: 2})

    assert [record.getMessage() for record in caplog.records] == [f"{name} has no effect here: {WITHOUT_EFFECT[name]}"]


def test_store_suppliers_of_ones_own_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="with_store_type"):
        StreamsConfig({**APPLICATION, "dsl.store.suppliers.class": "com.example.Suppliers"})


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


def test_a_wrapper_of_processors_is_refused_not_passed_over():
    with pytest.raises(ConfigError, match=r"my.Wrapper for configuration processor.wrapper.class: .*KIP-1112"):
        StreamsConfig({"application.id": "a", "processor.wrapper.class": "my.Wrapper"})
    StreamsConfig({"application.id": "a", "processor.wrapper.class": None})
