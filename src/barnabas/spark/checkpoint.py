"""Where a streaming query stands, from its checkpoint alone: neither Spark nor PySpark is needed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypedDict

from barnabas.errors import KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.spark.offsets import Offsets, from_json, to_json

#: The layouts of the logs that are understood: the version, a line about the batch, then a line for each source.
VERSIONS = ("v1",)


class CheckpointError(KafkaError, ValueError):
    """A folder is no checkpoint of a streaming query, or not of a kind that is understood."""


class SourcePosition(NamedTuple):
    """A source of the query: `position` is what finished micro-batches have read, `planned` what the next will read.

    `planned` is None unless a micro-batch was planned and not finished: it runs again when the query starts.
    """

    source: int
    position: Offsets
    planned: Offsets | None

    @property
    def partitions(self) -> set[TopicPartition]:
        """Those that were read, or will be next."""
        return {*self.position, *(self.planned or ())}


class LagFigures(TypedDict):
    """What is told of a `PartitionLag` beside its place."""

    position: int | None
    planned: int | None
    begin: int | None
    end: int | None
    lag: int | None
    lost: int | None
    beyond: int | None


class PartitionLag(NamedTuple):
    """A partition of a source: what the query has read, has planned, and what there is; None for what is not known.

    `lag` counts offsets, compacted ones too; `lost` are offsets that it has not read and the topic no longer has;
    `beyond` are those behind the end that it has read: the topic was made anew, or lost records.
    """

    source: int
    partition: TopicPartition
    position: int | None
    planned: int | None
    begin: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """How many offsets the query has not read."""
        if self.end is None or self.begin is None:
            return None
        return max(0, self.end - (self.begin if self.position is None else self.position))

    @property
    def lost(self) -> int | None:
        """How many offsets it can no more read."""
        return None if self.begin is None or self.position is None else max(0, self.begin - self.position)

    @property
    def beyond(self) -> int | None:
        """How many offsets it has read that are not there any more, at the end."""
        return None if self.end is None or self.position is None else max(0, self.position - self.end)

    @property
    def figures(self) -> LagFigures:
        """All its figures, those that are reckoned too."""
        return {
            "position": self.position,
            "planned": self.planned,
            "begin": self.begin,
            "end": self.end,
            "lag": self.lag,
            "lost": self.lost,
            "beyond": self.beyond,
        }


def partitions_of(sources: Iterable[SourcePosition]) -> set[TopicPartition]:
    """Return all partitions that a checkpoint names."""
    return {partition for each in sources for partition in each.partitions}


def lags_of(sources: Iterable[SourcePosition], begins: Offsets, ends: Offsets) -> list[PartitionLag]:
    """Return how far a query is behind; partitions that are gone are in neither of `begins` and `ends`."""
    return [
        PartitionLag(
            each.source,
            partition,
            each.position.get(partition),
            None if each.planned is None else each.planned.get(partition),
            begins.get(partition),
            ends.get(partition),
        )
        for each in sources
        for partition in sorted(each.partitions)
    ]


def read_checkpoint(folder: Path) -> tuple[int | None, list[SourcePosition]]:
    """Return the number of the last finished micro-batch, None if there is none, and where its topics' sources stand.

    Sources that do not count in offsets of topics are left out. Raises CheckpointError.
    """
    planned, finished = _numbers(folder / "offsets"), _numbers(folder / "commits")
    if not planned:
        raise CheckpointError(
            f"{folder} is no checkpoint of a streaming query, or it has not planned a micro-batch yet: there is "
            "nothing in offsets/ (copy a checkpoint that lies in HDFS or an object store to this machine first)"
        )
    last = max(finished, default=None)
    ahead = planned[-1] if last is None or planned[-1] > last else None
    done = {} if last is None else _sources(folder / "offsets" / str(last))
    next_ones = {} if ahead is None else _sources(folder / "offsets" / str(ahead))
    return last, [
        SourcePosition(number, done.get(number, {}), next_ones.get(number)) for number in sorted({*done, *next_ones})
    ]


def starting_offsets(folder: Path, source: int = 0) -> str:
    """Return a value for `startingOffsets` that goes on where a stopped query's source has got to.

    The query may have read with the built-in connector. What a micro-batch began and did not finish is read again.
    Raises CheckpointError.
    """
    _batch, sources = read_checkpoint(folder)
    for each in sources:
        if each.source == source and each.position:
            return json.dumps(to_json(each.position))
    raise CheckpointError(f"{folder} has no finished micro-batch of a topic's source number {source} (from 0)")


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(file.name) for file in folder.iterdir() if file.name.isdecimal())


def _sources(file: Path) -> dict[int, Offsets]:
    """Return the offsets of each source that has some, by its number in the query."""
    try:
        version, _batch, *sources = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read as a log of offsets: {error}") from error
    if version not in VERSIONS:
        raise CheckpointError(f"{file} is of version {version[:20]!r}; {', '.join(VERSIONS)} is understood")
    found = {number: _offsets(line) for number, line in enumerate(sources)}
    return {number: offsets for number, offsets in found.items() if offsets is not None}


def _offsets(line: str) -> Offsets | None:
    try:
        found = json.loads(line)
        return from_json(found) if isinstance(found, dict) else None
    except (ValueError, TypeError, AttributeError):
        return None  # another kind of source, or one that has read nothing ("-")
