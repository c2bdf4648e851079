"""`KTable`: the newest value of each key, and how it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.graph.graph_node import (
    GraphNode,
    ProcessorGraphNode,
    ProcessorParameters,
    ProcessorToStateConnectorNode,
    TableSuppressNode,
    VersionedSemanticsNode,
)
from barnabas.streams.dsl.kstream import KStream
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.options import Grouped, Named, TableJoined, combined, name_of, only, pick
from barnabas.streams.dsl.suppressed import Suppressed
from barnabas.streams.engine.processors import (
    KTableFilter,
    KTableMapValues,
    KTableRepartitionMap,
    KTableSource,
    KTableSourceValueGetterSupplier,
    KTableSuppressProcessorSupplier,
    KTableToStream,
    KTableTransformValues,
)
from barnabas.streams.errors import TopologyError
from barnabas.streams.serdes import Serde
from barnabas.streams.topology.materialized_internal import MaterializedInternal
from barnabas.streams.topology.stores import StoreBuilder, StoreKind
from barnabas.streams.topology.topology import check_supplier

if TYPE_CHECKING:
    from barnabas.streams.dsl.kgrouped_table import KGroupedTable

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")

_KINDS = (Named, Materialized)


class KTable(Generic[K, V]):
    """A table. Methods add steps as a stream's do; a value of None is no row.

    A store is kept where one is named, where a step needs to look values up, and where it needs the old ones.
    """

    def __init__(self, upstream: Upstream, supplier: Any, queryable_store_name: str | None) -> None:
        self.upstream = upstream
        self._supplier = supplier
        self._queryable_store_name = queryable_store_name
        self._send_old_values = False

    def queryable_store_name(self) -> str | None:
        """Return the name under which the store is queried; None when it was given none."""
        return self._queryable_store_name

    # -- row by row

    def filter(
        self,
        predicate: Callable[[K, V], object],
        *options: Named | Materialized[K, V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]:
        """Keep the rows for which the predicate holds."""
        return self._filter(
            functions.checked(predicate, "key value", "filter", "predicate can't be null"),
            options,
            (name, store),
            False,
        )

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *options: Named | Materialized[K, V],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]:
        """Drop the rows for which the predicate holds."""
        return self._filter(
            functions.checked(predicate, "key value", "filter_not", "predicate can't be null"),
            options,
            (name, store),
            True,
        )

    def _filter(self, predicate: Any, options: Any, keywords: Any, filter_not: bool) -> KTable[K, V]:
        given, materialized = table_options(options, keywords, "filter")
        names = self.upstream.builder.names
        internal = _internal(materialized)
        if internal is not None and internal.store_name is None:
            names.store("KTABLE-FILTER-")
        name = names.given_or(given, "KTABLE-FILTER-")
        store = _queryable_store(internal, self.upstream)
        supplier = KTableFilter(self, predicate, filter_not, None if store is None else store.name, store)
        serdes = self._serdes(internal, keeps_value=True)
        return self._table_step(VersionedSemanticsNode, supplier, name, internal, serdes)

    @overload
    def map_values(
        self,
        mapper: Callable[[V], V2],
        *options: Named | Materialized[K, V2],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V2]: ...
    @overload
    def map_values(
        self,
        mapper: Callable[[K, V], V2],
        *options: Named | Materialized[K, V2],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], *options: Any, name: str | None = None, store: str | None = None
    ) -> KTable[K, Any]:
        """Make another value of each value; the mapper takes (value) or (key, value), and never None."""
        with_key = functions.with_key(mapper, "value", "map_values", "mapper can't be null")
        given, materialized = table_options(options, (name, store), "map_values")
        names = self.upstream.builder.names
        internal = _internal(materialized)
        if internal is not None and internal.store_name is None:
            names.store("KTABLE-MAPVALUES-")
        step = names.given_or(given, "KTABLE-MAPVALUES-")
        kept = _queryable_store(internal, self.upstream)
        supplier = KTableMapValues(self, with_key, None if kept is None else kept.name, kept)
        serdes = self._serdes(internal, keeps_value=False)
        return self._table_step(ProcessorGraphNode, supplier, step, internal, serdes)

    def transform_values(
        self,
        transformer_supplier: Callable[[], Any],
        *options: Named | Materialized[K, Any] | str,
        name: str | None = None,
        state_stores: Iterable[str] = (),
    ) -> KTable[K, Any]:
        """Make another value of each with an object that has `init(context)`, `transform(key, value)`, `close()`.

        The supplier makes one for each task. Texts among the options are stores that it reaches.
        """
        check_supplier(transformer_supplier)
        only((*_KINDS, str), options, "transform_values")
        stores = [option for option in options if isinstance(option, str)] + list(state_stores)
        rest = tuple(option for option in options if not isinstance(option, str))
        given, materialized = table_options(rest, (name, None), "transform_values")
        step = self.upstream.builder.names.given_or(given, "KTABLE-TRANSFORMVALUES-")
        internal = _internal(materialized)
        kept = _queryable_store(internal, self.upstream)
        supplier = KTableTransformValues(self, transformer_supplier, None if kept is None else kept.name, kept)
        node = ProcessorToStateConnectorNode(step, ProcessorParameters(supplier, step), stores)
        return self._add_table(node, supplier, internal, self._serdes(internal, keeps_value=False))

    def suppress(self, suppressed: Suppressed) -> KTable[K, V]:
        """Hold updates back, until a time or until a window closes. Raises `TopologyError` for versioned tables."""
        upstream = self.upstream
        if upstream.node.output_versioned:
            raise TopologyError("suppress() is only supported for non-versioned KTables")
        if not isinstance(suppressed, Suppressed):
            raise TypeError(f"suppress needs one such as Suppressed.until_window_closes(), not {suppressed!r}")
        names = upstream.builder.names
        step = names.processor("KTABLE-SUPPRESS-") if suppressed.name is None else suppressed.name
        if suppressed.time_to_wait_ms is None:
            suppressed = suppressed.with_window_grace(window_grace(upstream.node))
        config = suppressed.buffer_config
        if suppressed.name is None:
            store_name = names.store("KTABLE-SUPPRESS-")
            if config.is_logging_enabled:
                upstream.builder.topology_builder.names.add(changelog=f"{store_name}-changelog")
        else:
            store_name = f"{suppressed.name}-store"
        store = StoreBuilder(
            store_name,
            StoreKind.TIME_ORDERED_CHANGE_BUFFER,
            upstream.key_serde,
            upstream.value_serde,
            persistent=False,
            logging=config.is_logging_enabled,
            log_config=dict(config.log_config),
        )
        supplier = KTableSuppressProcessorSupplier(suppressed, store, self)
        node = TableSuppressNode(step, ProcessorParameters(supplier, step))
        node.output_versioned = False
        upstream.builder.add(upstream.node, node)
        return KTable(upstream.after(node, step, sources=frozenset({upstream.name})), supplier, None)

    # -- changes of kind

    @overload
    def to_stream(self, *, name: str | None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, named: Named, /, *, name: None = None) -> KStream[K, V]: ...
    @overload
    def to_stream(
        self, mapper: Callable[[K, V], K2], named: Named | None = None, /, *, name: str | None = None
    ) -> KStream[K2, V]: ...
    def to_stream(self, *options: Any, name: str | None = None) -> KStream[Any, V]:
        """Make a stream of the changes: each new value, and None where a row is gone; a mapper selects a new key."""
        given = list(options)
        mapper = given.pop(0) if given and callable(given[0]) else None
        only((Named, type(None)), tuple(given), "to_stream")
        named = pick(Named, tuple(given), "to_stream")
        upstream = self.upstream
        step = upstream.builder.names.given_or(name_of(named, name, "to_stream"), "KTABLE-TOSTREAM-")
        new_values = KTableToStream()
        node = ProcessorGraphNode(step, ProcessorParameters(new_values, step))
        upstream.builder.add(upstream.node, node)
        stream: KStream[Any, V] = KStream(upstream.after(node, step), False)
        return stream if mapper is None else stream.select_key(mapper)

    def group_by(
        self,
        selector: Callable[[K, V], tuple[K2, V2]],
        grouped: Grouped[K2, V2] | None = None,
        *,
        key: Serde[K2] | None = None,
        value: Serde[V2] | None = None,
        name: str | None = None,
    ) -> KGroupedTable[K2, V2]:
        """Group the rows by another key; the selector returns a pair of a key and a value."""
        from barnabas.streams.dsl.kgrouped_table import KGroupedTable

        select = functions.checked(selector, "key value", "group_by", "selector can't be null")
        asked = combined(Grouped, grouped, "group_by", key_serde=key, value_serde=value, name=name)
        upstream = self.upstream
        step = upstream.builder.names.given_or(asked.name, "KTABLE-SELECT-")
        node = VersionedSemanticsNode(step, ProcessorParameters(KTableRepartitionMap(self, select), step))
        upstream.builder.add(upstream.node, node)
        self.enable_sending_old_values(True)
        after = upstream.after(node, step, key_serde=asked.key_serde, value_serde=asked.value_serde)
        return KGroupedTable(after, asked.name)

    # -- joins

    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2], VO],
        /,
        *options: Named | Materialized[K, VO],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, VO]: ...
    @overload
    def join(
        self,
        other: KTable[K2, V2],
        foreign_key_extractor: Callable[..., K2 | None],
        joiner: Callable[[V, V2], VO],
        /,
        *options: TableJoined[K, K2] | Materialized[K, VO],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, VO]: ...
    def join(self, other: Any, /, *arguments: Any, name: str | None = None, store: str | None = None) -> KTable[K, Any]:
        """Join with a table by key, or by the foreign key that a function of (value) or (key, value) extracts."""
        return _join(self, other, arguments, (name, store), (False, False, "join"))

    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V, V2 | None], VO],
        /,
        *options: Named | Materialized[K, VO],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, VO]: ...
    @overload
    def left_join(
        self,
        other: KTable[K2, V2],
        foreign_key_extractor: Callable[..., K2 | None],
        joiner: Callable[[V, V2 | None], VO],
        /,
        *options: TableJoined[K, K2] | Materialized[K, VO],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, VO]: ...
    def left_join(
        self, other: Any, /, *arguments: Any, name: str | None = None, store: str | None = None
    ) -> KTable[K, Any]:
        """Join as `join` does, and give the joiner None for a row that there is not in the other table."""
        return _join(self, other, arguments, (name, store), (True, False, "left_join"))

    def outer_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[[V | None, V2 | None], VO],
        *options: Named | Materialized[K, VO],
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, VO]:
        """Join with a table by key; the joiner gets None for a row that there is not, on either side."""
        return _join(self, other, (joiner, *options), (name, store), (True, True, "outer_join"))

    # -- what operators ask of each other

    def value_getter_supplier(self) -> Any:
        """Return what looks the table's values up; a table of a topic gets a store for it."""
        if isinstance(self._supplier, KTableSource):
            self._supplier.materialize()
            return KTableSourceValueGetterSupplier(self._supplier.store_name)
        return self._supplier.view()

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Ask for old values in changes; return False when that would need a store and none is forced."""
        if not self._send_old_values:
            source = isinstance(self._supplier, KTableSource)
            if source and not force_materialization and not self._supplier.materialized:
                return False
            if not self._supplier.enable_sending_old_values(force_materialization):
                return False
            self._send_old_values = True
        return True

    def _serdes(self, internal: MaterializedInternal | None, keeps_value: bool) -> tuple[Any, Any]:
        key_serde = None if internal is None else internal.key_serde
        value_serde = None if internal is None else internal.value_serde
        if value_serde is None and keeps_value:
            value_serde = self.upstream.value_serde
        return self.upstream.key_serde if key_serde is None else key_serde, value_serde

    def _table_step(
        self,
        kind: type[ProcessorGraphNode],
        supplier: Any,
        name: str,
        internal: MaterializedInternal | None,
        serdes: tuple[Any, Any],
    ) -> KTable[K, Any]:
        return self._add_table(kind(name, ProcessorParameters(supplier, name)), supplier, internal, serdes)

    def _add_table(
        self, node: GraphNode, supplier: Any, internal: MaterializedInternal | None, serdes: tuple[Any, Any]
    ) -> KTable[K, Any]:
        if internal is not None:
            node.output_versioned = internal.is_versioned
        upstream = self.upstream
        upstream.builder.add(upstream.node, node)
        after = upstream.after(node, node.name, key_serde=serdes[0], value_serde=serdes[1])
        return KTable(after, supplier, None if internal is None else internal.queryable_store_name)


def table_options(
    options: tuple[Any, ...], keywords: tuple[str | None, str | None], step: str
) -> tuple[str | None, Materialized[Any, Any] | None]:
    """Return the name and the Materialized that a method was given, as options or keywords.

    Raises TypeError for other options, and for what is given twice.
    """
    only(_KINDS, options, step)
    name, store = keywords
    materialized = pick(Materialized, options, step)
    if store is not None:
        if materialized is not None:
            raise TypeError(f"{step} was given the store twice: {materialized!r} and store={store!r}")
        materialized = Materialized.as_(store)
    return name_of(pick(Named, options, step), name, step), materialized


def _internal(materialized: Materialized[Any, Any] | None) -> MaterializedInternal | None:
    return None if materialized is None else materialized_internal(materialized)


def _queryable_store(internal: MaterializedInternal | None, upstream: Upstream) -> StoreBuilder | None:
    """Return the store of a step that keeps one only where it has a name."""
    return None if internal is None or internal.queryable_store_name is None else internal.key_value_store()


def window_grace(node: GraphNode, chain: str = "") -> int:
    """Return how long the windows of a step are open after their end: the longest of those before it.

    Raises `TopologyError`, with the steps on the way, when there are none.
    """
    grace = getattr(node, "grace_period_ms", None)
    if grace is not None:
        return int(grace)
    steps = f"{node.name}->{chain}" if chain else node.name
    if not node.parents:
        raise TopologyError(f"Window close time is only defined for windowed computations. Got [{steps}].")
    return max(window_grace(parent, steps) for parent in node.parents)


def _join(
    table: KTable[Any, Any], other: Any, arguments: Any, keywords: Any, sides: tuple[bool, bool, str]
) -> KTable[Any, Any]:
    from barnabas.streams.dsl import foreign_key_join, table_joins

    left, right, step = sides
    if not isinstance(other, KTable):
        raise TypeError(f"{step} needs another KTable, not {other!r}")
    functions_given = [argument for argument in arguments if callable(argument)]
    options = tuple(argument for argument in arguments if not callable(argument) and argument is not None)
    if len(functions_given) == 2 and not right:
        return foreign_key_join.join(table, other, functions_given, options, keywords, left)
    if len(functions_given) != 1:
        raise TypeError(f"{step} needs a joiner, or a function that extracts a foreign key and a joiner")
    given, materialized = table_options(options, keywords, step)
    return table_joins.join(table, other, functions_given[0], (given, materialized), sides)
