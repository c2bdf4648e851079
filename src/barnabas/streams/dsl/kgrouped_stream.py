"""`KGroupedStream`: a stream by key, before it is aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.aggregating import AggregateBuilder
from barnabas.streams.dsl.cogrouped import CogroupedKStream
from barnabas.streams.dsl.counting import one_more, zero
from barnabas.streams.dsl.graph.graph_node import ProcessorGraphNode, ProcessorParameters
from barnabas.streams.dsl.ktable import KTable, table_options
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Grouped, Named
from barnabas.streams.dsl.windowed_streams import SessionWindowedKStream, TimeWindowedKStream, windowed_stream
from barnabas.streams.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from barnabas.streams.engine.processors import KStreamAggregate, KStreamReduce
from barnabas.streams.serdes import Serdes

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class KGroupedStream(Generic[K, V]):
    """Records grouped by key. Records without key or value are dropped by the aggregations."""

    def __init__(self, upstream: Upstream, grouped: Grouped[K, V], repartition_required: bool) -> None:
        self.upstream = upstream.after(
            upstream.node, upstream.name, key_serde=grouped.key_serde, value_serde=grouped.value_serde
        )
        self.aggregates = AggregateBuilder(self.upstream, grouped.name, repartition_required)

    def count(
        self, *options: Named | Materialized[K, int], name: str | None = None, store: str | None = None
    ) -> KTable[K, int]:
        """Count the records of each key."""
        given, asked = table_options(options, (name, store), "count")
        if asked is not None and asked.store_name is None and asked.store_supplier is None:
            self.upstream.builder.names.store(_AGGREGATE)
        materialized = asked or Materialized(key_serde=self.upstream.key_serde, value_serde=Serdes.long())
        return self._aggregate(zero, one_more, given, materialized, value_serde=Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *options: Named | Materialized[K, V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]:
        """Combine the values of each key, the one so far with each new one; the first is taken as it is."""
        reduce = functions.checked(reducer, "value new_value", "reduce", "reducer can't be null")
        given, asked = table_options(options, (name, store), "reduce")
        upstream = self.upstream
        materialized = asked or Materialized(key_serde=upstream.key_serde, value_serde=upstream.value_serde)
        internal = materialized_internal(materialized, upstream.builder, _REDUCE)
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        internal.value_serde = upstream.value_serde if internal.value_serde is None else internal.value_serde
        step = upstream.builder.names.given_or(given, _REDUCE)
        supplier = KStreamReduce(internal.key_value_store(), reduce)
        node = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        return self.aggregates.build(node, internal, (internal.key_serde, internal.value_serde))

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, A]:
        """Add each value to the aggregate of its key: the aggregator takes (key, value, aggregate)."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        add = functions.checked(aggregator, "key value aggregate", "aggregate", "aggregator can't be null")
        given, asked = table_options(options, (name, store), "aggregate")
        return self._aggregate(begin, add, given, asked or Materialized(key_serde=self.upstream.key_serde))

    def _aggregate(
        self, begin: Any, add: Any, given: str | None, materialized: Materialized[Any, Any], value_serde: Any = None
    ) -> KTable[K, Any]:
        upstream = self.upstream
        internal = materialized_internal(materialized, upstream.builder, _AGGREGATE)
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        internal.value_serde = value_serde if internal.value_serde is None else internal.value_serde
        step = upstream.builder.names.given_or(given, _AGGREGATE)
        supplier = KStreamAggregate(internal.key_value_store(), begin, add)
        node = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        return self.aggregates.build(node, internal, (internal.key_serde, internal.value_serde))

    @overload
    def windowed_by(self, windows: TimeWindows | SlidingWindows | UnlimitedWindows) -> TimeWindowedKStream[K, V]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedKStream[K, V]: ...
    def windowed_by(self, windows: Any) -> Any:
        """Aggregate by windows of time, each for itself, or by sessions."""
        return windowed_stream(self.aggregates, windows)

    def cogroup(self, aggregator: Callable[[K, V, A], A]) -> CogroupedKStream[K, A]:
        """Aggregate several grouped streams into one table (KIP-150); the aggregator is for this stream's values."""
        cogrouped: CogroupedKStream[K, A] = CogroupedKStream(self.upstream)
        return cogrouped.cogroup(self, aggregator)
