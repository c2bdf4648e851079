"""What `barnabas top` shows of a sample: tables, the same for the screen and for `--once`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from barnabas.console.commands import Commands
from barnabas.console.overview import overview, problems
from barnabas.console.sampler import Sample

Row = dict[str, Any]


class Table(NamedTuple):
    """A table: its rows of a sample, their columns, and the column by which the busiest come first."""

    rows: Callable[[Sample], list[Row]]
    columns: tuple[str, ...]
    busiest: str


def _topics(sample: Sample) -> list[Row]:
    ends: dict[str, int] = {}
    for partition, end in sample.ends.items():
        ends[partition.topic] = ends.get(partition.topic, 0) + end
    return [
        {
            "topic": name,
            "partitions": len(topic.partitions),
            "perSecond": round(sample.rates.get(name, 0.0), 1),
            "endOffsets": ends.get(name, 0),
            "underReplicated": sum(len(p.in_sync_replicas) < len(p.replicas) for p in topic.partitions),
        }
        for name, topic in sample.topics.items()
        if not topic.is_internal
    ]


def _groups(sample: Sample) -> list[Row]:
    return [
        {
            "group": name,
            "state": None if found.listing.state is None else found.listing.state.name,
            "type": None if found.listing.type is None else found.listing.type.name,
            "lag": found.lag if found.committed else None,
            "lagSeconds": None if found.delay is None else round(found.delay.ms / 1000, 1),
        }
        for name, found in sample.groups.items()
    ]


def _brokers(sample: Sample) -> list[Row]:
    used: dict[int, int] = {}
    for disk in sample.disks:
        used[disk.broker] = used.get(disk.broker, 0) + disk.used
    return [
        {
            "broker": row["id"],
            "address": f"{row['host']}:{row['port']}",
            "controller": row["isController"],
            "leads": row["leads"],
            "replicas": row["replicas"],
            "outOfSync": row["outOfSync"],
            "logBytes": used.get(row["id"]),
        }
        for row in overview(sample, (), Commands(()))["brokers"]
    ]


TABLES: Mapping[str, Table] = {
    "topics": Table(_topics, ("topic", "partitions", "perSecond", "endOffsets", "underReplicated"), "perSecond"),
    "groups": Table(_groups, ("group", "state", "type", "lag", "lagSeconds"), "lag"),
    "brokers": Table(
        _brokers, ("broker", "address", "controller", "leads", "replicas", "outOfSync", "logBytes"), "leads"
    ),
}


def table_rows(name: str, sample: Sample, column: str = "", text: str = "") -> list[Row]:
    """Return a table's rows that have a text in their first column, by a column: the largest number first."""
    table = TABLES[name]
    first, by = table.columns[0], column or table.busiest
    rows = [row for row in table.rows(sample) if text.lower() in str(row[first]).lower()]
    rows.sort(key=lambda row: str(row[first]))
    if by != first:
        # Texts among themselves; what has no value last.
        rows.sort(key=lambda row: _weight(row[by]))
    return rows


def _weight(value: Any) -> tuple[int, float, str]:
    if value is None:
        return 1, 0.0, ""
    return (0, -float(value), "") if isinstance(value, int | float) else (0, 0.0, str(value))


def health(sample: Sample) -> str:
    """Return one sentence: what is wrong, or that nothing is."""
    partitions = sum(len(topic.partitions) for topic in sample.topics.values())
    words = {
        "problem.offline": "partitions without a leader",
        "problem.noController": "no controller",
        "problem.underReplicated": "partitions under-replicated",
        "problem.directoryFailed": "log directories failed",
        "problem.littleSpace": "log directories nearly full",
    }
    found = [f"{p['values']['n'] or ''} {words[p['text']]}".strip() for p in problems(sample, Commands(()))]
    if found:
        return "; ".join(found)
    return f"all {partitions} partitions in sync on {len(sample.cluster.nodes)} brokers"
