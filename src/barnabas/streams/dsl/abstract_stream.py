"""What streams, tables and groups have in common: a name, serdes, sources, and their step in the graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from barnabas.streams.dsl.graph.graph_node import GraphNode
from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder


@dataclass(frozen=True, eq=False)
class Upstream:
    """Where a stream or table comes from; serdes of None mean the default ones of the settings."""

    builder: InternalStreamsBuilder
    name: str
    node: GraphNode
    sources: frozenset[str]
    key_serde: Any = None
    value_serde: Any = None

    def after(self, node: GraphNode, name: str, **changes: Any) -> Upstream:
        """Return what comes after a further step."""
        return replace(self, node=node, name=name, **changes)

    def copartition_with(self, others: Iterable[Upstream]) -> frozenset[str]:
        """Demand that the topics of all these are partitioned alike; return the sources of all."""
        sources = self.sources.union(*(other.sources for other in others))
        self.builder.topology_builder.copartitioning.add(sources)
        return sources
