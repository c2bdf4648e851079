"""`CogroupedKStream`: several grouped streams aggregated into one table (KIP-150).

Source: Kafka's CogroupedStreamAggregateBuilder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.graph.graph_node import (
    GracePeriodGraphNode,
    GraphNode,
    ProcessorGraphNode,
    ProcessorParameters,
)
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode
from barnabas.streams.dsl.ktable import KTable, table_options
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Named
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.dsl.window_kinds import window_kind
from barnabas.streams.dsl.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.engine.processors import KStreamAggregate, KTablePassThrough
from barnabas.streams.topology.materialized_internal import MaterializedInternal
from barnabas.streams.topology.stores import StoreBuilder
from barnabas.streams.windowed import Windowed

if TYPE_CHECKING:
    from barnabas.streams.dsl.kgrouped_stream import KGroupedStream

K = TypeVar("K")
A = TypeVar("A")
V = TypeVar("V")

_AGGREGATE = "COGROUPKSTREAM-AGGREGATE-"
_MERGE = "COGROUPKSTREAM-MERGE-"
_ON_UPDATE = EmitStrategy.ON_WINDOW_UPDATE


class _Groups:
    """The grouped streams of a cogroup with their aggregators; their repartitions are made once."""

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        self.aggregators: dict[KGroupedStream[Any, Any], Any] = {}
        self._parents: dict[KGroupedStream[Any, Any], GraphNode] = {}

    def build(
        self,
        given: str | None,
        internal: MaterializedInternal,
        step: tuple[Callable[[Any], Any], StoreBuilder, int | None],
        key_serde: Any,
    ) -> KTable[Any, Any]:
        """Add an aggregation for each stream, and what merges them; `step` makes the processor of an aggregator."""
        make, store, grace_ms = step
        builder = self.upstream.builder
        self._repartition(internal)
        suppliers: list[Any] = []
        nodes: list[GraphNode] = []
        for number, (grouped, aggregator) in enumerate(self.aggregators.items()):
            supplier = make(aggregator)
            name = builder.names.suffixed_or(given, f"-cogroup-agg-{number}", _AGGREGATE)
            parameters = ProcessorParameters(supplier, name)
            node = (
                ProcessorGraphNode(name, parameters)
                if grace_ms is None
                else GracePeriodGraphNode(name, parameters, grace_ms)
            )
            if grace_ms is None:
                node.output_versioned = internal.is_versioned
            suppliers.append(supplier)
            nodes.append(node)
            builder.add(self._parents[grouped], node)
        merge = builder.names.suffixed_or(given, "-cogroup-merge", _MERGE)
        passing = KTablePassThrough(suppliers, store)
        merge_node = ProcessorGraphNode(merge, ProcessorParameters(passing, merge))
        builder.add(nodes, merge_node)
        after = self.upstream.after(
            merge_node,
            merge,
            sources=frozenset({merge}),
            key_serde=key_serde,
            value_serde=internal.value_serde,
        )
        return KTable(after, passing, internal.queryable_store_name)

    def _repartition(self, internal: MaterializedInternal) -> None:
        for grouped in self.aggregators:
            aggregates, upstream = grouped.aggregates, grouped.upstream
            if not aggregates.repartition_required:
                self._parents[grouped] = upstream.node
                continue
            given = aggregates.repartition_name
            repartition = repartitioned_source(
                upstream.builder,
                upstream.key_serde,
                upstream.value_serde,
                str(internal.store_name) if given is None else given,
                named_by_user=given is not None or internal.queryable_store_name is not None,
            )
            if grouped not in self._parents:
                node = OptimizableRepartitionNode(repartition)
                upstream.builder.add(upstream.node, node)
                self._parents[grouped] = node
        first, *others = [grouped.upstream for grouped in self._parents]
        first.copartition_with(others)

    def materialized(self, asked: Materialized[Any, Any] | None) -> MaterializedInternal:
        """Return the store asked for, or the next one."""
        return materialized_internal(asked or Materialized(), self.upstream.builder, _AGGREGATE)


class CogroupedKStream(Generic[K, A]):
    """Grouped streams of the same keys, each with its aggregator."""

    def __init__(self, upstream: Upstream) -> None:
        self._groups = _Groups(upstream.after(upstream.node, upstream.name, key_serde=None, value_serde=None))

    def cogroup(
        self, grouped_stream: KGroupedStream[K, V], aggregator: Callable[[K, V, A], A]
    ) -> CogroupedKStream[K, A]:
        """Add a stream and what its values do to the aggregate: the aggregator takes (key, value, aggregate)."""
        from barnabas.streams.dsl.kgrouped_stream import KGroupedStream

        if not isinstance(grouped_stream, KGroupedStream):
            raise TypeError(f"cogroup needs a KGroupedStream, not {grouped_stream!r}")
        checked = functions.checked(aggregator, "key value aggregate", "cogroup", "aggregator can't be null")
        self._groups.aggregators[grouped_stream] = checked
        return self

    def aggregate(
        self,
        initializer: Callable[[], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, A]:
        """Aggregate the values of all streams by key."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        given, asked = table_options(options, (name, store), "aggregate")
        internal = self._groups.materialized(asked)
        kept = internal.key_value_store()
        step = (lambda aggregator: KStreamAggregate(kept, begin, aggregator), kept, None)
        return self._groups.build(given, internal, step, internal.key_serde)

    @overload
    def windowed_by(
        self, windows: TimeWindows | SlidingWindows | UnlimitedWindows
    ) -> TimeWindowedCogroupedKStream[K, A]: ...
    @overload
    def windowed_by(self, windows: SessionWindows) -> SessionWindowedCogroupedKStream[K, A]: ...
    def windowed_by(self, windows: Any) -> Any:
        """Aggregate by windows of time, or by sessions."""
        kind = SessionWindowedCogroupedKStream if isinstance(windows, SessionWindows) else TimeWindowedCogroupedKStream
        return kind(self._groups, windows)


class _WindowedCogroup(Generic[K, A]):
    def __init__(self, groups: _Groups, windows: Any) -> None:
        self._groups = groups
        self._windows = windows
        self._kind = window_kind(windows)

    def _aggregate(self, begin: Any, merge: Any, options: Any, keywords: Any) -> KTable[Windowed[K], A]:
        given, asked = table_options(options, keywords, "aggregate")
        kind, windows = self._kind, self._windows
        internal = self._groups.materialized(asked)
        kept = kind.store(internal, windows, _ON_UPDATE)
        step = (
            lambda aggregator: kind.supplier(windows, kept, _ON_UPDATE, begin, aggregator, merge),
            kept,
            kind.closes_after(windows),
        )
        return self._groups.build(given, internal, step, kind.key_serde(internal.key_serde, windows))


class TimeWindowedCogroupedKStream(_WindowedCogroup[K, A]):
    """Grouped streams by window of time."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregate the values of all streams by key and window."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        return self._aggregate(begin, None, options, (name, store))


class SessionWindowedCogroupedKStream(_WindowedCogroup[K, A]):
    """Grouped streams by session."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        session_merger: Callable[[K, A, A], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Aggregate the values of all streams by key and session; the merger takes (key, aggregate, aggregate)."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        merge = functions.checked(session_merger, "key first second", "aggregate", "sessionMerger can't be null")
        return self._aggregate(begin, merge, options, (name, store))
