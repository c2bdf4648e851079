"""Where tables begin: a topic, a stream that is taken for one, a topic for every task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.global_ktable import GlobalKTable
from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorGraphNode, ProcessorParameters
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode
from barnabas.streams.dsl.graph.source_nodes import TableSourceNode
from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder
from barnabas.streams.dsl.ktable import KTable
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Consumed
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.engine.processors import KTableSource, KTableSourceValueGetterSupplier
from barnabas.streams.errors import TopologyError
from barnabas.streams.topology.materialized_internal import MaterializedInternal

if TYPE_CHECKING:
    from barnabas.streams.dsl.kstream import KStream


def table_source(materialized: MaterializedInternal) -> KTableSource:
    """Return the processor that makes changes of records, and keeps them when it must."""
    return KTableSource(materialized.key_value_store(), materialized.queryable_store_name)


def table_of_topic(
    builder: InternalStreamsBuilder, topic: str, consumed: Consumed[Any, Any], materialized: MaterializedInternal
) -> KTable[Any, Any]:
    """Add a table that is read from a topic."""
    source = builder.names.suffixed_or(consumed.name, "-source", "KSTREAM-SOURCE-")
    name = builder.names.given_or(consumed.name, "KTABLE-SOURCE-")
    supplier = table_source(materialized)
    node = TableSourceNode(name, source, topic, consumed, ProcessorParameters(supplier, name))
    node.output_versioned = materialized.is_versioned
    builder.add(builder.root, node)
    upstream = Upstream(builder, name, node, frozenset({source}), consumed.key_serde, consumed.value_serde)
    return KTable(upstream, supplier, materialized.queryable_store_name)


def global_table_of_topic(
    builder: InternalStreamsBuilder, topic: str, consumed: Consumed[Any, Any], materialized: MaterializedInternal
) -> GlobalKTable[Any, Any]:
    """Add a table that every task reads whole. Raises `TopologyError` for a versioned store."""
    if materialized.is_versioned:
        raise TopologyError("GlobalTables cannot be versioned.")
    materialized.logging_enabled = False
    source = builder.names.suffixed_or(consumed.name, "-source", "KSTREAM-SOURCE-")
    name = builder.names.given_or(consumed.name, "KTABLE-SOURCE-")
    supplier = table_source(materialized)
    supplier.materialize()
    node = TableSourceNode(name, source, topic, consumed, ProcessorParameters(supplier, name), is_global=True)
    builder.add(builder.root, node)
    getter = KTableSourceValueGetterSupplier(str(materialized.store_name))
    return GlobalKTable(getter, materialized.queryable_store_name)


def stream_to_table(
    stream: KStream[Any, Any], given: str | None, materialized: Materialized[Any, Any]
) -> KTable[Any, Any]:
    """Add the step that takes a stream for a table."""
    upstream = stream.upstream
    builder = upstream.builder
    name = builder.names.given_or(given, "KSTREAM-TOTABLE-")
    internal = materialized_internal(materialized, builder, "KSTREAM-TOTABLE-")
    key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
    value_serde = upstream.value_serde if internal.value_serde is None else internal.value_serde
    parent: GraphNode = upstream.node
    sources = upstream.sources
    if stream.repartition_required:
        repartition = repartitioned_source(builder, key_serde, value_serde, name, named_by_user=given is not None)
        parent = OptimizableRepartitionNode(repartition)
        builder.add(upstream.node, parent)
        sources = frozenset({repartition.source_name})
    supplier = table_source(internal)
    node = ProcessorGraphNode(name, ProcessorParameters(supplier, name))
    node.output_versioned = internal.is_versioned
    builder.add(parent, node)
    after = upstream.after(node, name, sources=sources, key_serde=key_serde, value_serde=value_serde)
    return KTable(after, supplier, internal.queryable_store_name)
