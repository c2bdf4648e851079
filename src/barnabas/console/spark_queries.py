"""Queries of Spark, by checkpoints and groups: how far each is behind, and when it last finished a micro-batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from barnabas.console.answers import Place, place
from barnabas.console.topics import bounds
from barnabas.console.visible_topics import check_topics, refused_topics
from barnabas.errors import IllegalArgumentError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.checkpoint import (
    CheckpointError,
    LagFigures,
    SourcePosition,
    lags_of,
    partitions_of,
    read_checkpoint,
)

if TYPE_CHECKING:
    from barnabas.aio import AdminClient
    from barnabas.console.commands import Commands
    from barnabas.console.sampler import GroupSample
    from barnabas.console.session_clients import SessionClients

_Bounds = tuple[dict[TopicPartition, int], dict[TopicPartition, int]]

#: How the groups of Spark's built-in connector begin.
BUILT_IN = "spark-kafka-source-"


class QueryRow(TypedDict):
    """A query by its checkpoint; `finished` is when its last micro-batch was (epoch ms). `error` says what is wrong.

    `groups` commit the same partitions: one may be the query's, for others to see (offsetCommitMode).
    """

    name: str
    path: str
    batch: int | None
    finished: int | None
    lag: int | None
    partitions: int
    isUnfinished: bool
    groups: list[str]
    error: str | None


class GroupRow(TypedDict):
    """A group that Spark's built-in connector has made."""

    group: str
    lag: int | None


class Queries(TypedDict):
    """All queries whose checkpoints the console was started with, and groups of others."""

    queries: list[QueryRow]
    groups: list[GroupRow]


class PartitionRow(Place, LagFigures):
    """A partition of a query; see `barnabas.spark.checkpoint.PartitionLag`."""

    source: int


class Query(TypedDict):
    """One query."""

    query: QueryRow
    partitions: list[PartitionRow]
    command: str


class _Read(TypedDict):
    batch: int | None
    finished: int | None
    sources: list[SourcePosition]
    error: str | None


def checkpoints(paths: Sequence[Path]) -> dict[str, Path]:
    """Return the checkpoints by name: a directory that has no `offsets` stands for those in it."""
    found: dict[str, Path] = {}
    for path in paths:
        inside = [path] if (path / "offsets").is_dir() or not path.is_dir() else sorted(path.iterdir())
        for each in inside:
            if each == path or (each / "offsets").is_dir():
                name = each.name if each.name not in found else str(each)
                found[name] = each
    return found


async def queries(clients: SessionClients, paths: Sequence[Path]) -> Queries:
    """Return all queries."""
    admin, there = clients.admin, await asyncio.to_thread(checkpoints, paths)
    read = {name: await asyncio.to_thread(_read, path) for name, path in there.items()}
    refused = await refused_topics(admin, {topic for each in read.values() for topic in _topics_of(each)})
    read = {name: each for name, each in read.items() if not _topics_of(each) & refused}
    wanted = {partition for each in read.values() for partition in partitions_of(each["sources"])}
    limits, known = await _bounds(admin, wanted), _groups_that_read(clients)
    rows = [_row(name, there[name], each, limits, known) for name, each in read.items()]
    listed = await admin.list_groups(raise_errors=False)
    groups: list[GroupRow] = [
        {"group": name, "lag": known[name].lag if name in known else None}
        for name in sorted(listed)
        if name.startswith(BUILT_IN)
    ]
    return {"queries": rows, "groups": groups}


async def query(clients: SessionClients, paths: Sequence[Path], name: str, commands: Commands) -> Query:
    """Return one query. Raises `IllegalArgumentError` for one that there is not, `TopicAuthorizationError`."""
    admin, there = clients.admin, await asyncio.to_thread(checkpoints, paths)
    if name not in there:
        raise IllegalArgumentError(f"there is no checkpoint {name!r}")
    found = await asyncio.to_thread(_read, there[name])
    await check_topics(admin, _topics_of(found), f"the query {name!r}")
    limits = await _bounds(admin, partitions_of(found["sources"]))
    rows: list[PartitionRow] = [
        {**place(each.partition), "source": each.source, **each.figures} for each in lags_of(found["sources"], *limits)
    ]
    command = commands.line("spark", "lag", "--checkpoint", str(there[name]))
    row = _row(name, there[name], found, limits, _groups_that_read(clients))
    return {"query": row, "partitions": rows, "command": command}


def _groups_that_read(clients: SessionClients) -> dict[str, GroupSample]:
    sample = clients.sampler.last
    return {} if sample is None else {name: group for name, group in sample.groups.items() if group.committed}


def _row(name: str, path: Path, found: _Read, limits: _Bounds, groups: Mapping[str, GroupSample]) -> QueryRow:
    lags = lags_of(found["sources"], *limits)
    own = partitions_of(found["sources"])
    return {
        "name": name,
        "path": str(path),
        "batch": found["batch"],
        "finished": found["finished"],
        "lag": sum(each.lag or 0 for each in lags) if lags else None,
        "partitions": len(own),
        "isUnfinished": any(each.planned is not None for each in lags),
        "groups": sorted(name for name, group in groups.items() if group.committed.keys() == own),
        "error": found["error"],
    }


def _read(path: Path) -> _Read:
    try:
        batch, sources = read_checkpoint(path)
        finished = None if batch is None else int((path / "commits" / str(batch)).stat().st_mtime * 1000)
    except (CheckpointError, OSError) as problem:
        return {"batch": None, "finished": None, "sources": [], "error": str(problem)}
    return {"batch": batch, "finished": finished, "sources": sources, "error": None}


def _topics_of(found: _Read) -> set[str]:
    return {partition.topic for partition in partitions_of(found["sources"])}


async def _bounds(admin: AdminClient, partitions: Iterable[TopicPartition]) -> _Bounds:
    wanted = sorted(partitions)
    if not wanted:
        return {}, {}
    # What is gone is left out: asking for its offsets would wait for it to come.
    topics = await admin.describe_topics({partition.topic for partition in wanted}, raise_errors=False)
    there = {TopicPartition(str(name), each.partition) for name, topic in topics.items() for each in topic.partitions}
    return await bounds(admin, [partition for partition in wanted if partition in there])
