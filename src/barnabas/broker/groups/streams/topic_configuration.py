"""What topics a topology needs, with how many partitions, and which of them are missing (KIP-1071).

As in Kafka Streams: a repartition topic has as many partitions as the sub-topology that writes it has tasks, unless the
application says how many; topics that are joined have as many as each other; a changelog has one for each task.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas import errors
from barnabas.broker.groups.streams.topology import InternalTopic, StreamsTopology, Subtopology

if TYPE_CHECKING:
    from barnabas.broker.groups.topic_image import TopicImage

#: Status codes of StreamsGroupHeartbeat's response.
STALE_TOPOLOGY = 0
MISSING_SOURCE_TOPICS = 1
INCORRECTLY_PARTITIONED_TOPICS = 2
MISSING_INTERNAL_TOPICS = 3
SHUTDOWN_APPLICATION = 4
ASSIGNMENT_DELAYED = 5

#: So many topics are named in a sentence.
_MOST_NAMES = 3

#: Name of a topic → its partitions; None where it is not there.
PartitionCount = Callable[[str], "int | None"]


class Problem(NamedTuple):
    """What keeps tasks from running: a status code, and a sentence."""

    status: int
    detail: str


class ConfiguredTopology(NamedTuple):
    """A topology beside the topics that are there.

    `task_counts` (by sub-topology) and `partitions` (of internal topics) are empty where they cannot be known;
    `missing` are the internal topics that are to be made, with their partitions.
    """

    topology: StreamsTopology
    task_counts: Mapping[str, int] = {}
    partitions: Mapping[str, int] = {}
    missing: tuple[InternalTopic, ...] = ()
    problem: Problem | None = None

    @property
    def is_ready(self) -> bool:
        """Whether tasks can run."""
        return self.problem is None


def configure(topology: StreamsTopology, image: TopicImage) -> ConfiguredTopology:
    """Hold a topology, which was checked, against the topics that are there."""

    def existing(name: str) -> int | None:
        topic = image.topic(name)
        return None if topic is None else topic.partitions

    parts = topology.subtopologies.values()
    absent = sorted({name for part in parts for name in part.source_topics if existing(name) is None})
    if absent:
        problem = Problem(MISSING_SOURCE_TOPICS, f"Source topics {_named(absent)} are missing.")
        return ConfiguredTopology(topology, problem=problem)
    try:
        tasks, counts = _count(parts, existing)
        missing = _missing(parts, counts, existing)
    except _IncorrectlyPartitionedError as wrong:
        return ConfiguredTopology(topology, problem=Problem(INCORRECTLY_PARTITIONED_TOPICS, str(wrong)))
    found = ConfiguredTopology(topology, tasks, counts, missing)
    if missing:
        names = _named([topic.name for topic in missing])
        return found._replace(problem=Problem(MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}"))
    return found


class _IncorrectlyPartitionedError(Exception):
    pass


def _count(parts: Collection[Subtopology], existing: PartitionCount) -> tuple[dict[str, int], dict[str, int]]:
    """Return the tasks of each sub-topology, and the partitions of each internal topic."""
    counts = repartition_counts(parts, existing)

    def of(name: str) -> int:
        there = existing(name)
        return counts[name] if there is None else there

    fixed = {topic.name: topic.partitions for part in parts for topic in part.repartition_sources}
    for part in _in_order(parts):
        for names in part.copartitioned():
            counts.update(_equal_counts(names, of, fixed))
    tasks = {}
    for part in parts:
        tasks[part.subtopology_id] = max(of(name) for name in part.inputs)
        counts.update(dict.fromkeys((topic.name for topic in part.changelogs), tasks[part.subtopology_id]))
    return tasks, counts


def repartition_counts(parts: Collection[Subtopology], existing: PartitionCount) -> dict[str, int]:
    """Return the partitions of repartition topics, from sources to sinks. Raises StreamsInvalidTopologyError."""
    ordered = _in_order(parts)
    sources = [topic for part in ordered for topic in part.repartition_sources]
    counts = {topic.name: topic.partitions for topic in sources if topic.partitions}
    while unknown := [(part, name) for part in ordered for name in part.repartition_sinks if name not in counts]:
        for part, name in unknown:
            known = [counts.get(topic.name) for topic in part.repartition_sources]
            known += [existing(topic) for topic in part.source_topics]
            if any(known) and name not in counts:
                counts[name] = max(count for count in known if count is not None)
        if all(name not in counts for _, name in unknown):
            raise errors.StreamsInvalidTopologyError(
                "Failed to compute number of partitions for all repartition topics. "
                "There may be loops in the topology that cannot be resolved."
            )
    for topic in sources:
        if topic.name not in counts:
            raise errors.StreamsInvalidTopologyError(
                f"Failed to compute number of partitions for all repartition topics, because {topic.name}, "
                "which is a source, is never used as a sink topic."
            )
    return counts


def _equal_counts(names: frozenset[str], of: Callable[[str], int], fixed: Mapping[str, int]) -> dict[str, int]:
    """Return the partitions of the repartition topics among topics that are joined; `fixed` has 0 for no wish."""
    internal = {name: of(name) for name in sorted(names) if name in fixed}
    others = {name: of(name) for name in sorted(names) if name not in fixed}
    wished = {name: count for name, count in internal.items() if fixed[name]}
    given = others or wished
    if len(set(given.values())) > 1:
        told = ", ".join(f"{name}={count}" for name, count in given.items())
        raise _IncorrectlyPartitionedError(f"Following topics do not have the same number of partitions: [{told}]")
    count = next(iter(given.values())) if given else max(internal.values(), default=0)
    for name, own in wished.items():
        if own != count:
            raise _IncorrectlyPartitionedError(
                f"Number of partitions [{own}] of repartition topic [{name}] doesn't match number of partitions "
                f"[{count}] of the source topic."
            )
    return dict.fromkeys(internal, count)


def _missing(
    parts: Iterable[Subtopology], counts: Mapping[str, int], existing: PartitionCount
) -> tuple[InternalTopic, ...]:
    missing = {}
    for topic in (topic for part in parts for topic in (*part.repartition_sources, *part.changelogs)):
        wanted, found = topic.partitions or counts[topic.name], existing(topic.name)
        if found is None:
            missing[topic.name] = topic._replace(partitions=wanted)
        elif found != wanted:
            raise _IncorrectlyPartitionedError(
                f"Existing topic {topic.name} has different number of partitions: expected {wanted}, found {found}"
            )
    return tuple(missing[name] for name in sorted(missing))


def _in_order(parts: Collection[Subtopology]) -> list[Subtopology]:
    """Return the sub-topologies in the order of Java's hash map.

    What a repartition topic is written from may be partly unknown when it is counted, so the order matters; and a group
    that Apache Kafka coordinated before has its topics by that order.
    """
    size = 16
    while len(parts) > size * 3 // 4:
        size *= 2

    def bucket(part: Subtopology) -> int:
        number = 0
        units = part.subtopology_id.encode("utf-16-be")
        for high, low in zip(units[::2], units[1::2], strict=True):
            number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
        return (number ^ number >> 16) & (size - 1)

    return sorted(parts, key=bucket)


def _named(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MOST_NAMES])
    left = len(names) - _MOST_NAMES
    return shown if left <= 0 else f"{shown} and {left} additional topics"
