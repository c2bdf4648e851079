"""`KStream`: records as they come, each for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from barnabas.streams.dsl import functions, stream_joins
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.branched import BranchedKStream
from barnabas.streams.dsl.global_ktable import GlobalKTable
from barnabas.streams.dsl.graph.graph_node import (
    GraphNode,
    ProcessorGraphNode,
    ProcessorParameters,
    ProcessorToStateConnectorNode,
)
from barnabas.streams.dsl.graph.repartition_nodes import UnoptimizableRepartitionNode
from barnabas.streams.dsl.graph.source_nodes import StreamSinkNode
from barnabas.streams.dsl.materialized import Materialized
from barnabas.streams.dsl.options import (
    Grouped,
    Joined,
    Named,
    Produced,
    Repartitioned,
    StreamJoined,
    combined,
    name_of,
    only,
    pick,
)
from barnabas.streams.dsl.printed import Printed
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.dsl.windows import JoinWindows
from barnabas.streams.engine.processors import (
    ForeachProcessor,
    KStreamFilter,
    KStreamFlatMap,
    KStreamFlatMapValues,
    KStreamMap,
    KStreamMapValues,
    KStreamPeek,
    KStreamPrint,
    KStreamSelectKey,
    PassThrough,
)
from barnabas.streams.serdes import Serde
from barnabas.streams.topology.nodes import InternalTopicProperties
from barnabas.streams.topology.processor_api import FixedKeyProcessorSupplier, ProcessorSupplier, TopicNameExtractor
from barnabas.streams.topology.topology import check_supplier

if TYPE_CHECKING:
    from barnabas.streams.dsl.kgrouped_stream import KGroupedStream
    from barnabas.streams.dsl.ktable import KTable

#: What Kafka calls the function that selects a key.
_PROCESS_VALUES = "KSTREAM-PROCESSVALUES-"
_SELECTORS = {"group_by": "keySelector"}

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
VO = TypeVar("VO")


class KStream(Generic[K, V]):
    """A stream of records. Each method adds a step and returns what comes out of it; nothing runs before the engine.

    Functions are given to the step as they are: predicates, mappers, selectors take (key, value); mappers of values
    and joiners may leave the key out. A function with other arguments is a TypeError here, not at the first record.
    """

    def __init__(self, upstream: Upstream, repartition_required: bool) -> None:
        self.upstream = upstream
        self.repartition_required = repartition_required
        self._join_repartition: GraphNode | None = None

    # -- record by record

    def filter(
        self, predicate: Callable[[K, V], object], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V]:
        """Keep the records for which the predicate holds."""
        supplier = KStreamFilter(functions.checked(predicate, "key value", "filter", "predicate cannot be null"), False)
        return self._step(supplier, "KSTREAM-FILTER-", name_of(named, name, "filter"))

    def filter_not(
        self, predicate: Callable[[K, V], object], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V]:
        """Drop the records for which the predicate holds."""
        supplier = KStreamFilter(
            functions.checked(predicate, "key value", "filter_not", "predicate cannot be null"), True
        )
        return self._step(supplier, "KSTREAM-FILTER-", name_of(named, name, "filter_not"))

    def select_key(
        self, mapper: Callable[[K, V], K2], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K2, V]:
        """Give each record a new key; operators by key that follow send the records through a topic."""
        node = self._select_key(mapper, name_of(named, name, "select_key"), "select_key")
        return KStream(self.upstream.after(node, node.name, key_serde=None), True)

    def map(
        self, mapper: Callable[[K, V], tuple[K2, V2]], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K2, V2]:
        """Make a pair of a key and a value of each record."""
        supplier = KStreamMap(functions.checked(mapper, "key value", "map", "mapper cannot be null"))
        return self._key_changing(supplier, "KSTREAM-MAP-", name_of(named, name, "map"))

    def flat_map(
        self,
        mapper: Callable[[K, V], Iterable[tuple[K2, V2]]],
        named: Named | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K2, V2]:
        """Make any number of pairs of a key and a value of each record."""
        supplier = KStreamFlatMap(functions.checked(mapper, "key value", "flat_map", "mapper cannot be null"))
        return self._key_changing(supplier, "KSTREAM-FLATMAP-", name_of(named, name, "flat_map"))

    @overload
    def map_values(
        self, mapper: Callable[[V], V2], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def map_values(
        self, mapper: Callable[[K, V], V2], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V2]: ...
    def map_values(
        self, mapper: Callable[..., Any], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, Any]:
        """Make another value of each value; the mapper takes (value) or (key, value)."""
        supplier = KStreamMapValues(functions.with_key(mapper, "value", "map_values", "mapper cannot be null"))
        return self._value_changing(supplier, "KSTREAM-MAPVALUES-", name_of(named, name, "map_values"))

    @overload
    def flat_map_values(
        self, mapper: Callable[[V], Iterable[V2]], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V2]: ...
    @overload
    def flat_map_values(
        self, mapper: Callable[[K, V], Iterable[V2]], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V2]: ...
    def flat_map_values(
        self, mapper: Callable[..., Any], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, Any]:
        """Make any number of values of each value; the mapper takes (value) or (key, value)."""
        supplier = KStreamFlatMapValues(functions.with_key(mapper, "value", "flat_map_values", "mapper cannot be null"))
        return self._value_changing(supplier, "KSTREAM-FLATMAPVALUES-", name_of(named, name, "flat_map_values"))

    def peek(
        self, action: Callable[[K, V], object], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V]:
        """Show each record to a function on its way; what it does is done again where a batch is repeated."""
        supplier = KStreamPeek(functions.checked(action, "key value", "peek", "action cannot be null"))
        return self._step(supplier, "KSTREAM-PEEK-", name_of(named, name, "peek"))

    def foreach(self, action: Callable[[K, V], object], named: Named | None = None, *, name: str | None = None) -> None:
        """Show each record to a function, and end the stream there."""
        supplier = ForeachProcessor(functions.checked(action, "key value", "foreach", "action cannot be null"))
        self._step(supplier, "KSTREAM-FOREACH-", name_of(named, name, "foreach"))

    def print(self, printed: Printed[K, V] | None = None, *, name: str | None = None, label: str | None = None) -> None:
        """Print each record as `[label]: key, value`, to standard output or a file, and end the stream there."""
        how = combined(Printed, printed, "print", name=name, label=label)
        shown = self.upstream.name if how.label is None else how.label
        self._step(KStreamPrint(shown, how.mapper, how.path), "KSTREAM-PRINTER-", name_of(None, how.name, "print"))

    # -- several streams

    def split(self, named: Named | None = None, *, name: str | None = None) -> BranchedKStream[K, V]:
        """Send each record to the first of several branches whose predicate holds (KIP-418)."""
        return BranchedKStream(self, name_of(named, name, "split"))

    def merge(
        self, other_stream: KStream[K, V], named: Named | None = None, *, name: str | None = None
    ) -> KStream[K, V]:
        """Put the records of both streams into one; between the two there is no order."""
        _stream(other_stream, "merge")
        upstream, other = self.upstream, other_stream.upstream
        step = upstream.builder.names.given_or(name_of(named, name, "merge"), "KSTREAM-MERGE-")
        node = ProcessorGraphNode(step, ProcessorParameters(PassThrough(), step))
        node.is_merge = True
        upstream.builder.add([upstream.node, other.node], node)
        merged = upstream.after(node, step, sources=upstream.sources | other.sources, key_serde=None, value_serde=None)
        return KStream(merged, self.repartition_required or other_stream.repartition_required)

    def repartition(
        self,
        repartitioned: Repartitioned[K, V] | None = None,
        *,
        name: str | None = None,
        number_of_partitions: int | None = None,
    ) -> KStream[K, V]:
        """Send the records through a topic, partitioned by key or by the partitioner given (KIP-221)."""
        asked = combined(
            Repartitioned, repartitioned, "repartition", name=name, number_of_partitions=number_of_partitions
        )
        upstream = self.upstream
        value_serde = upstream.value_serde if asked.value_serde is None else asked.value_serde
        prefix = asked.name if asked.name is not None else upstream.builder.names.processor("KSTREAM-REPARTITION-")
        repartition = repartitioned_source(
            upstream.builder,
            asked.key_serde,
            value_serde,
            prefix,
            named_by_user=asked.name is not None,
        )
        properties = InternalTopicProperties(asked.number_of_partitions)
        repartition = replace(repartition, partitioner=asked.partitioner, properties=properties)
        node = UnoptimizableRepartitionNode(repartition)
        upstream.builder.add(upstream.node, node)
        key_serde = upstream.key_serde if asked.key_serde is None else asked.key_serde
        after = upstream.after(
            node, node.name, sources=frozenset({node.name}), key_serde=key_serde, value_serde=value_serde
        )
        return KStream(after, False)

    # -- ends and changes of kind

    def to(
        self,
        topic: str | TopicNameExtractor,
        produced: Produced[K, V] | None = None,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> None:
        """Write the records to a topic, or to the one that a function of (key, value, record context) names."""
        if topic is None:
            raise TypeError("topic cannot be null")
        if not isinstance(topic, str):
            functions.checked(topic, "key value record_context", "to", "topic cannot be null")
        asked = combined(Produced, produced, "to", key_serde=key, value_serde=value, name=name)
        upstream = self.upstream
        written: Produced[Any, Any] = Produced(
            upstream.key_serde if asked.key_serde is None else asked.key_serde,
            upstream.value_serde if asked.value_serde is None else asked.value_serde,
            asked.partitioner,
            asked.name,
        )
        step = upstream.builder.names.given_or(asked.name, "KSTREAM-SINK-")
        upstream.builder.add(upstream.node, StreamSinkNode(step, topic, written))

    def to_table(
        self, *options: Named | Materialized[K, V], name: str | None = None, store: str | None = None
    ) -> KTable[K, V]:
        """Take each record for the newest value of its key; a value of None deletes (KIP-523)."""
        from barnabas.streams.dsl.table_sources import stream_to_table

        only((Named, Materialized), options, "to_table")
        materialized = pick(Materialized, options, "to_table")
        if materialized is None:
            upstream = self.upstream
            materialized = (
                Materialized(key_serde=upstream.key_serde, value_serde=upstream.value_serde)
                if store is None
                else Materialized.as_(store)
            )
        return stream_to_table(self, name_of(pick(Named, options, "to_table"), name, "to_table"), materialized)

    def group_by_key(
        self,
        grouped: Grouped[K, V] | None = None,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K, V]:
        """Group by the key that the records have."""
        from barnabas.streams.dsl.kgrouped_stream import KGroupedStream

        upstream = self.upstream
        if grouped is None:
            key, value = key or upstream.key_serde, value or upstream.value_serde
        asked = combined(Grouped, grouped, "group_by_key", key_serde=key, value_serde=value, name=name)
        return KGroupedStream(self.upstream, asked, self.repartition_required)

    def group_by(
        self,
        key_selector: Callable[[K, V], K2],
        grouped: Grouped[K2, V] | None = None,
        *,
        key: Serde[K2] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> KGroupedStream[K2, V]:
        """Group by a new key; the records go through a topic."""
        from barnabas.streams.dsl.kgrouped_stream import KGroupedStream

        value = self.upstream.value_serde if grouped is None and value is None else value
        asked = combined(Grouped, grouped, "group_by", key_serde=key, value_serde=value, name=name)
        node = self._select_key(key_selector, asked.name, "group_by")
        return KGroupedStream(self.upstream.after(node, node.name), asked, True)

    # -- joins

    @overload
    def join(
        self,
        other: KStream[K, V2],
        joiner: Callable[..., VO],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, V2] | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    @overload
    def join(
        self,
        other: KTable[K, V2],
        joiner: Callable[..., VO],
        joined: Joined[K, V, V2] | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2],
        joiner: Callable[..., VO],
        named: Named | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    def join(self, other: Any, *arguments: Any, name: str | None = None, **options: Any) -> KStream[K, Any]:
        """Join with a stream within windows, with a table, or with a global table by a selected key.

        The joiner takes the two values, or the key before them. Records without a partner are dropped.
        """
        return stream_joins.join(self, other, arguments, {"name": name, **options}, stream_joins.INNER)

    @overload
    def left_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[..., VO],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, V2] | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    @overload
    def left_join(
        self,
        other: KTable[K, V2],
        joiner: Callable[..., VO],
        joined: Joined[K, V, V2] | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        key_selector: Callable[[K, V], K2 | None],
        joiner: Callable[..., VO],
        named: Named | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]: ...
    def left_join(self, other: Any, *arguments: Any, name: str | None = None, **options: Any) -> KStream[K, Any]:
        """Join as `join` does, and give the joiner None for a partner that there is not."""
        return stream_joins.join(self, other, arguments, {"name": name, **options}, stream_joins.LEFT)

    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[..., VO],
        windows: JoinWindows,
        stream_joined: StreamJoined[K, V, V2] | None = None,
        *,
        name: str | None = None,
    ) -> KStream[K, VO]:
        """Join with a stream within windows; records of both sides may be without a partner."""
        _stream(other, "outer_join")
        return stream_joins.join(self, other, (joiner, windows, stream_joined), {"name": name}, stream_joins.OUTER)

    # -- processors of the user

    def process(
        self,
        supplier: ProcessorSupplier,
        *options: Named | str,
        name: str | None = None,
        state_stores: Iterable[str] = (),
    ) -> KStream[Any, Any]:
        """Run a processor of the Processor API; texts among the options are stores that it reaches (KIP-820)."""
        node = self._processor(supplier, "KSTREAM-PROCESSOR-", options, (name, state_stores))
        upstream = self.upstream.after(node, node.name, key_serde=None, value_serde=None)
        return KStream(upstream, True)

    def process_values(
        self,
        supplier: FixedKeyProcessorSupplier,
        *options: Named | str,
        name: str | None = None,
        state_stores: Iterable[str] = (),
    ) -> KStream[K, Any]:
        """Run a processor that leaves keys as they are; texts among the options are stores that it reaches."""
        node = self._processor(supplier, _PROCESS_VALUES, options, (name, state_stores))
        return KStream(self.upstream.after(node, node.name, value_serde=None), self.repartition_required)

    def _processor(
        self, supplier: Any, prefix: str, options: tuple[Any, ...], keywords: tuple[str | None, Iterable[str]]
    ) -> ProcessorToStateConnectorNode:
        only((Named, str), options, "process")
        name = name_of(pick(Named, options, "process"), keywords[0], "process")
        names = self.upstream.builder.names
        step = names.processor(prefix) if name is None else name
        check_supplier(supplier)
        stores = [option for option in options if isinstance(option, str)] + list(keywords[1])
        parameters = ProcessorParameters(supplier, step, fixed_key=prefix == _PROCESS_VALUES)
        node = ProcessorToStateConnectorNode(step, parameters, stores)
        self.upstream.builder.add(self.upstream.node, node)
        return node

    # -- how steps are added

    def _step(self, supplier: Any, prefix: str, name: str | None) -> KStream[Any, Any]:
        step = self.upstream.builder.names.given_or(name, prefix)
        node = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        self.upstream.builder.add(self.upstream.node, node)
        return KStream(self.upstream.after(node, step), self.repartition_required)

    def _value_changing(self, supplier: Any, prefix: str, name: str | None) -> KStream[Any, Any]:
        step = self.upstream.builder.names.given_or(name, prefix)
        node = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        node.value_changing = True
        self.upstream.builder.add(self.upstream.node, node)
        return KStream(self.upstream.after(node, step, value_serde=None), self.repartition_required)

    def _key_changing(self, supplier: Any, prefix: str, name: str | None) -> KStream[Any, Any]:
        step = self.upstream.builder.names.given_or(name, prefix)
        node = ProcessorGraphNode(step, ProcessorParameters(supplier, step))
        node.key_changing = True
        self.upstream.builder.add(self.upstream.node, node)
        return KStream(self.upstream.after(node, step, key_serde=None, value_serde=None), True)

    def _select_key(self, mapper: Any, name: str | None, step: str) -> ProcessorGraphNode:
        select = functions.checked(mapper, "key value", step, f"{_SELECTORS.get(step, 'mapper')} cannot be null")
        named = self.upstream.builder.names.given_or(name, "KSTREAM-KEY-SELECT-")
        supplier = KStreamSelectKey(select)
        node = ProcessorGraphNode(named, ProcessorParameters(supplier, named))
        node.key_changing = True
        self.upstream.builder.add(self.upstream.node, node)
        return node


def _stream(other: Any, step: str) -> None:
    if other is None:
        raise TypeError("otherStream cannot be null")
    if not isinstance(other, KStream):
        raise TypeError(f"{step} needs another KStream, not {other!r}")
