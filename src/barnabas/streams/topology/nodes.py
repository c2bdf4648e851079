"""The nodes of a topology: what reads topics, what processes records, what writes topics.

A node describes; each task of the engine makes processors of its own from it. `children` are names, in the order in
which they were added, which is the order in which records reach them. `made_at` is the user's line, for errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from barnabas.streams.topology.processor_api import (
    FixedKeyProcessorSupplier,
    ProcessorSupplier,
    StreamPartitioner,
    TimestampExtractor,
    TopicNameExtractor,
)
from barnabas.streams.topology.stores import StoreBuilder


@dataclass(eq=False)
class Node:
    """What all kinds of nodes have."""

    name: str
    predecessors: tuple[str, ...] = ()
    children: list[str] = field(default_factory=list)
    made_at: str = ""


@dataclass(eq=False)
class SourceNode(Node):
    """Reads topics, or those that match a pattern. Deserializers of None mean the default serdes'."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    key_deserializer: Any = None
    value_deserializer: Any = None
    #: earliest, latest, none, a timedelta back from now, or None for what the settings say.
    auto_offset_reset: Any = None
    #: The topics of the cluster that the pattern matches, once they are known.
    matched: tuple[str, ...] = ()

    @property
    def read_topics(self) -> tuple[str, ...]:
        """All topics that are known to be read."""
        return self.topics + self.matched


@dataclass(eq=False)
class ProcessorNode(Node):
    """Runs a processor of its own in each task, which reaches the stores named."""

    supplier: ProcessorSupplier | FixedKeyProcessorSupplier | Any = None
    state_store_names: list[str] = field(default_factory=list)


@dataclass(eq=False)
class SinkNode(Node):
    """Writes to a topic, or to the one that the extractor names. Serializers of None mean the default serdes'."""

    topic: str | None = None
    topic_extractor: TopicNameExtractor | None = None
    key_serializer: Any = None
    value_serializer: Any = None
    partitioner: StreamPartitioner | None = None


@dataclass(frozen=True)
class InternalTopicProperties:
    """What a repartition topic must be like: its number of partitions, where the user gave one."""

    number_of_partitions: int | None = None


@dataclass(frozen=True)
class GlobalStoreRestore:
    """How a global store is filled: through the processor (`reprocess`), or by the topic's bytes as they are."""

    source_name: str
    processor_name: str
    topic: str
    reprocess: bool


@dataclass(frozen=True)
class ProcessorTopology:
    """The nodes that one task runs, of one sub-topology or of all, and their stores; topics under their real names."""

    nodes: dict[str, Node]
    source_by_topic: dict[str, str]
    pattern_sources: tuple[str, ...]
    sink_topics: dict[str, str]
    state_stores: dict[str, StoreBuilder]
    global_stores: dict[str, StoreBuilder]
    store_to_changelog_topic: dict[str, str]
    repartition_topics: frozenset[str]
    global_restores: dict[str, GlobalStoreRestore]

    def source_of(self, topic: str) -> str | None:
        """Return the name of the source that reads a topic; None when no source does."""
        if (name := self.source_by_topic.get(topic)) is not None:
            return name
        for name in self.pattern_sources:
            source = self.nodes[name]
            if isinstance(source, SourceNode) and source.pattern is not None and source.pattern.fullmatch(topic):
                return name
        return None

    def stores_of(self, names: Iterable[str]) -> list[StoreBuilder]:
        """Return the builders of local stores by their names."""
        return [self.state_stores[name] for name in names if name in self.state_stores]
