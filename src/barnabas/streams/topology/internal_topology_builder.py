"""Builds a topology node by node, and refuses what cannot be, with Kafka's words.

Source: Kafka's InternalTopologyBuilder. Topics that the topology makes for itself go by their short names here; they
get the application's id in front when the topology is rewritten for an application.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.streams.errors import TopologyError
from barnabas.streams.topology.copartitioning import Copartitioning
from barnabas.streams.topology.dsl_store_suppliers import DslStoreSuppliers
from barnabas.streams.topology.given_fields import check_field, check_serializers, check_text
from barnabas.streams.topology.internal_resources_naming import InternalNames
from barnabas.streams.topology.node_groups import NodeGroups
from barnabas.streams.topology.nodes import (
    GlobalStoreRestore,
    InternalTopicProperties,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
)
from barnabas.streams.topology.origins import users_line
from barnabas.streams.topology.processor_api import TimestampExtractor
from barnabas.streams.topology.processor_wrapper import SETTING, ProcessorWrapper
from barnabas.streams.topology.stores import StoreBuilder

if TYPE_CHECKING:
    from barnabas.streams.topology.processor_api import TopicNameExtractor


class TopologyBuilder:
    """The nodes, stores and topics of a topology; `made_at` is the user's line that the next nodes are due to."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreBuilder] = {}
        self.global_stores: dict[str, StoreBuilder] = {}
        self.global_restores: dict[str, GlobalStoreRestore] = {}
        self.internal_topics: dict[str, InternalTopicProperties] = {}
        self.store_to_changelog: dict[str, str] = {}
        self.store_source_nodes: dict[str, list[str]] = {}
        self.global_topics: set[str] = set()
        self.groups = NodeGroups()
        self.copartitioning = Copartitioning(self.nodes, self.internal_topics, self.real_name)
        self.names = InternalNames()
        self.wrapper: ProcessorWrapper | None = None
        self.dsl_store_suppliers: DslStoreSuppliers | None = None
        self.application_id: str | None = None
        self.made_at: str | None = None

    # -- nodes

    def add_source(
        self,
        name: str,
        topics: Sequence[str] | re.Pattern[str],
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        timestamp_extractor: TimestampExtractor | None = None,
        auto_offset_reset: Any = None,
    ) -> None:
        """Add a node that reads topics. Raises `TopologyError` when the name or a topic is taken, or none is given."""
        self._check_new(name)
        check_field("timestamp_extractor", timestamp_extractor)
        check_field("auto_offset_reset", auto_offset_reset)
        check_serializers("deserialize", key_deserializer=key_deserializer, value_deserializer=value_deserializer)
        pattern = topics if isinstance(topics, re.Pattern) else None
        fixed = () if isinstance(topics, re.Pattern) else tuple(topics)
        if pattern is not None:
            self._check_pattern(pattern)
        elif not fixed:
            raise TopologyError("topics cannot be empty")
        for at, topic in enumerate(fixed):
            if topic is None:
                raise TypeError("topic names cannot be null")
            self._check_topic_is_free(topic)
            if topic in fixed[:at]:
                raise TopologyError(f"Topic {topic} has already been registered by another source.")
        node = SourceNode(name, topics=fixed, pattern=pattern, timestamp_extractor=timestamp_extractor)
        node.key_deserializer, node.value_deserializer = key_deserializer, value_deserializer
        node.auto_offset_reset = auto_offset_reset
        self._add(node)

    def add_processor(self, name: str, supplier: Any, parents: Sequence[str], *, fixed_key: bool = False) -> None:
        """Add a node that processes records, with the stores that its supplier brings.

        Raises `TopologyError` when the name is taken, or a parent unknown or a sink.
        """
        self._check_new(name)
        self._check_parents(name, parents)
        self._add(ProcessorNode(name, tuple(parents), supplier=self._wrapped(name, supplier, fixed_key)))
        for store in stores_of(supplier):
            self.add_state_store(store, [name])

    def _wrapped(self, name: str, supplier: Any, fixed_key: bool) -> Any:
        if self.wrapper is None:
            return supplier
        wrap = self.wrapper.wrap_fixed_key_processor_supplier if fixed_key else self.wrapper.wrap_processor_supplier
        made = wrap(name, supplier)
        if not callable(made):
            raise TypeError(f"the ProcessorWrapper returned {made!r} for {name}, not a supplier")
        return made

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        serializers: tuple[Any, Any],
        partitioner: Any,
        parents: Sequence[str],
    ) -> None:
        """Add a node that writes to a topic, or to the one that a function names for each record.

        Raises `TopologyError` when the name is taken, or a parent unknown or a sink.
        """
        self._check_new(name)
        if topic is None:
            raise TypeError("topic cannot be null")
        if not isinstance(topic, str) and not callable(topic):
            raise TypeError(f"topic is a str, or a function that names one for each record, not {topic!r}")
        check_field("partitioner", partitioner)
        check_serializers("serialize", key_serializer=serializers[0], value_serializer=serializers[1])
        self._check_parents(name, parents)
        node = SinkNode(name, tuple(parents), partitioner=partitioner)
        node.topic, node.topic_extractor = (topic, None) if isinstance(topic, str) else (None, topic)
        node.key_serializer, node.value_serializer = serializers
        self._add(node)

    def _add(self, node: Node) -> None:
        node.made_at = users_line() if self.made_at is None else self.made_at
        self.nodes[node.name] = node
        self.groups.add(node.name)
        self.groups.unite(node.name, node.predecessors)
        for parent in node.predecessors:
            self.nodes[parent].children.append(node.name)

    # -- stores

    def add_state_store(self, store: StoreBuilder, processors: Iterable[str] = ()) -> None:
        """Add a store and connect it to processors.

        Raises `TopologyError` when another store has the name, or a processor cannot have one.
        """
        known = self.stores.get(store.name)
        if known is not None and not known.is_compatible_with(store):
            raise TopologyError(f"A different StateStore has already been added with the name {store.name}")
        if store.name in self.global_stores:
            raise TopologyError(f"A different GlobalStateStore has already been added with the name {store.name}")
        if known is not None and known is not store:
            store.connected_processors = known.connected_processors
        self.stores[store.name] = store
        for processor in processors:
            self._connect(processor, store.name)

    def connect_processor_and_state_stores(self, processor: str, stores: Sequence[str]) -> None:
        """Let a processor reach stores. Raises `TopologyError` when one is unknown, or it is no processor."""
        if not stores:
            raise TopologyError("stateStoreNames cannot be empty")
        check_text("processor name", processor)
        node = self.nodes.get(processor)
        if isinstance(node, SourceNode) or (isinstance(node, SinkNode) and node.topic is not None):
            raise TopologyError("State stores cannot be connect to sources or sinks.")
        for store in stores:
            self._connect(processor, store)

    def _connect(self, processor: str, store_name: str) -> None:
        check_text("processor name", processor)
        check_text("state store name", store_name)
        if store_name in self.global_stores:
            raise TopologyError(
                f"Global StateStore {store_name} can be used by a Processor without being specified; it should not be "
                "explicitly passed."
            )
        if store_name not in self.stores:
            raise TopologyError(f"StateStore {store_name} is not added yet.")
        if processor not in self.nodes:
            raise TopologyError(f"Processor {processor} is not added yet.")
        store, node = self.stores[store_name], self.nodes[processor]
        if store.connected_processors:
            self.groups.unite(store.connected_processors[0], [processor])
        if processor not in store.connected_processors:
            store.connected_processors.append(processor)
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"cannot connect a state store {store_name} to a source node or a sink node.")
        if store_name not in node.state_store_names:
            node.state_store_names.append(store_name)
        if store_name not in self.store_source_nodes:
            self.store_source_nodes[store_name] = self._sources_of(node.predecessors)

    def _sources_of(self, names: Iterable[str]) -> list[str]:
        found: list[str] = []
        for name in names:
            node = self.nodes[name]
            found += [name] if isinstance(node, SourceNode) else self._sources_of(node.predecessors)
        return list(dict.fromkeys(found))

    def add_global_store(
        self,
        store: StoreBuilder,
        source: SourceNode,
        processor_name: str,
        supplier: Any,
        reprocess: bool,
    ) -> None:
        """Add a store that every task reads, and the two nodes that fill it from all of a topic.

        Raises `TopologyError` when a name or the topic is taken.
        """
        topic = source.topics[0]
        check_field("timestamp_extractor", source.timestamp_extractor)
        given = {"key_deserializer": source.key_deserializer, "value_deserializer": source.value_deserializer}
        check_serializers("deserialize", **given)
        self._check_new(source.name)
        if topic is None:
            raise TypeError("topic cannot be null")
        self._check_topic_is_free(topic)
        self._check_new(processor_name)
        if source.name == processor_name:
            raise TopologyError("sourceName and processorName must be different.")
        if store.name in self.stores:
            raise TopologyError(f"A different StateStore has already been added with the name {store.name}")
        if store.name in self.global_stores:
            raise TopologyError(f"A different GlobalStateStore has already been added with the name {store.name}")
        self.global_topics.add(topic)
        self._add(source)
        node = ProcessorNode(processor_name, (source.name,), supplier=supplier, state_store_names=[store.name])
        self._add(node)
        self.global_stores[store.name] = store.with_logging_disabled()
        self.global_restores[store.name] = GlobalStoreRestore(source.name, processor_name, topic, reprocess)
        self.connect_source_store_and_topic(store.name, topic)

    def connect_source_store_and_topic(self, store_name: str, topic: str) -> None:
        """Let a source topic be the changelog of a store. Raises `TopologyError` when the store has one."""
        if store_name in self.store_to_changelog:
            raise TopologyError(f"Source store {store_name} is already added.")
        self.store_to_changelog[store_name] = topic

    # -- topics of its own

    def add_internal_topic(self, topic: str, properties: InternalTopicProperties) -> None:
        """Say that a topic is the topology's own, to be made for it."""
        self.internal_topics[topic] = properties

    def decorate(self, topic: str) -> str:
        """Return the name that an internal topic has on the cluster. Raises `TopologyError` without an application."""
        if self.application_id is None:
            raise TopologyError(
                "there are internal topics and applicationId hasn't been set. Call setApplicationId first"
            )
        return f"{self.application_id}-{topic}"

    def real_name(self, topic: str) -> str:
        """Return a topic's name on the cluster: its own, or decorated when it is internal."""
        return self.decorate(topic) if topic in self.internal_topics else topic

    def match_topics(self, existing: Iterable[str]) -> None:
        """Tell the sources by pattern which topics there are; those that a source reads by name are left out.

        Raises `TopologyError` when two sources match the same topic.
        """
        sources = self._sources()
        free = sorted({*existing} - {topic for node in sources for topic in node.topics})
        by: dict[str, str] = {}
        for node in sources:
            pattern = node.pattern
            if pattern is None:
                continue
            node.matched = tuple(topic for topic in free if pattern.fullmatch(topic))
            for topic in node.matched:
                if topic in by:
                    raise TopologyError(
                        f"Topic {topic} is already matched for another regex pattern {by[topic]} and hence cannot be "
                        f"matched to this regex pattern {pattern.pattern} any more."
                    )
                by[topic] = pattern.pattern

    def rewrite_topology(self, config: Mapping[str, Any]) -> None:
        """Fit the topology to an application: its id in the names of internal topics, no cache where there is none.

        A second application may take the same topology when the first is done. Raises `TopologyError` for a wrapper of
        processors that the topology was built without.
        """
        if config.get(SETTING) is not None and self.wrapper is None:
            raise TopologyError(
                f"{SETTING} acts while a topology is built: give it to StreamsBuilder(config) or Topology(config)"
            )
        self.application_id = str(config.get("internal.topic.prefix") or config["application.id"])
        size = config.get("statestore.cache.max.bytes", config.get("cache.max.bytes.buffering", 10 * 1024 * 1024))
        if int(size) == 0:
            for store in (*self.stores.values(), *self.global_stores.values()):
                store.with_caching_disabled()

    # -- checks

    def _check_new(self, name: str) -> None:
        if name is None:
            raise TypeError("name cannot be null")
        check_text("name", name)
        if name in self.nodes:
            raise TopologyError(f"Processor {name} is already added.")

    def _check_parents(self, name: str, parents: Sequence[str]) -> None:
        if not parents:
            raise TopologyError("predecessorNames cannot be empty")
        for parent in parents:
            if parent is None:
                raise TypeError("parent name cannot be null")
            check_text("parent name", parent)
            if parent not in self.nodes:
                itself = " (self-reference)" if parent == name else ""
                raise TopologyError(f"Parent node {parent} is unknown{itself}.")
            node = self.nodes[parent]
            if isinstance(node, SinkNode) and node.topic is not None:
                raise TopologyError(f"Sink {parent} cannot be used a parent.")

    def _check_pattern(self, pattern: re.Pattern[str]) -> None:
        for node in self._sources():
            if any(pattern.fullmatch(topic) for topic in node.topics if topic not in self.global_topics):
                raise TopologyError(
                    f"Pattern {pattern.pattern} will match a topic that has already been registered by another source."
                )

    def _check_topic_is_free(self, topic: str) -> None:
        check_text("topic", topic)
        for node in self._sources():
            if topic in node.topics:
                raise TopologyError(f"Topic {topic} has already been registered by another source.")
        for node in self._sources():
            if node.pattern is not None and node.pattern.fullmatch(topic):
                raise TopologyError(f"Topic {topic} matches a Pattern already registered by another source.")

    def _sources(self) -> list[SourceNode]:
        return [node for node in self.nodes.values() if isinstance(node, SourceNode)]


def stores_of(supplier: Any) -> list[StoreBuilder]:
    """Return the stores that a supplier brings with it (KIP-401)."""
    stores = getattr(supplier, "stores", None)
    return list(stores() or ()) if callable(stores) else []
