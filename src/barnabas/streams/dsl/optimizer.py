"""Rewrites the graph before it is written: what `topology.optimization` allows, and what is always right.

Source: Kafka's InternalStreamsBuilder. `reuse.ktable.source.topics` lets a table's topic be its changelog,
`merge.repartition.topics` puts one repartition topic right behind a key change for all operators that need one,
`single.store.self.join` joins a stream with itself by one store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError
from barnabas.streams.dsl.graph.graph_node import (
    GraphNode,
    ProcessorParameters,
    TableSuppressNode,
    VersionedSemanticsNode,
    matching_ancestor,
)
from barnabas.streams.dsl.graph.join_nodes import (
    KTableKTableJoinNode,
    StreamStreamJoinNode,
    WindowedStreamProcessorNode,
)
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode, RepartitionNode
from barnabas.streams.dsl.graph.source_nodes import StreamSourceNode, TableSourceNode
from barnabas.streams.dsl.repartitioned_source import repartitioned_source
from barnabas.streams.engine.processors import KStreamFilter
from barnabas.streams.errors import StreamsError, TopologyError

if TYPE_CHECKING:
    from barnabas.streams.dsl.internal_streams_builder import InternalStreamsBuilder

REUSE = "reuse.ktable.source.topics"
MERGE = "merge.repartition.topics"
SELF_JOIN = "single.store.self.join"
_SETTINGS = {"all": {REUSE, MERGE, SELF_JOIN}, "none": set()}


def optimizations(config: Mapping[str, Any] | None) -> set[str]:
    """Return the optimizations that a setting names. Raises `ConfigError` for others."""
    setting = str((config or {}).get("topology.optimization", "none"))
    if setting in _SETTINGS:
        return set(_SETTINGS[setting])
    names = {name.strip() for name in setting.split(",")}
    if unknown := names - {REUSE, MERGE, SELF_JOIN}:
        raise ConfigError(
            f"Invalid value {setting} for configuration topology.optimization: unknown {', '.join(sorted(unknown))}; "
            f"it may be none, all, or a list of {REUSE}, {MERGE}, {SELF_JOIN}"
        )
    return names


def optimize(builder: InternalStreamsBuilder, config: Mapping[str, Any] | None) -> None:
    """Rewrite the graph as far as the settings allow. Raises `TopologyError` for a graph that cannot be."""
    _merge_duplicate_sources(builder.root)
    wanted = optimizations(config)
    if REUSE in wanted:
        for node in _nodes(builder.root):
            if isinstance(node, TableSourceNode):
                node.reuse_source_topic_for_changelog = True
    if MERGE in wanted:
        _merge_repartition_topics(builder)
    if SELF_JOIN in wanted:
        _rewrite_self_joins(builder.root)
    _filter_null_keys(builder.root)
    _enable_versioned_semantics(builder.root)


def _nodes(root: GraphNode) -> list[GraphNode]:
    found: dict[GraphNode, None] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        if node not in found:
            found[node] = None
            todo += node.children
    return sorted(found, key=lambda node: node.build_priority)


def _merge_duplicate_sources(root: GraphNode) -> None:
    by_topic: dict[Any, StreamSourceNode] = {}
    for node in root.children:
        if not isinstance(node, StreamSourceNode):
            continue
        topics = node.topics
        keys: tuple[Any, ...] = ((topics.pattern, topics.flags),) if isinstance(topics, re.Pattern) else topics
        for topic in keys:
            main = by_topic.setdefault(topic, node)
            if main is node:
                continue
            if not isinstance(topics, re.Pattern) and set(topics) != set(main.topics):  # type: ignore[arg-type]
                raise TopologyError("Two source nodes are subscribed to overlapping but not equal input topics")
            main.merge(node)
            root.remove_child(node)


def _filter_null_keys(root: GraphNode) -> None:
    """Drop records without a key before a repartition, unless a join below it takes them (KIP-962)."""
    keeping: set[GraphNode] = set()
    visited: set[GraphNode] = set()

    def visit(node: GraphNode) -> None:
        if node in visited:
            return
        for child in node.children:
            visit(child)
            if child.null_key_relaxed_join or child in keeping:
                keeping.add(node)
        visited.add(node)

    visit(root)
    for node in visited - keeping:
        if isinstance(node, RepartitionNode) and node.parameters is not None:
            not_null = KStreamFilter(lambda key, value: key is not None, False)
            node.parameters = ProcessorParameters(not_null, node.parameters.name)


def _rewrite_self_joins(root: GraphNode) -> None:
    for node in _nodes(root):
        if not isinstance(node, StreamStreamJoinNode) or len(node.parents) != 1:
            continue
        parent = node.parents[0]
        windowed = {
            child.name: child
            for child in parent.children
            if isinstance(child, WindowedStreamProcessorNode) and child.build_priority < node.build_priority
        }
        left, right = (windowed.get(name) for name in node.windowed_names)
        if left is None or right is None or left.build_priority >= right.build_priority:
            raise RuntimeError(f"the self-join {node.name} lacks a side below {parent.name}; please report this")
        parent.remove_child(right)
        node.is_self_join = True


def _enable_versioned_semantics(root: GraphNode) -> None:
    nodes = _nodes(root)
    for node in nodes:
        if isinstance(node, VersionedSemanticsNode | KTableKTableJoinNode):
            for parent in node.parents:
                if _is_versioned(parent, root):
                    node.enable_versioned_semantics(True, parent.name)
    for node in nodes:
        if isinstance(node, TableSuppressNode) and _is_versioned_upstream(node, root):
            raise TopologyError(
                "suppress() is only supported for non-versioned KTables (note that version semantics might be "
                "inherited from upstream)"
            )


def _is_versioned(node: GraphNode, root: GraphNode) -> bool:
    return _is_versioned_upstream(node, root) if node.output_versioned is None else node.output_versioned


def _is_versioned_upstream(node: GraphNode, root: GraphNode) -> bool:
    return node is not root and all(_is_versioned(parent, root) for parent in node.parents)


def _merge_repartition_topics(builder: InternalStreamsBuilder) -> None:
    changers = builder.key_changers
    _assign_to_merge_nodes(builder)
    for changer, repartitions in list(changers.items()):
        if not repartitions:
            continue
        single = _single_repartition(builder, list(repartitions))
        single.build_priority = changer.build_priority
        for node in repartitions:
            child = matching_ancestor(node, lambda candidate, changer=changer: changer in candidate.parents)  # type: ignore[misc]
            if child is None:
                raise StreamsError(f"Found a null keyChangingChild node for {node.name}")
            single.add_child(child)
            changer.remove_child(child)
            children, parents = node.children, node.parents
            for below in children:
                for parent in parents:
                    parent.add_child(below)
            for parent in parents:
                parent.remove_child(node)
            node.clear_children()
            builder.topology_builder.copartitioning.replace(node.name, single.name)
        changer.add_child(single)
        del changers[changer]


def _assign_to_merge_nodes(builder: InternalStreamsBuilder) -> None:
    """Where several changed streams are merged before the repartition, it belongs behind the merge."""
    changers = builder.key_changers
    to_remove: dict[GraphNode, None] = {}
    found: dict[GraphNode, list[GraphNode]] = {}
    for merge in builder.merge_nodes:
        found[merge] = [
            changer
            for changer, repartitions in changers.items()
            if all(matching_ancestor(node, lambda at, merge=merge: merge in at.parents) for node in repartitions)  # type: ignore[misc]
            and matching_ancestor(merge, lambda at, changer=changer: changer in at.parents) is not None  # type: ignore[misc]
        ]
    for merge, parents in found.items():
        changers[merge] = {node: None for parent in parents for node in changers[parent]}
        to_remove |= dict.fromkeys(parents)
    for changer in to_remove:
        changers.pop(changer, None)


def _single_repartition(
    builder: InternalStreamsBuilder, nodes: Iterable[OptimizableRepartitionNode]
) -> OptimizableRepartitionNode:
    repartitions = [node.repartition for node in nodes]
    key_serde = next((found.key_serde for found in repartitions if found.key_serde is not None), None)
    value_serde = next((found.value_serde for found in repartitions if found.value_serde is not None), None)
    return OptimizableRepartitionNode(
        repartitioned_source(builder, key_serde, value_serde, repartitions[0].topic, named_by_user=True)
    )
