"""Steps that read and write topics."""

from __future__ import annotations

import re
from typing import Any

from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorParameters, StateStoreNode
from barnabas.streams.dsl.options import Consumed, Produced
from barnabas.streams.errors import TopologyError
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder, stores_of
from barnabas.streams.topology.nodes import SourceNode
from barnabas.streams.topology.stores import StoreBuilder


class StreamSourceNode(GraphNode):
    """Reads topics, or those that match a pattern."""

    def __init__(self, name: str, topics: tuple[str, ...] | re.Pattern[str], consumed: Consumed[Any, Any]) -> None:
        super().__init__(name)
        self.topics = topics
        self.consumed = consumed

    def merge(self, other: StreamSourceNode) -> None:
        """Take over the children of a source of the same topics.

        Raises `TopologyError` when the two begin reading at different places.
        """
        if self.consumed.auto_offset_reset != other.consumed.auto_offset_reset:
            raise TopologyError("Can't configure different offset reset policies on the same input topic(s)")
        for child in other.children:
            other.remove_child(child)
            self.add_child(child)

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the source."""
        _add_source(builder, self.name, self.topics, self.consumed)


class TableSourceNode(GraphNode):
    """Reads the topic of a table, or of a global one, into its store."""

    def __init__(
        self,
        name: str,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        parameters: ProcessorParameters,
        is_global: bool = False,
    ) -> None:
        super().__init__(name)
        self.source_name = source_name
        self.topic = topic
        self.consumed = consumed
        self.parameters = parameters
        self.is_global = is_global
        self.reuse_source_topic_for_changelog = False

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the source and the processor that fills the store."""
        supplier = self.parameters.supplier
        if self.is_global:
            source = _source(self.source_name, self.topic, self.consumed)
            builder.add_global_store(stores_of(supplier)[0], source, self.parameters.name, supplier, False)
            return
        _add_source(builder, self.source_name, (self.topic,), self.consumed)
        self.parameters.add_processor_to(builder, [self.source_name])
        if self.reuse_source_topic_for_changelog:
            for store in stores_of(supplier):
                store.with_logging_disabled()
                builder.connect_source_store_and_topic(store.name, self.topic)


class GlobalStoreNode(StateStoreNode):
    """A global store that a processor of the user fills."""

    def __init__(
        self,
        store: StoreBuilder,
        source_name: str,
        topic: str,
        consumed: Consumed[Any, Any],
        parameters: ProcessorParameters,
    ) -> None:
        super().__init__(store)
        self.source_name = source_name
        self.topic = topic
        self.consumed = consumed
        self.parameters = parameters

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the store with its source and processor."""
        source = _source(self.source_name, self.topic, self.consumed)
        builder.add_global_store(self.store, source, self.parameters.name, self.parameters.supplier, True)


class StreamSinkNode(GraphNode):
    """Writes to a topic, or to the one that a function names."""

    def __init__(self, name: str, topic: Any, produced: Produced[Any, Any]) -> None:
        super().__init__(name)
        self.topic = topic
        self.produced = produced

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the sink."""
        produced = self.produced
        serdes = (produced.key_serde, produced.value_serde)
        builder.add_sink(self.name, self.topic, serdes, produced.partitioner, self.parent_names)


def _source(name: str, topic: str, consumed: Consumed[Any, Any]) -> SourceNode:
    node = SourceNode(name, topics=(topic,), timestamp_extractor=consumed.timestamp_extractor)
    node.key_deserializer, node.value_deserializer = consumed.key_serde, consumed.value_serde
    return node


def _add_source(
    builder: TopologyBuilder, name: str, topics: tuple[str, ...] | re.Pattern[str], consumed: Consumed[Any, Any]
) -> None:
    builder.add_source(
        name,
        topics,
        consumed.key_serde,
        consumed.value_serde,
        consumed.timestamp_extractor,
        consumed.auto_offset_reset,
    )
