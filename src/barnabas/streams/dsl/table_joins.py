"""Joins of two tables by key. Source: Kafka's KTableImpl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.graph.graph_node import ProcessorParameters
from barnabas.streams.dsl.graph.join_nodes import KTableKTableJoinNode
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.engine.processors import (
    KTableKTableInnerJoin,
    KTableKTableJoinMerger,
    KTableKTableLeftJoin,
    KTableKTableOuterJoin,
    KTableKTableRightJoin,
)

if TYPE_CHECKING:
    from barnabas.streams.dsl.ktable import KTable

#: By which sides keep rows without a partner: the processor of this side and of the other.
_PROCESSORS: dict[tuple[bool, bool], tuple[Any, Any]] = {
    (False, False): (KTableKTableInnerJoin, KTableKTableInnerJoin),
    (True, False): (KTableKTableLeftJoin, KTableKTableRightJoin),
    (True, True): (KTableKTableOuterJoin, KTableKTableOuterJoin),
}


def join(
    table: KTable[Any, Any],
    other: KTable[Any, Any],
    joiner: Any,
    options: tuple[str | None, Materialized[Any, Any] | None],
    sides: tuple[bool, bool, str],
) -> KTable[Any, Any]:
    """Add the join of two tables and return the table that comes out."""
    left, right, step = sides
    joined = functions.checked(joiner, "value other_value", step, "joiner can't be null")
    given, materialized = options
    upstream, builder = table.upstream, table.upstream.builder
    internal = None if materialized is None else materialized_internal(materialized, builder, "KTABLE-MERGE-")
    merge = builder.names.given_or(given, "KTABLE-MERGE-")
    sources = upstream.copartition_with([other.upstream])
    if left:
        table.enable_sending_old_values(True)
    if right:
        other.enable_sending_old_values(True)
    store = None
    if internal is not None:
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        store = internal.key_value_store()
    this_kind, other_kind = _PROCESSORS[left, right]
    this_side = this_kind(table, other, joined)
    other_side = other_kind(other, table, lambda second, first: joined(first, second))
    this_name = builder.names.suffixed_or(given, "-join-this", "KTABLE-JOINTHIS-")
    other_name = builder.names.suffixed_or(given, "-join-other", "KTABLE-JOINOTHER-")
    merger = KTableKTableJoinMerger(this_side, other_side, None if store is None else store.name, store)
    node = KTableKTableJoinNode(
        (ProcessorParameters(this_side, this_name), ProcessorParameters(other_side, other_name)),
        ProcessorParameters(merger, merge),
        (upstream.name, other.upstream.name),
        (table.value_getter_supplier().store_names(), other.value_getter_supplier().store_names()),
    )
    node.output_versioned = internal is not None and internal.is_versioned
    builder.add(upstream.node, node)
    builder.add(other.upstream.node, node)
    after = upstream.after(
        node,
        merge,
        sources=sources,
        key_serde=upstream.key_serde if internal is None else internal.key_serde,
        value_serde=None if internal is None else internal.value_serde,
    )
    return type(table)(after, merger, None if store is None else store.name)
