"""What `topology.describe()` answers: the sub-topologies with their nodes, printed exactly as Kafka prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from barnabas.streams.topology.java_order import TreeSet


@dataclass(eq=False)
class NodeDescription:
    """A node with its neighbours, in Kafka's order: those with most nodes behind them first, as far as then known."""

    name: str
    predecessors: TreeSet[NodeDescription] = field(default_factory=lambda: TreeSet(_compare))
    successors: TreeSet[NodeDescription] = field(default_factory=lambda: TreeSet(_compare))
    size: int = 1

    def _names(self, nodes: Iterable[NodeDescription]) -> str:
        return ", ".join(node.name for node in nodes) or "none"


def _compare(first: NodeDescription, second: NodeDescription) -> int:
    if first.size != second.size:
        return second.size - first.size
    return (first.name > second.name) - (first.name < second.name)


@dataclass(eq=False)
class SourceDescription(NodeDescription):
    """A source and what it reads."""

    topics: tuple[str, ...] = ()
    topic_pattern: re.Pattern[str] | None = None

    def __str__(self) -> str:
        topics = f"[{', '.join(sorted(self.topics))}]" if self.topic_pattern is None else self.topic_pattern.pattern
        return f"Source: {self.name} (topics: {topics})\n      --> {self._names(self.successors)}"


@dataclass(eq=False)
class ProcessorDescription(NodeDescription):
    """A processor and the stores that it reaches."""

    stores: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"Processor: {self.name} (stores: [{', '.join(sorted(self.stores))}])\n"
            f"      --> {self._names(self.successors)}\n      <-- {self._names(self.predecessors)}"
        )


@dataclass(eq=False)
class SinkDescription(NodeDescription):
    """A sink: its topic, or None where an extractor names it."""

    topic: str | None = None

    def __str__(self) -> str:
        to = f"topic: {self.topic}" if self.topic is not None else "extractor class: TopicNameExtractor"
        return f"Sink: {self.name} ({to})\n      <-- {self._names(self.predecessors)}"


@dataclass(frozen=True)
class SubtopologyDescription:
    """The nodes that one task runs."""

    id: int
    nodes: tuple[NodeDescription, ...]

    def __str__(self) -> str:
        return f"Sub-topology: {self.id}\n" + "".join(f"    {node}\n" for node in self.nodes) + "\n"


@dataclass(frozen=True)
class GlobalStoreDescription:
    """A global store with what fills it."""

    id: int
    source: SourceDescription
    processor: ProcessorDescription

    def __str__(self) -> str:
        return (
            f"Sub-topology: {self.id} for global store (will not generate tasks)\n"
            f"    {self.source}\n    {self.processor}\n"
        )


@dataclass(frozen=True)
class TopologyDescription:
    """All of a topology; `str` is what Kafka's `toString` gives, and what Kafka visualizers read."""

    subtopologies: tuple[SubtopologyDescription, ...]
    global_stores: tuple[GlobalStoreDescription, ...]

    def __str__(self) -> str:
        parts = ["Topologies:\n "]
        subtopologies, stores = list(self.subtopologies), list(self.global_stores)
        expected = 0
        while subtopologies and stores:
            first = subtopologies.pop(0) if subtopologies[0].id == expected else stores.pop(0)
            parts.append(f"  {first}")
            expected += 1
        parts += [f"  {rest}" for rest in (*subtopologies, *stores)]
        return "".join(parts)


def in_order(nodes: Iterable[NodeDescription]) -> list[NodeDescription]:
    """Return nodes as Kafka orders them: by how many depend on them, then by name."""
    return sorted(nodes, key=lambda node: (-node.size, node.name))


def connect(predecessor: NodeDescription, successor: NodeDescription) -> None:
    """Draw an edge, and count the successor for all that lead to it."""
    successor.predecessors.add(predecessor)
    predecessor.successors.add(successor)
    _count(predecessor, successor.size)


def _count(node: NodeDescription, delta: int) -> None:
    node.size += delta
    for predecessor in node.predecessors:
        _count(predecessor, delta)
