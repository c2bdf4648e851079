"""Cuts a topology into what tasks run, and names its topics as they are on the cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from barnabas.streams.topology.internal_topic_config import DAY_MS, REPARTITION_CONFIG, InternalTopic, changelog_config
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder
from barnabas.streams.topology.nodes import ProcessorNode, ProcessorTopology, SinkNode, SourceNode
from barnabas.streams.topology.stores import StoreBuilder

#: A changelog topic is named for its store.
CHANGELOG_SUFFIX = "-changelog"


@dataclass(frozen=True)
class TopicsInfo:
    """The topics of one sub-topology, under their names on the cluster."""

    sink_topics: frozenset[str]
    source_topics: frozenset[str]
    repartition_source_topics: dict[str, InternalTopic]
    state_changelog_topics: dict[str, InternalTopic]


def node_groups(builder: TopologyBuilder) -> dict[int, list[str]]:
    """Return the numbers of all sub-topologies, global stores' among them, with the names of their nodes."""
    return builder.groups.numbered(builder.nodes)


def is_global(builder: TopologyBuilder, names: Iterable[str]) -> bool:
    """Tell whether a group of nodes fills a global store."""
    return any(_is_global_source(builder, name) for name in names)


def _is_global_source(builder: TopologyBuilder, name: str) -> bool:
    node = builder.nodes[name]
    return isinstance(node, SourceNode) and len(node.topics) == 1 and node.topics[0] in builder.global_topics


def build_topology(builder: TopologyBuilder) -> ProcessorTopology:
    """Return all nodes but those of global stores as one."""
    groups = node_groups(builder).values()
    return _build(builder, {name for group in groups if not is_global(builder, group) for name in group})


def build_subtopology(builder: TopologyBuilder, number: int) -> ProcessorTopology:
    """Return the nodes of one sub-topology. Raises KeyError when there is none of that number."""
    return _build(builder, set(node_groups(builder)[number]))


def build_global_state_topology(builder: TopologyBuilder) -> ProcessorTopology | None:
    """Return the nodes that fill global stores; None when there are no global stores."""
    groups = node_groups(builder).values()
    names = {name for group in groups if is_global(builder, group) for name in group}
    return _build(builder, names) if names else None


def changelog_topic(builder: TopologyBuilder, store: StoreBuilder) -> str | None:
    """Return the topic that a store is restored from: a source topic, its changelog topic, or None for none."""
    if (topic := builder.store_to_changelog.get(store.name)) is not None:
        return builder.real_name(topic)
    return builder.decorate(store.name + CHANGELOG_SUFFIX) if store.logging else None


def topics_by_subtopology(builder: TopologyBuilder, additional_retention_ms: int = DAY_MS) -> dict[int, TopicsInfo]:
    """Return the topics of each sub-topology that reads any, but for those of global stores.

    Changelogs of windows keep records so much longer than their stores (windowstore.changelog.additional.retention.ms).
    """
    infos: dict[int, TopicsInfo] = {}
    for number, names in node_groups(builder).items():
        if not is_global(builder, names):
            info = _topics_of(builder, names, additional_retention_ms)
            if info.source_topics or any(_pattern_of(builder, name) for name in names):
                infos[number] = info
    return infos


def _pattern_of(builder: TopologyBuilder, name: str) -> bool:
    node = builder.nodes[name]
    return isinstance(node, SourceNode) and node.pattern is not None


def _topics_of(builder: TopologyBuilder, names: Iterable[str], additional_retention_ms: int) -> TopicsInfo:
    sinks: set[str] = set()
    sources: set[str] = set()
    repartition: dict[str, InternalTopic] = {}
    stores: dict[str, StoreBuilder] = {}
    for name in names:
        node = builder.nodes[name]
        if isinstance(node, SourceNode):
            for topic in node.read_topics:
                real = builder.real_name(topic)
                sources.add(real)
                if (properties := builder.internal_topics.get(topic)) is not None:
                    repartition[real] = InternalTopic(real, dict(REPARTITION_CONFIG), properties.number_of_partitions)
        elif isinstance(node, SinkNode) and node.topic is not None:
            sinks.add(builder.real_name(node.topic))
        elif isinstance(node, ProcessorNode):
            stores |= {store: builder.stores[store] for store in node.state_store_names if store in builder.stores}
    changelogs = {
        changelog: InternalTopic(changelog, changelog_config(store, additional_retention_ms))
        for store in stores.values()
        if (changelog := changelog_topic(builder, store)) is not None
    }
    return TopicsInfo(frozenset(sinks), frozenset(sources), repartition, changelogs)


def _build(builder: TopologyBuilder, names: set[str]) -> ProcessorTopology:
    nodes = {name: node for name, node in builder.nodes.items() if name in names}
    sources: dict[str, str] = {}
    sinks: dict[str, str] = {}
    stores: dict[str, StoreBuilder] = {}
    changelogs: dict[str, str] = {}
    repartition: set[str] = set()
    for name, node in nodes.items():
        if isinstance(node, SourceNode):
            sources |= {builder.real_name(topic): name for topic in node.read_topics}
            repartition |= {builder.real_name(topic) for topic in node.topics if topic in builder.internal_topics}
        elif isinstance(node, SinkNode) and node.topic is not None:
            sinks[builder.real_name(node.topic)] = name
            if node.topic in builder.internal_topics:
                repartition.add(builder.real_name(node.topic))
        elif isinstance(node, ProcessorNode):
            stores |= {store: builder.stores[store] for store in node.state_store_names if store in builder.stores}
    for store in (*stores.values(), *builder.global_stores.values()):
        if (changelog := changelog_topic(builder, store)) is not None:
            changelogs[store.name] = changelog
    return ProcessorTopology(
        nodes=nodes,
        source_by_topic=sources,
        pattern_sources=tuple(name for name in nodes if _pattern_of(builder, name)),
        sink_topics=sinks,
        state_stores=stores,
        global_stores=dict(builder.global_stores),
        store_to_changelog_topic=changelogs,
        repartition_topics=frozenset(repartition),
        global_restores=dict(builder.global_restores),
    )
