"""Joins of a stream with a stream within windows, with a table, with a global table.

Source: Kafka's KStreamImpl and KStreamImplJoin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.streams.dsl import functions
from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.global_ktable import GlobalKTable
from barnabas.streams.dsl.graph.graph_node import ProcessorParameters
from barnabas.streams.dsl.graph.join_nodes import StreamStreamJoinNode, StreamTableJoinNode, WindowedStreamProcessorNode
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode
from barnabas.streams.dsl.join_stores import add_generated_names, outer_join_store, this_and_other_store
from barnabas.streams.dsl.options import Joined, Named, StreamJoined
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.dsl.windows import JoinWindows
from barnabas.streams.engine.processors import (
    KStreamGlobalKTableJoin,
    KStreamJoinWindow,
    KStreamKStreamJoinLeftSide,
    KStreamKStreamJoinRightSide,
    KStreamKStreamSelfJoin,
    KStreamKTableJoin,
    PassThrough,
    TimeTrackerSupplier,
)
from barnabas.streams.topology.stores import StoreBuilder, StoreKind

if TYPE_CHECKING:
    from barnabas.streams.dsl.kstream import KStream


class Sides(NamedTuple):
    """Which sides of a join keep records without a partner."""

    left: bool
    right: bool
    step: str


INNER = Sides(False, False, "join")
LEFT = Sides(True, False, "left_join")
OUTER = Sides(True, True, "outer_join")


def join(
    stream: KStream[Any, Any], other: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], sides: Sides
) -> KStream[Any, Any]:
    """Add the join that suits what the other side is. Raises TypeError for anything else, and for wrong options."""
    from barnabas.streams.dsl.kstream import KStream
    from barnabas.streams.dsl.ktable import KTable

    given = _Arguments(arguments, {key: value for key, value in keywords.items() if value is not None}, sides.step)
    if isinstance(other, KStream):
        joiner = given.required("joiner")
        windows = given.required("windows")
        options = given.option(StreamJoined, "stream_joined")
        return _join_streams(stream, other, joiner, windows, options, sides)
    if isinstance(other, KTable):
        joiner = given.required("joiner")
        return _join_table(stream, other, joiner, given.option(Joined, "joined"), sides)
    if isinstance(other, GlobalKTable):
        selector = given.required("key_selector")
        joiner = given.required("joiner")
        named = given.option(Named, "named", without=())
        return _join_global_table(stream, other, selector, joiner, named, sides)
    raise TypeError(f"{sides.step} needs a KStream, a KTable or a GlobalKTable, not {other!r}")


class _Arguments:
    """What a join was given by position and by keyword: overloads of Kafka are one method here."""

    def __init__(self, arguments: tuple[Any, ...], keywords: dict[str, Any], step: str) -> None:
        self._arguments = list(arguments)
        self._keywords = keywords
        self._step = step

    def required(self, name: str) -> Any:
        """Return a required argument. Raises TypeError when it is missing."""
        if self._arguments:
            return self._arguments.pop(0)
        if name in self._keywords:
            return self._keywords.pop(name)
        raise TypeError(f"{self._step} is missing its argument {name}")

    def option(self, kind: type[Any], keyword: str, without: tuple[()] | None = None) -> Any:
        """Return the option object, with the keyword `name` in it. Raises TypeError for what is left over."""
        given = self._arguments.pop(0) if self._arguments else self._keywords.pop(keyword, None)
        name = self._keywords.pop("name", None)
        if self._arguments or self._keywords:
            raise TypeError(f"{self._step} takes no {[*self._arguments, *self._keywords]}")
        if given is not None and not isinstance(given, kind):
            raise TypeError(f"{self._step} takes {kind.__name__} as its option here, not {given!r}")
        if given is None:
            return kind(name=name) if without is None or name is not None else None
        if name is None:
            return given
        return kind(name) if kind is Named else given.with_name(name)


def _join_streams(
    this: KStream[Any, Any], other: KStream[Any, Any], joiner: Any, windows: Any, options: Any, sides: Sides
) -> KStream[Any, Any]:
    with_key = functions.with_key(joiner, "left right", sides.step, "joiner cannot be null")
    if not isinstance(windows, JoinWindows):
        raise TypeError(f"{sides.step} of two streams needs JoinWindows, not {windows!r}")
    joined: StreamJoined[Any, Any, Any] = options
    left, right = this, other
    if left.repartition_required:
        name = f"{joined.name}-left" if joined.name is not None else left.upstream.name
        left = _repartition_for_join(left, name, (joined.key_serde, joined.value_serde), joined.name is not None)
    if right.repartition_required:
        name = f"{joined.name}-right" if joined.name is not None else right.upstream.name
        right = _repartition_for_join(
            right, name, (joined.key_serde, joined.other_value_serde), joined.name is not None
        )
    sources = left.upstream.copartition_with([right.upstream])
    return _StreamJoin(left.upstream, right.upstream, windows, joined, sides).build(with_key, sources)


def _repartition_for_join(
    stream: KStream[Any, Any], name: str, serdes: tuple[Any, Any], named_by_user: bool
) -> KStream[Any, Any]:
    upstream = stream.upstream
    key_serde = upstream.key_serde if serdes[0] is None else serdes[0]
    value_serde = upstream.value_serde if serdes[1] is None else serdes[1]
    repartition = repartitioned_source(upstream.builder, key_serde, value_serde, name, named_by_user=named_by_user)
    node = stream._join_repartition
    if node is None or upstream.name != name:
        node = OptimizableRepartitionNode(repartition)
        stream._join_repartition = node
        upstream.builder.add(upstream.node, node)
    source = repartition.source_name
    after = upstream.after(node, source, sources=frozenset({source}), key_serde=key_serde, value_serde=value_serde)
    return type(stream)(after, False)


class _StreamJoin:
    """Names, stores and processors of one stream-stream join."""

    def __init__(
        self, left: Upstream, right: Upstream, windows: JoinWindows, joined: StreamJoined[Any, Any, Any], sides: Sides
    ) -> None:
        names = left.builder.names
        self._left, self._right = left, right
        self._windows, self._joined, self._sides = windows, joined, sides
        self._suffixes = (
            "-outer-this-join" if sides.right else "-this-join",
            "-outer-other-join" if sides.left else "-other-join",
        )
        self._windowed = (
            names.suffixed_or(joined.name, "-this-windowed", "KSTREAM-WINDOWED-"),
            names.suffixed_or(joined.name, "-other-windowed", "KSTREAM-WINDOWED-"),
        )
        self._generated = (
            names.processor("KSTREAM-OUTERTHIS-" if sides.right else "KSTREAM-JOINTHIS-"),
            names.processor("KSTREAM-OUTEROTHER-" if sides.left else "KSTREAM-JOINOTHER-"),
        )
        self._merge = names.suffixed_or(joined.name, "-merge", "KSTREAM-MERGE-")

    def build(self, joiner: Any, sources: frozenset[str]) -> KStream[Any, Any]:
        """Add the steps of the join and return what comes out."""
        from barnabas.streams.dsl.kstream import KStream

        builder, windows, joined = self._left.builder, self._windows, self._joined
        stores = this_and_other_store(windows, joined, self._generated, self._suffixes)
        for upstream, store, name in zip((self._left, self._right), stores, self._windowed, strict=True):
            node = WindowedStreamProcessorNode(name, ProcessorParameters(KStreamJoinWindow(store), name))
            builder.add(upstream.node, node)
        outer = outer_join_store(windows, joined, self._generated[0], self._sides.right) if self._sides.left else None
        if joined.store_name is None:
            add_generated_names(builder, [*stores, *([outer] if outer is not None else [])])
        join_node = self._node(joiner, stores, outer)
        join_node.null_key_relaxed_join = self._sides.left or self._sides.right
        builder.add([self._left.node, self._right.node], join_node)
        after = self._left.after(join_node, self._merge, sources=sources, key_serde=joined.key_serde, value_serde=None)
        return KStream(after, False)

    def _node(
        self, joiner: Any, stores: tuple[StoreBuilder, StoreBuilder], outer: StoreBuilder | None
    ) -> StreamStreamJoinNode:
        windows, sides = self._windows, self._sides
        trackers = TimeTrackerSupplier()
        this = KStreamKStreamJoinLeftSide(windows, joiner, sides.left, trackers, stores[1], outer)
        other = KStreamKStreamJoinRightSide(
            windows, functions.reversed_joiner(joiner), sides.right, trackers, stores[0], outer
        )
        retention_ms = windows.size_ms + windows.grace_period_ms
        names = [
            name if self._joined.name is None else self._joined.name + suffix
            for name, suffix in zip(self._generated, self._suffixes, strict=True)
        ]
        return StreamStreamJoinNode(
            ProcessorParameters(this, names[0]),
            ProcessorParameters(other, names[1]),
            ProcessorParameters(PassThrough(), self._merge),
            ProcessorParameters(KStreamKStreamSelfJoin(stores[0], windows, joiner, retention_ms), self._merge),
            self._windowed,
        )


def _join_table(stream: KStream[Any, Any], table: Any, joiner: Any, joined: Any, sides: Sides) -> KStream[Any, Any]:
    from barnabas.streams.dsl.kstream import KStream

    with_key = functions.with_key(joiner, "value table_value", sides.step, "joiner cannot be null")
    if stream.repartition_required:
        name = stream.upstream.name if joined.name is None else joined.name
        serdes = (joined.key_serde, joined.value_serde)
        stream = _repartition_for_join(stream, name, serdes, joined.name is not None)
    upstream = stream.upstream
    sources = upstream.copartition_with([table.upstream])
    name = upstream.builder.names.given_or(joined.name, "KSTREAM-LEFTJOIN-" if sides.left else "KSTREAM-JOIN-")
    buffer = None if joined.grace_period_ms is None else _grace_buffer(upstream, table, joined, name)
    getter = table.value_getter_supplier()
    supplier = KStreamKTableJoin(getter, with_key, sides.left, joined.grace_period_ms, buffer)
    node = StreamTableJoinNode(name, ProcessorParameters(supplier, name), getter.store_names(), joined.grace_period_ms)
    upstream.builder.add(upstream.node, node)
    node.null_key_relaxed_join = sides.left
    key_serde = upstream.key_serde if joined.key_serde is None else joined.key_serde
    after = upstream.after(node, name, sources=sources, key_serde=key_serde, value_serde=None)
    return KStream(after, False)


def _grace_buffer(upstream: Upstream, table: Any, joined: Joined[Any, Any, Any], name: str) -> StoreBuilder:
    if table.upstream.node.output_versioned is False:
        raise ValueError("KTable must be versioned to use a grace period in a stream table join.")
    store_name = f"{name}-Buffer"
    if joined.name is None:
        upstream.builder.topology_builder.names.add(changelog=f"{store_name}-changelog", store=store_name)
    return StoreBuilder(
        store_name,
        StoreKind.TIME_ORDERED_KEY_VALUE_BUFFER,
        upstream.key_serde if joined.key_serde is None else joined.key_serde,
        upstream.value_serde if joined.value_serde is None else joined.value_serde,
        grace_ms=joined.grace_period_ms,
    )


def _join_global_table(
    stream: KStream[Any, Any], table: GlobalKTable[Any, Any], selector: Any, joiner: Any, named: Any, sides: Sides
) -> KStream[Any, Any]:
    from barnabas.streams.dsl.kstream import KStream

    select = functions.checked(selector, "key value", sides.step, "keySelector cannot be null")
    with_key = functions.with_key(joiner, "value table_value", sides.step, "joiner cannot be null")
    upstream = stream.upstream
    name = upstream.builder.names.given_or(None if named is None else named.name, "KSTREAM-LEFTJOIN-")
    supplier = KStreamGlobalKTableJoin(table.value_getter_supplier, with_key, select, sides.left)
    node = StreamTableJoinNode(name, ProcessorParameters(supplier, name))
    node.null_key_relaxed_join = sides.left
    upstream.builder.add(upstream.node, node)
    return KStream(upstream.after(node, name, value_serde=None), stream.repartition_required)
