"""The optimizer: fewer topics and stores where `topology.optimization` allows it."""

from __future__ import annotations

import pytest

from barnabas.errors import ConfigError
from barnabas.streams import Consumed, Grouped, JoinWindows, Serdes, StreamJoined, StreamsBuilder

TEXT = Consumed.with_(Serdes.string(), Serdes.string())
ALL = {"topology.optimization": "all"}


def two_counts() -> StreamsBuilder:
    builder = StreamsBuilder()
    changed = builder.stream("in", TEXT).select_key(lambda key, value: value)
    grouped = Grouped.with_(Serdes.string(), Serdes.string())
    changed.group_by_key(grouped).count(store="first")
    changed.group_by_key(grouped).count(store="second")
    return builder


def test_a_change_of_key_needs_one_repartition_topic() -> None:
    assert sorted(two_counts().build().builder.internal_topics) == ["first-repartition", "second-repartition"]
    assert sorted(two_counts().build(ALL).builder.internal_topics) == ["first-repartition"]


def test_a_tables_topic_is_its_changelog() -> None:
    builder = StreamsBuilder()
    builder.table("in", TEXT, store="table")

    topology = builder.build(ALL).builder

    assert topology.store_to_changelog == {"table": "in"}
    assert not topology.stores["table"].logging


def test_a_join_of_a_stream_with_itself_keeps_one_store() -> None:
    def joined() -> StreamsBuilder:
        builder = StreamsBuilder()
        stream = builder.stream("in", TEXT)
        serdes = StreamJoined.with_(Serdes.string(), Serdes.string(), Serdes.string())
        stream.join(stream, lambda left, right: left + right, JoinWindows.of_time_difference(5), serdes)
        return builder

    assert len(joined().build().builder.stores) == 2
    assert len(joined().build(ALL).builder.stores) == 1


def test_an_unknown_optimization_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"topology.optimization: unknown faster"):
        two_counts().build({"topology.optimization": "faster"})
