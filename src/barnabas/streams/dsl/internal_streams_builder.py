"""The graph of one StreamsBuilder, its names, and how it becomes a topology. Source: Kafka's InternalStreamsBuilder."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from barnabas.streams.dsl.graph.graph_node import GraphNode, RootNode, matching_ancestor
from barnabas.streams.dsl.graph.repartition_nodes import OptimizableRepartitionNode
from barnabas.streams.dsl.operator_names import Names
from barnabas.streams.topology.origins import note_origin
from barnabas.streams.topology.topology import Topology


class InternalStreamsBuilder:
    """Takes steps in order; `build` writes the graph, optimized before, to the topology: parents first."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.topology_builder = topology.builder
        self.names = Names()
        self.root = RootNode("root")
        #: Steps that change keys, with the repartitions that are needed because of them.
        self.key_changers: dict[GraphNode, dict[OptimizableRepartitionNode, None]] = {}
        self.merge_nodes: dict[GraphNode, None] = {}
        self._priority = 0

    def add(self, parents: GraphNode | Iterable[GraphNode], node: GraphNode) -> None:
        """Add a step below others."""
        for parent in [parents] if isinstance(parents, GraphNode) else parents:
            parent.add_child(node)
            node.build_priority = self._priority
            self._priority += 1
            self._note(node)

    def _note(self, node: GraphNode) -> None:
        if node.key_changing:
            self.key_changers[node] = {}
        elif isinstance(node, OptimizableRepartitionNode):
            changer = _key_changer_of(node)
            if changer is not None:
                self.key_changers[changer][node] = None
        elif node.is_merge:
            self.merge_nodes[node] = None

    def build(self) -> Topology:
        """Return the topology. Raises `TopologyError` with a note that names the step and the user's line."""
        waiting: list[tuple[int, int, GraphNode]] = [(self.root.build_priority, 0, self.root)]
        pushed = 0
        while waiting:
            node = heapq.heappop(waiting)[2]
            if node.all_parents_written() and not node.written:
                self._write(node)
            for child in node.children:
                if not child.written:
                    pushed += 1
                    heapq.heappush(waiting, (child.build_priority, pushed, child))
        self.topology_builder.copartitioning.validate()
        self.topology_builder.names.check()
        return self.topology

    def _write(self, node: GraphNode) -> None:
        self.topology_builder.made_at = node.made_at
        try:
            node.write_to_topology(self.topology_builder)
        except Exception as problem:
            note_origin(problem, node.name, node.made_at)
            raise
        finally:
            self.topology_builder.made_at = None
        node.written = True


def _key_changer_of(node: GraphNode) -> GraphNode | None:
    """Return the step because of which a repartition is needed; None when values, and so serdes, changed since."""
    nearest = matching_ancestor(node, lambda at: at.key_changing or at.value_changing)
    changer = matching_ancestor(node, lambda at: at.key_changing)
    return changer if changer is not None and changer is nearest else None
