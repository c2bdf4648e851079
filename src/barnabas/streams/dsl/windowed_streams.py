"""Streams by key and window, before they are aggregated: tumbling, hopping, unlimited, sliding, and sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.aggregating import AggregateBuilder, aggregator_of, merger_of, nothing
from barnabas.streams.dsl.counting import both_counts, one_more, zero
from barnabas.streams.dsl.graph.graph_node import GracePeriodGraphNode, ProcessorParameters
from barnabas.streams.dsl.ktable import KTable, table_options
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Named
from barnabas.streams.dsl.window_kinds import WindowKind, window_kind
from barnabas.streams.dsl.windows import SessionWindows, UnlimitedWindows
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.serdes import Serdes
from barnabas.streams.windowed import Windowed

K = TypeVar("K")
V = TypeVar("V")
A = TypeVar("A")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class _WindowedKStream(Generic[K, V]):
    """What windows and sessions have in common: how a table is made of an initializer, an aggregator, a merger."""

    def __init__(self, aggregates: AggregateBuilder, windows: Any) -> None:
        self.upstream = aggregates.upstream
        self._aggregates = aggregates
        self._windows = windows
        self._kind: WindowKind = window_kind(windows)
        self._emit_strategy = EmitStrategy.ON_WINDOW_UPDATE

    def count(
        self, *options: Named | Materialized[K, int], name: str | None = None, store: str | None = None
    ) -> KTable[Windowed[K], int]:
        """Count the records of each key and window."""
        given, asked = table_options(options, (name, store), "count")
        unnamed = asked is not None and asked.store_name is None and asked.store_supplier is None
        if unnamed and self._kind.counts_twice:
            self.upstream.builder.names.store(_AGGREGATE)
        return self._table(_AGGREGATE, (zero, one_more, both_counts), given, asked, Serdes.long())

    def reduce(
        self,
        reducer: Callable[[V, V], V],
        *options: Named | Materialized[K, V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], V]:
        """Combine the values of each key and window, the one so far with each new one."""
        reduce = functions.checked(reducer, "value new_value", "reduce", "reducer can't be null")
        given, asked = table_options(options, (name, store), "reduce")
        steps = (nothing, aggregator_of(reduce), merger_of(reduce))
        return self._table(_REDUCE, steps, given, asked, self.upstream.value_serde)

    def _table(
        self,
        prefix: str,
        steps: tuple[Any, Any, Any],
        given: str | None,
        asked: Materialized[Any, Any] | None,
        value_serde: Any,
    ) -> KTable[Windowed[K], Any]:
        upstream = self.upstream
        materialized = asked or Materialized(key_serde=upstream.key_serde, value_serde=value_serde)
        internal = materialized_internal(materialized, upstream.builder, prefix)
        internal.key_serde = upstream.key_serde if internal.key_serde is None else internal.key_serde
        internal.value_serde = value_serde if internal.value_serde is None else internal.value_serde
        name = upstream.builder.names.given_or(given, prefix)
        store = self._kind.store(internal, self._windows, self._emit_strategy)
        supplier = self._kind.supplier(self._windows, store, self._emit_strategy, *steps)
        node = GracePeriodGraphNode(name, ProcessorParameters(supplier, name), self._kind.closes_after(self._windows))
        serdes = (self._kind.key_serde(internal.key_serde, self._windows), internal.value_serde)
        table = self._aggregates.build(node, internal, serdes)
        node.output_versioned = False
        return table


class TimeWindowedKStream(_WindowedKStream[K, V]):
    """Records by key and window of time. Late records, after the window's end and grace, are dropped."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Add each value to the aggregate of its key and window: the aggregator takes (key, value, aggregate)."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        add = functions.checked(aggregator, "key value aggregate", "aggregate", "aggregator can't be null")
        given, asked = table_options(options, (name, store), "aggregate")
        return self._table(_AGGREGATE, (begin, add, None), given, asked, None)

    def emit_strategy(self, emit_strategy: EmitStrategy) -> TimeWindowedKStream[K, V]:
        """Emit each update, or only what a window has when it closes (KIP-825).

        Raises ValueError for windows that never close.
        """
        if isinstance(self._windows, UnlimitedWindows) and emit_strategy is EmitStrategy.ON_WINDOW_CLOSE:
            raise ValueError("ON_WINDOW_CLOSE emit strategy cannot be used for UnlimitedWindows")
        self._emit_strategy = _strategy(emit_strategy)
        return self


class SessionWindowedKStream(_WindowedKStream[K, V]):
    """Records by key and session. A record between two sessions merges them."""

    def aggregate(
        self,
        initializer: Callable[[], A],
        aggregator: Callable[[K, V, A], A],
        session_merger: Callable[[K, A, A], A],
        *options: Named | Materialized[K, A],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[Windowed[K], A]:
        """Add each value to the aggregate of its session; the merger makes one of (key, aggregate, aggregate)."""
        begin = functions.checked(initializer, "", "aggregate", "initializer can't be null")
        add = functions.checked(aggregator, "key value aggregate", "aggregate", "aggregator can't be null")
        merge = functions.checked(session_merger, "key first second", "aggregate", "sessionMerger can't be null")
        given, asked = table_options(options, (name, store), "aggregate")
        return self._table(_AGGREGATE, (begin, add, merge), given, asked, None)

    def emit_strategy(self, emit_strategy: EmitStrategy) -> SessionWindowedKStream[K, V]:
        """Emit each update, or only what a session has when it closes (KIP-825)."""
        self._emit_strategy = _strategy(emit_strategy)
        return self


def _strategy(given: Any) -> EmitStrategy:
    if not isinstance(given, EmitStrategy):
        raise TypeError(f"emit_strategy takes an EmitStrategy, not {given!r}")
    return given


def windowed_stream(aggregates: AggregateBuilder, windows: Any) -> Any:
    """Return what aggregates by these windows. Raises TypeError for what are no windows."""
    kind = SessionWindowedKStream if isinstance(windows, SessionWindows) else TimeWindowedKStream
    return kind(aggregates, windows)
