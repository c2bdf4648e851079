"""The topologies of `race_streams` in our DSL, by job. Joins read a second topic, `SOURCE-right`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from barnabas.streams import (
    Grouped,
    JoinWindows,
    KStream,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)

MINUTE = timedelta(minutes=1)
#: How far apart records of a join of streams may lie: each finds one or two partners.
APART = timedelta(seconds=1)

TEXT = Serdes.string()
Text = KStream[str, str]


def _map(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    return source.filter(lambda key, value: value[0] != "0").map_values(lambda value: value + "!")


def _count(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    return source.group_by_key().count().to_stream()


def _windows(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    counts = source.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(MINUTE)).count()
    return counts.to_stream(lambda window, count: window.key)


def _suppress(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    counts = source.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(MINUTE)).count()
    return counts.suppress(Suppressed.until_window_closes()).to_stream(lambda window, count: window.key)


def _group(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    return source.group_by(lambda key, value: key, Grouped.with_(TEXT, TEXT)).count().to_stream()


def _tables(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    right = builder.table(f"{topic}-right", key=TEXT, value=TEXT)
    return source.to_table().join(right, lambda one, other: one[:8] + other[:8]).to_stream()


def _streams(builder: StreamsBuilder, source: Text, topic: str) -> KStream[str, Any]:
    right = builder.stream(f"{topic}-right", key=TEXT, value=TEXT)
    windows = JoinWindows.of_time_difference_with_no_grace(APART)
    return source.join(right, lambda one, other: one[:8] + other[:8], windows, StreamJoined.with_(TEXT, TEXT, TEXT))


JOBS: dict[str, Callable[[StreamsBuilder, Text, str], KStream[str, Any]]] = {
    "map": _map,
    "count": _count,
    "windows": _windows,
    "suppress": _suppress,
    "tables": _tables,
    "streams": _streams,
    "group": _group,
}
#: A job whose records go through a repartition topic.
STEPS = "group"
#: Jobs that read two topics.
TWO = ("tables", "streams")


def topology(kind: str, source: str, target: str) -> Topology:
    """Return the topology of a job."""
    builder = StreamsBuilder()
    made = JOBS[kind](builder, builder.stream(source, key=TEXT, value=TEXT), source)
    made.to(target, key=TEXT, value=TEXT if kind in ("map", *TWO) else Serdes.long())
    return builder.build()
