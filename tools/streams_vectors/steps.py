"""Builds the topology of a case, step by step, with the DSL or the Processor API."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from barnabas.streams.dsl.global_ktable import GlobalKTable
from barnabas.streams.dsl.kstream import KStream
from barnabas.streams.dsl.ktable import KTable
from barnabas.streams.dsl.materialized import Materialized
from barnabas.streams.dsl.options import (
    Branched,
    Consumed,
    Grouped,
    Joined,
    Named,
    Produced,
    Repartitioned,
    StreamJoined,
    TableJoined,
)
from barnabas.streams.dsl.streams_builder import StreamsBuilder
from barnabas.streams.dsl.suppressed import BufferConfig, Suppressed
from barnabas.streams.dsl.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from barnabas.streams.emit_strategy import EmitStrategy
from barnabas.streams.engine.timestamp_extractors import FailOnInvalidTimestamp, LogAndSkipOnInvalidTimestamp
from barnabas.streams.serdes import Serdes, SessionWindowedSerde, TimeWindowedSerde
from barnabas.streams.topology.stores import StoreBuilder, Stores
from barnabas.streams.topology.topology import Topology
from tools.streams_vectors import expressions as ex
from tools.streams_vectors.processors import CaseSupplier, CaseTransformer

_SERDES = {"string": Serdes.string, "long": Serdes.long, "integer": Serdes.integer, "bytes": Serdes.bytes}


def serde(spec: Any) -> Any:
    """Return the serde that a case names; None for none."""
    if spec is None:
        return None
    if isinstance(spec, str):
        return _SERDES[spec]()
    if "time_windowed" in spec:
        return TimeWindowedSerde(serde(spec["time_windowed"]), spec["size_ms"])
    return SessionWindowedSerde(serde(spec["session_windowed"]))


def _from_value(record: Any, partition_time: int) -> int:
    _, at, time = record.value.rpartition("@") if isinstance(record.value, str) else ("", "", "")
    return int(time) if at else partition_time


_EXTRACTORS: dict[str, Any] = {
    "from_value": _from_value,
    "fail_on_invalid": FailOnInvalidTimestamp(),
    "log_and_skip_on_invalid": LogAndSkipOnInvalidTimestamp(),
}


def _named(spec: dict[str, Any]) -> tuple[Named, ...]:
    return (Named.as_(spec["named"]),) if "named" in spec else ()


def _consumed(spec: dict[str, Any]) -> Consumed[Any, Any]:
    given = spec.get("consumed") or {}
    extractor = given.get("timestamp_extractor")
    consumed: Consumed[Any, Any] = Consumed(
        serde(given.get("key")),
        serde(given.get("value")),
        None if extractor is None else _EXTRACTORS[extractor],
        next((value for word, value in given.items() if "reset" in word), None),
    )
    return consumed.with_name(given["name"]) if "name" in given else consumed


def _materialized(spec: dict[str, Any]) -> tuple[Materialized[Any, Any], ...]:
    given = spec.get("materialized")
    if given is None:
        return ()
    made: Materialized[Any, Any]
    if given.get("store") == "versioned":
        supplier = Stores.persistent_versioned_key_value_store(given["name"], given["history_retention_ms"])
        made = Materialized.as_(supplier)
    elif "name" in given:
        made = Materialized.as_(given["name"])
    else:
        made = Materialized.with_()
    made = made.with_key_serde(serde(given.get("key"))).with_value_serde(serde(given.get("value")))
    if given.get("store") == "in_memory":
        made = made.with_store_type(persistent=False)
    if given.get("retention_ms") is not None:
        made = made.with_retention(given["retention_ms"])
    if given.get("caching") is not None:
        made = made.with_caching_enabled() if given["caching"] else made.with_caching_disabled()
    if given.get("logging") is False:
        made = made.with_logging_disabled()
    return (made,)


def _grouped(spec: dict[str, Any]) -> tuple[Grouped[Any, Any], ...]:
    given = spec.get("grouped")
    if given is None:
        return ()
    return (Grouped(serde(given.get("key")), serde(given.get("value")), given.get("name")),)


def _with_grace(windows: Any, spec: dict[str, Any]) -> Any:
    return windows.with_grace(spec["grace_ms"]) if "grace_ms" in spec else windows


def windows(spec: dict[str, Any]) -> Any:
    """Return the windows of an aggregation."""
    kind = spec["type"]
    if kind in ("tumbling", "hopping"):
        made = _with_grace(TimeWindows.of_size(spec["size_ms"]), spec)
        return made.advance_by(spec["advance_ms"]) if "advance_ms" in spec else made
    if kind == "unlimited":
        made = UnlimitedWindows.of()
        return made.start_on(spec["start_ms"]) if "start_ms" in spec else made
    if kind == "sliding":
        return _with_grace(SlidingWindows.of_time_difference(spec["difference_ms"]), spec)
    return _with_grace(SessionWindows.of_inactivity_gap(spec["gap_ms"]), spec)


def _join_windows(spec: dict[str, Any]) -> JoinWindows:
    made = _with_grace(JoinWindows.of_time_difference(spec.get("difference_ms", 0)), spec)
    if "before_ms" in spec:
        made = made.before(spec["before_ms"])
    return made.after(spec["after_ms"]) if "after_ms" in spec else made


def _stream_joined(spec: dict[str, Any]) -> StreamJoined[Any, Any, Any]:
    given = spec.get("stream_joined") or {}
    joined: StreamJoined[Any, Any, Any] = StreamJoined(
        serde(given.get("key")),
        serde(given.get("value")),
        serde(given.get("other_value")),
        given.get("name"),
        given.get("store_name"),
    )
    if given.get("logging") is False:
        joined = joined.with_logging_disabled()
    return joined.with_store_type(persistent=False) if given.get("store") == "in_memory" else joined


def _suppressed(given: dict[str, Any]) -> Suppressed:
    config = BufferConfig.unbounded()
    if "max_records" in given or "max_bytes" in given:
        config = BufferConfig()
        if "max_records" in given:
            config = config.with_max_records(given["max_records"])
        if "max_bytes" in given:
            config = config.with_max_bytes(given["max_bytes"])
        if given.get("when_full") == "emit_early":
            config = config.emit_early_when_full()
    if given["until"] == "window_closes":
        made = Suppressed.until_window_closes(config)
    else:
        made = Suppressed.until_time_limit(given["time_limit_ms"], config)
    return made.with_name(given["name"]) if "name" in given else made


def store_builder(given: dict[str, Any]) -> StoreBuilder:
    """Return the builder of a store that the case adds."""
    name, persistent = given["name"], given.get("persistent", True)
    serdes = (serde(given.get("key")), serde(given.get("value")))
    kind = given["type"]
    if kind == "versioned":
        supplier = Stores.persistent_versioned_key_value_store(name, given["history_retention_ms"])
        built = Stores.versioned_key_value_store_builder(supplier, *serdes)
    elif kind == "window":
        make = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
        window = make(name, given["retention_ms"], given["window_size_ms"], given.get("retain_duplicates", False))
        built = Stores.window_store_builder(window, *serdes)
    else:
        keep = Stores.persistent_key_value_store if persistent else Stores.in_memory_key_value_store
        build = (
            Stores.timestamped_key_value_store_builder
            if kind == "timestamped_key_value"
            else Stores.key_value_store_builder
        )
        built = build(keep(name), *serdes)
    return built.with_logging_disabled() if given.get("logging") is False else built


def _supplier(spec: dict[str, Any]) -> CaseSupplier:
    own = spec["processor"].get("own_store")
    return CaseSupplier(spec["processor"], None if own is None else store_builder(own))


class CaseTopology:
    """What the steps of a case have made so far: `seen` is what peek and foreach saw."""

    def __init__(self, case: dict[str, Any]) -> None:
        config = case.get("config") or {}
        self._builder = StreamsBuilder(config)
        self._topology = Topology(config)
        self._made: dict[str, Any] = {}
        self._low_level = False
        self.branch_names: dict[str, str] = {}
        self.seen: list[dict[str, Any]] = []

    def build(self, config: dict[str, Any]) -> Topology:
        """Return the topology."""
        return self._topology if self._low_level else self._builder.build(config)

    def run(self, step: dict[str, Any]) -> None:
        """Take one step."""
        op = step["op"]
        if "from" in step:
            made = _STREAM_STEPS[op](self, self._made[step["from"]], step)
        else:
            made = _FIRST_STEPS[op](self, step)
        if "id" in step:
            self._made[step["id"]] = made

    def other(self, step: dict[str, Any]) -> Any:
        """Return what the other side of a join or merge is."""
        return self._made[step["other"]]

    # -- StreamsBuilder

    def _stream(self, step: dict[str, Any]) -> Any:
        topics = re.compile(step["pattern"]) if "pattern" in step else step["topics"]
        return self._builder.stream(topics, _consumed(step))

    def _table(self, step: dict[str, Any]) -> Any:
        return self._builder.table(step["topic"], _consumed(step), *_materialized(step))

    def _global_table(self, step: dict[str, Any]) -> Any:
        return self._builder.global_table(step["topic"], _consumed(step), *_materialized(step))

    def _add_state_store(self, step: dict[str, Any]) -> None:
        self._builder.add_state_store(store_builder(step["store"]))

    def _add_global_store(self, step: dict[str, Any]) -> None:
        self._builder.add_global_store(store_builder(step["store"]), step["topic"], _consumed(step), _supplier(step))

    # -- Topology

    def _add_source(self, step: dict[str, Any]) -> None:
        self._low_level = True
        topics = [re.compile(step["pattern"])] if "pattern" in step else step["topics"]
        self._topology.add_source(
            step["name"], *topics, key_deserializer=serde(step.get("key")), value_deserializer=serde(step.get("value"))
        )

    def _add_processor(self, step: dict[str, Any]) -> None:
        self._low_level = True
        self._topology.add_processor(step["name"], _supplier(step), *step["parents"])

    def _add_sink(self, step: dict[str, Any]) -> None:
        self._low_level = True
        topic = step["topic"]
        self._topology.add_sink(
            step["name"],
            topic,
            *step["parents"],
            key_serializer=serde(step.get("key")),
            value_serializer=serde(step.get("value")),
        )

    def _topology_add_state_store(self, step: dict[str, Any]) -> None:
        self._low_level = True
        self._topology.add_state_store(store_builder(step["store"]), *step.get("processors", ()))

    def _connect(self, step: dict[str, Any]) -> None:
        self._low_level = True
        self._topology.connect_processor_and_state_stores(step["processor_name"], *step["stores"])

    def _filling(self, add: str) -> Callable[[dict[str, Any]], None]:
        def run(step: dict[str, Any]) -> None:
            self._low_level = True
            getattr(self._topology, add)(
                store_builder(step["store"]),
                step["name"],
                step["topic"],
                step["processor_name"],
                _supplier(step),
                key_deserializer=serde(step.get("key")),
                value_deserializer=serde(step.get("value")),
            )

        return run

    # -- streams and tables

    def _show(self, step: dict[str, Any]) -> Callable[[Any, Any], None]:
        return lambda key, value: self.seen.append({"step": step["id"], "key": key, "value": value})

    def _to(self, stream: Any, step: dict[str, Any]) -> None:
        topic: Any = step.get("topic")
        if "topic_extractor" in step:
            extract = ex.of_key_value(step["topic_extractor"])
            topic = lambda key, value, context: extract(key, value)  # noqa: E731
        given = step.get("produced")
        if given is None:
            stream.to(topic)
            return
        produced: Produced[Any, Any] = Produced(
            serde(given.get("key")), serde(given.get("value")), name=given.get("name")
        )
        stream.to(topic, produced)

    def _split(self, stream: Any, step: dict[str, Any]) -> None:
        branched = stream.split(*_named(step))
        for branch in step["branches"]:
            options = (Branched.as_(branch["name"]),) if "name" in branch else ()
            branched.branch(ex.of_key_value(branch["predicate"]), *options)
        if "default" in step:
            default = step["default"]
            branches = branched.default_branch(*((Branched.as_(default["name"]),) if "name" in default else ()))
        else:
            branches = branched.no_default_branch()
        for wanted in step["ids"]:
            name = next(name for name in branches if name.endswith(wanted["branch"]))
            self._made[wanted["id"]] = branches[name]
            self.branch_names[wanted["id"]] = name

    def _repartition(self, stream: Any, step: dict[str, Any]) -> Any:
        given = step["repartitioned"]
        repartitioned: Repartitioned[Any, Any] = Repartitioned(
            serde(given.get("key")), serde(given.get("value")), given.get("name"), given.get("partitions")
        )
        return stream.repartition(repartitioned)

    def _process(self, stream: Any, step: dict[str, Any]) -> Any:
        process = stream.process if step["op"] == "process" else stream.process_values
        return process(_supplier(step), *_named(step), *step.get("stores", ()))

    def _aggregate(self, grouped: Any, step: dict[str, Any]) -> Any:
        options = (*_named(step), *_materialized(step))
        begin = [ex.initializer(step.get("initializer"))]
        merger = []
        if "merger" in step:
            merge = ex.expression(step["merger"])
            merger = [lambda key, left, right: merge({"key": key, "left": left, "right": right})]
        if "adder" in step:
            return grouped.aggregate(*begin, ex.aggregator(step["adder"]), ex.aggregator(step["subtractor"]), *options)
        add = [ex.aggregator(step["aggregator"])] if "aggregator" in step else []
        return grouped.aggregate(*begin, *add, *merger, *options)

    def _reduce(self, grouped: Any, step: dict[str, Any]) -> Any:
        options = (*_named(step), *_materialized(step))
        if "adder" in step:
            return grouped.reduce(ex.reducer(step["adder"]), ex.reducer(step["subtractor"]), *options)
        return grouped.reduce(ex.reducer(step["reducer"]), *options)

    def _cogroup(self, grouped: Any, step: dict[str, Any]) -> Any:
        if "grouped" in step:
            return grouped.cogroup(self._made[step["grouped"]], ex.aggregator(step["aggregator"]))
        return grouped.cogroup(ex.aggregator(step["aggregator"]))

    def _foreign_key_join(self, table: Any, step: dict[str, Any]) -> Any:
        join = table.join if step["op"] == "foreign_key_join" else table.left_join
        given = step.get("table_joined")
        options: tuple[Any, ...] = () if given is None else (TableJoined(name=given.get("name")),)
        extract = ex.of_key_value(step["foreign_key"])
        return join(self.other(step), extract, ex.of_two_sides(step["joiner"]), *options, *_materialized(step))


def _join(self: CaseTopology, left: Any, step: dict[str, Any], name: str) -> Any:
    other, join = self.other(step), getattr(left, name)
    if isinstance(other, KTable) and isinstance(left, KTable):
        return join(other, ex.of_two_sides(step["joiner"]), *_named(step), *_materialized(step))
    joiner = ex.of_sides(step["joiner"])
    if isinstance(other, GlobalKTable):
        return join(other, ex.of_key_value(step["key_mapper"]), joiner, *_named(step))
    if isinstance(other, KStream):
        return join(other, joiner, _join_windows(step["windows"]), _stream_joined(step))
    given = step.get("joined") or {}
    joined: Joined[Any, Any, Any] = Joined(
        serde(given.get("key")), serde(given.get("value")), serde(given.get("other_value")), given.get("name")
    )
    return join(other, joiner, joined.with_grace_period(given["grace_ms"]) if "grace_ms" in given else joined)


def _mapped(method: str) -> Callable[[CaseTopology, Any, dict[str, Any]], Any]:
    def run(self: CaseTopology, stream: Any, step: dict[str, Any]) -> Any:
        function = ex.of_key_value(step.get("mapper", step.get("predicate")))
        return getattr(stream, method)(function, *_named(step), *_materialized(step))

    return run


def _to_stream(self: CaseTopology, table: Any, step: dict[str, Any]) -> Any:
    mapper = (ex.of_key_value(step["mapper"]),) if "mapper" in step else ()
    return table.to_stream(*mapper, *_named(step))


_FIRST_STEPS: dict[str, Callable[[CaseTopology, dict[str, Any]], Any]] = {
    "stream": CaseTopology._stream,
    "table": CaseTopology._table,
    "global_table": CaseTopology._global_table,
    "add_state_store": CaseTopology._add_state_store,
    "add_global_store": CaseTopology._add_global_store,
    "add_source": CaseTopology._add_source,
    "add_processor": CaseTopology._add_processor,
    "add_sink": CaseTopology._add_sink,
    "topology_add_state_store": CaseTopology._topology_add_state_store,
    "connect_processor_and_state_stores": CaseTopology._connect,
    "topology_add_global_store": lambda self, step: self._filling("add_global_store")(step),
    "add_read_only_state_store": lambda self, step: self._filling("add_read_only_state_store")(step),
}

_STREAM_STEPS: dict[str, Callable[[CaseTopology, Any, dict[str, Any]], Any]] = {
    **{
        name: _mapped(name)
        for name in ("filter", "filter_not", "map", "flat_map", "map_values", "flat_map_values", "select_key")
    },
    "peek": lambda self, stream, step: stream.peek(self._show(step), *_named(step)),
    "foreach": lambda self, stream, step: stream.foreach(self._show(step), *_named(step)),
    "merge": lambda self, stream, step: stream.merge(self.other(step), *_named(step)),
    "to": CaseTopology._to,
    "split": CaseTopology._split,
    "repartition": CaseTopology._repartition,
    "to_table": lambda self, stream, step: stream.to_table(*_named(step), *_materialized(step)),
    "to_stream": _to_stream,
    "group_by_key": lambda self, stream, step: stream.group_by_key(*_grouped(step)),
    "group_by": lambda self, stream, step: stream.group_by(ex.of_key_value(step["mapper"]), *_grouped(step)),
    "windowed_by": lambda self, grouped, step: grouped.windowed_by(windows(step["windows"])),
    "emit_strategy": lambda self, windowed, step: windowed.emit_strategy(EmitStrategy(step["strategy"])),
    "count": lambda self, grouped, step: grouped.count(*_named(step), *_materialized(step)),
    "reduce": CaseTopology._reduce,
    "aggregate": CaseTopology._aggregate,
    "cogroup": CaseTopology._cogroup,
    "suppress": lambda self, table, step: table.suppress(_suppressed(step["suppressed"])),
    "transform_values": lambda self, table, step: table.transform_values(
        lambda: CaseTransformer(step["processor"]), *_named(step), *_materialized(step), *step.get("stores", ())
    ),
    "process": CaseTopology._process,
    "process_values": CaseTopology._process,
    **{
        name: lambda self, left, step: _join(self, left, step, step["op"])
        for name in ("join", "left_join", "outer_join")
    },
    "foreign_key_join": CaseTopology._foreign_key_join,
    "foreign_key_left_join": CaseTopology._foreign_key_join,
}
