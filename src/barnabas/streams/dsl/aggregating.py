"""What all aggregations of a stream have in common: the repartition before them, and the table behind.

Source: Kafka's GroupedStreamAggregateBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorGraphNode
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode
from barnabas.streams.dsl.ktable import KTable
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.topology.materialized_internal import MaterializedInternal


def nothing() -> None:
    """Begin a reduction."""


def aggregator_of(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a reducer as an aggregator that takes the first value as it is."""
    return lambda key, value, aggregate: value if aggregate is None else reducer(aggregate, value)


def merger_of(reducer: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a reducer as a merger of sessions, either of which may have no value yet."""
    aggregate = aggregator_of(reducer)
    return lambda key, first, second: aggregate(key, second, first)


class AggregateBuilder:
    """Adds aggregations of one grouped stream; they share the repartition when the user named it."""

    def __init__(self, upstream: Upstream, repartition_name: str | None, repartition_required: bool) -> None:
        self.upstream = upstream
        self.repartition_name = repartition_name
        self.repartition_required = repartition_required
        self._repartition: GraphNode | None = None

    def build(
        self, node: ProcessorGraphNode, internal: MaterializedInternal, serdes: tuple[Any, Any]
    ) -> KTable[Any, Any]:
        """Add an aggregation, with a repartition before it when keys changed."""
        upstream, builder = self.upstream, self.upstream.builder
        parent, sources = upstream.node, upstream.sources
        if self.repartition_required:
            given = self.repartition_name
            repartition = repartitioned_source(
                builder,
                upstream.key_serde,
                upstream.value_serde,
                str(internal.store_name) if given is None else given,
                named_by_user=given is not None or internal.queryable_store_name is not None,
            )
            if self._repartition is None or given is None:
                self._repartition = OptimizableRepartitionNode(repartition)
            builder.add(parent, self._repartition)
            parent, sources = self._repartition, frozenset({repartition.source_name})
        node.output_versioned = internal.is_versioned
        builder.add(parent, node)
        after = upstream.after(node, node.name, sources=sources, key_serde=serdes[0], value_serde=serdes[1])
        return KTable(after, node.parameters.supplier, internal.queryable_store_name)
