"""Which repartition topics a batch can go through at once, and in which order their sub-topologies follow. No I/O.

A sub-topology is a level behind the last of those that write what it reads. A topic that closes a circle (the response
topic of a foreign-key join goes back to where its request came from) is left to the next batch, as all topics are where
`repartition.within.batch` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.streams.topology.processor_topology import TopicsInfo


class Levels(NamedTuple):
    """The sub-topologies by level, and what of repartition topics they read.

    `reads` has by sub-topology all its repartition topics, `inner` those topics that can be read within a batch.
    `tasks` and `partitions` say how many there are.
    """

    stages: tuple[tuple[int, ...], ...]
    reads: Mapping[int, tuple[str, ...]]
    inner: frozenset[str]
    tasks: Mapping[int, int]
    partitions: Mapping[str, int]

    def stage_of(self, subtopology: int) -> int:
        """Return the level of a sub-topology."""
        return next(number for number, found in enumerate(self.stages) if subtopology in found)

    def inner_of(self, subtopology: int) -> tuple[str, ...]:
        """Return what a sub-topology can read within a batch."""
        return tuple(topic for topic in self.reads.get(subtopology, ()) if topic in self.inner)


def levels_of(infos: Mapping[int, TopicsInfo], tasks: Mapping[int, int], partitions: Mapping[str, int]) -> Levels:
    """Return the levels of a topology."""
    reads = {number: tuple(sorted(info.repartition_source_topics)) for number, info in infos.items()}
    # A store's changelog is read to restore it, up to what a decision tells.
    changelogs = {topic for info in infos.values() for topic in info.state_changelog_topics}
    edges = {
        (writer, topic, reader)
        for writer, info in infos.items()
        for reader, topics in reads.items()
        for topic in info.sink_topics & set(topics)
    }
    back = _closing(sorted(infos), edges)
    inner = {topic for topics in reads.values() for topic in topics} - changelogs - back
    levels = _levels(sorted(infos), {(writer, reader) for writer, topic, reader in edges if topic in inner})
    every = range(1 + max(levels.values()))
    stages = tuple(tuple(number for number in sorted(infos) if levels[number] == level) for level in every)
    counts = {topic: partitions[topic] for topics in reads.values() for topic in topics}
    return Levels(stages, reads, frozenset(inner), dict(tasks), counts)


def _closing(numbers: Iterable[int], edges: Iterable[tuple[int, str, int]]) -> set[str]:
    """Return topics without which there is no circle: those that lead back to where a walk came from."""
    leads: dict[int, list[tuple[str, int]]] = {}
    for writer, topic, reader in sorted(edges):
        leads.setdefault(writer, []).append((topic, reader))
    found: set[str] = set()
    done: set[int] = set()

    def walk(number: int, path: tuple[int, ...]) -> None:
        for topic, reader in leads.get(number, ()):
            if reader in path:
                found.add(topic)
            elif reader not in done:
                walk(reader, (*path, reader))
        done.add(number)

    for number in numbers:
        if number not in done:
            walk(number, (number,))
    return found


def _levels(numbers: Iterable[int], edges: Iterable[tuple[int, int]]) -> dict[int, int]:
    levels = dict.fromkeys(numbers, 0)
    has_moved = True
    while has_moved:
        has_moved = False
        for writer, reader in edges:
            if levels[reader] <= levels[writer]:
                levels[reader] = levels[writer] + 1
                has_moved = True
    return levels
