"""`KGroupedTable`: the rows of a table by another key, before they are aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.counting import one_less, one_more, zero
from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorGraphNode, ProcessorParameters
from barnabas.streams.dsl.graph.repartition_nodes import GroupedTableOperationRepartitionNode, Repartition
from barnabas.streams.dsl.ktable import KTable, table_options
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Named
from barnabas.streams.dsl.repartitioned_source import SUFFIX
from barnabas.streams.engine.processors import KTableAggregate, KTableReduce
from barnabas.streams.serdes import Serdes

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KTABLE-AGGREGATE-"
_REDUCE = "KTABLE-REDUCE-"


class KGroupedTable(Generic[K, V]):
    """Rows grouped by a key. A changed row is first taken from its old group, then added to its new one."""

    def __init__(self, upstream: Upstream, repartition_name: str | None) -> None:
        self.upstream = upstream
        self._repartition_name = repartition_name
        self._repartition: GraphNode | None = None

    def count(
        self, *options: Named | Materialized[K, int], name: str | None = None, store: str | None = None
    ) -> KTable[K, int]:
        """Count the rows of each key."""
        given, asked = table_options(options, (name, store), "count")
        make = _aggregate(zero, one_more, one_less)
        return self._table(_AGGREGATE, make, given, asked, Serdes.long())

    def reduce(
        self,
        adder: Callable[[V, V], V],
        subtractor: Callable[[V, V], V],
        *options: Named | Materialized[K, V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]:
        """Combine the values of each key; both functions take (value so far, value of the row)."""
        add = functions.checked(adder, "value new_value", "reduce", "adder can't be null")
        remove = functions.checked(subtractor, "value old_value", "reduce", "subtractor can't be null")
        given, asked = table_options(options, (name, store), "reduce")
        return self._table(
            _REDUCE, lambda kept: KTableReduce(kept, add, remove), given, asked, self.upstream.value_serde
        )

    def aggregate(
        self,
        initializer: Callable[[], A],
        adder: Callable[[K, V, A], A],
        subtractor: Callable[[K, V, A], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, A]:
        """Add rows to the aggregate of their key and take them from it; both take (key, value, aggregate)."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        add = functions.checked(adder, "key value aggregate", "aggregate", "adder can't be null")
        remove = functions.checked(subtractor, "key value aggregate", "aggregate", "subtractor can't be null")
        given, asked = table_options(options, (name, store), "aggregate")
        return self._table(_AGGREGATE, _aggregate(begin, add, remove), given, asked, None)

    def _table(
        self,
        kind: str,
        make: Callable[[Any], Any],
        given: str | None,
        asked: Materialized[Any, Any] | None,
        value_serde: Any,
    ) -> KTable[K, Any]:
        upstream, names = self.upstream, self.upstream.builder.names
        materialized = asked or Materialized(key_serde=upstream.key_serde, value_serde=value_serde)
        internal = materialized_internal(materialized, upstream.builder, _AGGREGATE)
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        internal.value_serde = value_serde if internal.value_serde is None else internal.value_serde
        supplier = make(internal.key_value_store())
        sink = names.suffixed_or(given, "-sink", "KSTREAM-SINK-")
        source = names.suffixed_or(given, "-source", "KSTREAM-SOURCE-")
        step = names.given_or(given, kind)
        node = self._repartition
        if node is None or self._repartition_name is None:
            topic = (self._repartition_name or str(internal.store_name)) + SUFFIX
            repartition = Repartition(source, sink, topic, upstream.key_serde, upstream.value_serde)
            node = self._repartition = GroupedTableOperationRepartitionNode(repartition)
        upstream.builder.add(upstream.node, node)
        aggregate = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        aggregate.output_versioned = internal.is_versioned
        upstream.builder.add(node, aggregate)
        after = upstream.after(
            aggregate,
            step,
            sources=frozenset({source}),
            key_serde=internal.key_serde,
            value_serde=internal.value_serde,
        )
        return KTable(after, supplier, internal.queryable_store_name)


def _aggregate(begin: Any, add: Any, remove: Any) -> Callable[[Any], Any]:
    return lambda store: KTableAggregate(store, begin, add, remove)
