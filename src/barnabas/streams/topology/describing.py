"""Makes the description of a topology from its nodes."""

from __future__ import annotations

from barnabas.streams.topology.description import (
    GlobalStoreDescription,
    NodeDescription,
    ProcessorDescription,
    SinkDescription,
    SourceDescription,
    SubtopologyDescription,
    TopologyDescription,
    connect,
    in_order,
)
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder
from barnabas.streams.topology.java_order import hash_order
from barnabas.streams.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from barnabas.streams.topology.processor_topology import is_global, node_groups


def describe(builder: TopologyBuilder) -> TopologyDescription:
    """Return the description of all sub-topologies and global stores."""
    subtopologies = []
    stores = []
    for number, names in node_groups(builder).items():
        if is_global(builder, names):
            stores += _global_stores(builder, number)
        else:
            subtopologies.append(SubtopologyDescription(number, tuple(in_order(_connected(builder, names)))))
    return TopologyDescription(tuple(subtopologies), tuple(stores))


def _connected(builder: TopologyBuilder, names: list[str]) -> list[NodeDescription]:
    described = {name: _described(builder.nodes[name]) for name in hash_order(hash_order(names))}
    for name, node in described.items():
        for predecessor in builder.nodes[name].predecessors:
            connect(described[predecessor], node)
    return list(described.values())


def _described(node: Node) -> NodeDescription:
    if isinstance(node, SourceNode):
        return SourceDescription(node.name, topics=node.topics, topic_pattern=node.pattern)
    if isinstance(node, SinkNode):
        return SinkDescription(node.name, topic=node.topic)
    stores = tuple(node.state_store_names) if isinstance(node, ProcessorNode) else ()
    return ProcessorDescription(node.name, stores=stores)


def _global_stores(builder: TopologyBuilder, number: int) -> list[GlobalStoreDescription]:
    names = node_groups(builder)[number]
    described = []
    for store, restore in builder.global_restores.items():
        if restore.source_name in names:
            source = SourceDescription(restore.source_name, topics=(restore.topic,))
            processor = ProcessorDescription(restore.processor_name, stores=(store,))
            connect(source, processor)
            described.append(GlobalStoreDescription(number, source, processor))
    return described
