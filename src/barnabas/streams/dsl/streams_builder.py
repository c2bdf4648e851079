"""`StreamsBuilder`: where a topology in the DSL begins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from barnabas.streams.dsl.abstract_stream import Upstream
from barnabas.streams.dsl.global_ktable import GlobalKTable
from barnabas.streams.dsl.graph.graph_node import ProcessorParameters, StateStoreNode
from barnabas.streams.dsl.graph.source_nodes import GlobalStoreNode, StreamSourceNode
from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder
from barnabas.streams.dsl.kstream import KStream
from barnabas.streams.dsl.ktable import KTable
from barnabas.streams.dsl.materialized import Materialized, materialized_internal
from barnabas.streams.dsl.optimizer import optimize
from barnabas.streams.dsl.options import Consumed, combined, only, pick
from barnabas.streams.dsl.table_sources import global_table_of_topic, table_of_topic
from barnabas.streams.serdes import Serde
from barnabas.streams.topology.given_fields import check_text
from barnabas.streams.topology.processor_api import ProcessorSupplier
from barnabas.streams.topology.stores import StoreBuilder, check_store_builder
from barnabas.streams.topology.topology import Topology, check_supplier

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder:
    """Takes steps, from topics to topics; `build()` makes a topology of them.

    `config` are settings that act while steps are taken, as Kafka's TopologyConfig:
    `ensure.explicit.internal.resource.naming`, `processor.wrapper.class`, `dsl.store.suppliers.class`.
    """

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self._builder = InternalStreamsBuilder(Topology(config))

    def stream(
        self,
        topics: str | Iterable[str] | re.Pattern[str],
        consumed: Consumed[K, V] | None = None,
        *,
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
    ) -> KStream[K, V]:
        """Read a topic, several, or all that a compiled pattern matches, as a stream."""
        if topics is None:
            raise TypeError("topics can't be null")
        asked = combined(Consumed, consumed, "stream", key_serde=key, value_serde=value, name=name)
        step = self._builder.names.given_or(asked.name, "KSTREAM-SOURCE-")
        read = topics if isinstance(topics, re.Pattern) else _topics(topics)
        node = StreamSourceNode(step, read, asked)
        self._builder.add(self._builder.root, node)
        upstream = Upstream(self._builder, step, node, frozenset({step}), asked.key_serde, asked.value_serde)
        return KStream(upstream, False)

    def table(
        self,
        topic: str,
        *options: Consumed[K, V] | Materialized[K, V],
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable[K, V]:
        """Read a topic as a table: the newest value of each key."""
        consumed, materialized = _table_options(options, (key, value, name, store), topic, "table")
        internal = materialized_internal(materialized, self._builder, f"{topic}-")
        return table_of_topic(self._builder, topic, consumed, internal)

    def global_table(
        self,
        topic: str,
        *options: Consumed[K, V] | Materialized[K, V],
        key: Serde[K] | None = None,
        value: Serde[V] | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> GlobalKTable[K, V]:
        """Read all partitions of a topic as a table in every task. Raises `TopologyError` for a versioned store."""
        consumed, materialized = _table_options(options, (key, value, name, store), topic, "global_table")
        unnamed = not any(isinstance(option, Materialized) for option in options) and store is None
        internal = materialized_internal(
            materialized.with_logging_disabled(), self._builder, f"{topic}-", force_queryable=unnamed
        )
        return global_table_of_topic(self._builder, topic, consumed, internal)

    def add_state_store(self, store_builder: StoreBuilder) -> StreamsBuilder:
        """Add a store; `process` and its like name it to reach it."""
        check_store_builder(store_builder)
        self._builder.add(self._builder.root, StateStoreNode(store_builder))
        return self

    def add_global_store(
        self,
        store_builder: StoreBuilder,
        topic: str,
        consumed: Consumed[K, V],
        state_update_supplier: ProcessorSupplier,
    ) -> StreamsBuilder:
        """Add a store that every task reads, filled by a processor from all partitions of a topic."""
        check_store_builder(store_builder)
        check_supplier(state_update_supplier)
        only((Consumed,), (consumed,), "add_global_store")
        store_builder.with_logging_disabled()
        source = self._builder.names.suffixed_or(consumed.name, "-source", "KSTREAM-SOURCE-")
        step = self._builder.names.given_or(consumed.name, "KTABLE-SOURCE-")
        node = GlobalStoreNode(store_builder, source, topic, consumed, ProcessorParameters(state_update_supplier, step))
        self._builder.add(self._builder.root, node)
        return self

    def build(self, config: Mapping[str, Any] | None = None) -> Topology:
        """Return the topology; of the settings `topology.optimization` acts here.

        Raises `TopologyError` for what cannot be, with a note that names the step and the line that made it.
        """
        optimize(self._builder, config)
        return self._builder.build()


def _topics(topics: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(topics, str | Iterable):
        raise TypeError(f"topics is a topic, several, or a compiled pattern, not {topics!r}")
    found = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    for topic in found:
        if topic is not None:
            check_text("each of the topics", topic)
    return found


def _table_options(
    options: tuple[Any, ...], keywords: tuple[Any, Any, str | None, str | None], topic: str, step: str
) -> tuple[Consumed[Any, Any], Materialized[Any, Any]]:
    """Return how the topic is read and kept: serdes given for one are those of the other."""
    if topic is None:
        raise TypeError("topic can't be null")
    check_text("topic", topic)
    only((Consumed, Materialized), options, step)
    key, value, name, store = keywords
    consumed = pick(Consumed, options, step)
    materialized = pick(Materialized, options, step)
    store = None if store is None else Materialized.as_(store).store_name
    if consumed is None and materialized is not None:
        consumed = Consumed(materialized.key_serde, materialized.value_serde)
        named = combined(Materialized, materialized, step, store_name=store)
        return combined(Consumed, consumed, step, key_serde=key, value_serde=value, name=name), named
    consumed = combined(Consumed, consumed, step, key_serde=key, value_serde=value, name=name)
    materialized = combined(Materialized, materialized, step, store_name=store)
    return consumed, replace(materialized, key_serde=consumed.key_serde, value_serde=consumed.value_serde)
