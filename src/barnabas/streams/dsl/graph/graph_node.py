"""Nodes of the graph that a builder keeps until `build()`: they can still be moved, merged and replaced.

Source: Kafka's package `kstream.internals.graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from barnabas.streams.topology.internal_topology_builder import TopologyBuilder
from barnabas.streams.topology.origins import users_line
from barnabas.streams.topology.stores import StoreBuilder


@dataclass(frozen=True)
class ProcessorParameters:
    """A processor and its name."""

    supplier: Any
    name: str
    fixed_key: bool = False

    def add_processor_to(self, builder: TopologyBuilder, parents: list[str]) -> None:
        """Write the processor, with the stores that it brings, below its parents."""
        builder.add_processor(self.name, self.supplier, parents, fixed_key=self.fixed_key)


class GraphNode:
    """A step of the DSL; `build_priority` is when it was added, and so the order in which steps are written."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._children: dict[GraphNode, None] = {}
        self._parents: dict[GraphNode, None] = {}
        self.key_changing = False
        self.value_changing = False
        self.is_merge = False
        self.null_key_relaxed_join = False
        self.build_priority = 0
        self.written = False
        #: Whether the result is a versioned table; None: as its parents are.
        self.output_versioned: bool | None = None
        self.made_at = users_line()

    @property
    def children(self) -> list[GraphNode]:
        """The steps that follow, in the order in which they were added."""
        return list(self._children)

    @property
    def parents(self) -> list[GraphNode]:
        """The steps before, in the order in which they were added."""
        return list(self._parents)

    @property
    def parent_names(self) -> list[str]:
        """The names of the steps before."""
        return [parent.name for parent in self._parents]

    def add_child(self, child: GraphNode) -> None:
        """Draw an edge."""
        self._children[child] = None
        child._parents[self] = None

    def remove_child(self, child: GraphNode) -> None:
        """Take an edge away."""
        if child in self._children:
            del self._children[child]
            child._parents.pop(self, None)

    def clear_children(self) -> None:
        """Take all edges to children away."""
        for child in self.children:
            self.remove_child(child)

    def all_parents_written(self) -> bool:
        """Tell whether the step may be written."""
        return all(parent.written for parent in self._parents)

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the nodes of the step to the topology."""
        raise NotImplementedError(type(self).__name__)

    def ancestors(self) -> Iterator[GraphNode]:
        """Yield the steps before, each way to its beginning, as Kafka searches them."""
        for parent in self._parents:
            yield parent
            yield from parent.ancestors()


class RootNode(GraphNode):
    """Where all steps begin that need no other."""

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Write nothing."""


class ProcessorGraphNode(GraphNode):
    """A step of one processor."""

    def __init__(self, name: str, parameters: ProcessorParameters) -> None:
        super().__init__(name)
        self.parameters = parameters

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the processor."""
        self.parameters.add_processor_to(builder, self.parent_names)


class ProcessorToStateConnectorNode(ProcessorGraphNode):
    """A processor that reaches stores of other steps."""

    def __init__(self, name: str, parameters: ProcessorParameters, store_names: list[str]) -> None:
        super().__init__(name, parameters)
        self.store_names = store_names

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the processor and connect it to its stores."""
        super().write_to_topology(builder)
        if self.store_names:
            builder.connect_processor_and_state_stores(self.name, self.store_names)


class GracePeriodGraphNode(ProcessorGraphNode):
    """A windowed aggregation; suppress asks it how long its windows stay open."""

    def __init__(self, name: str, parameters: ProcessorParameters, grace_period_ms: int) -> None:
        super().__init__(name, parameters)
        self.grace_period_ms = grace_period_ms


class TableSuppressNode(ProcessorGraphNode):
    """A suppress, which no versioned table may come to."""


class StateStoreNode(GraphNode):
    """A store that the user adds."""

    def __init__(self, store: StoreBuilder) -> None:
        super().__init__(store.name)
        self.store = store

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the store."""
        builder.add_state_store(self.store)


class VersionedSemanticsNode(ProcessorGraphNode):
    """A processor that treats late records of a versioned table otherwise (KIP-914)."""

    def enable_versioned_semantics(self, enabled: bool, parent_name: str) -> None:
        """Tell the processor whether its table is versioned."""
        self.parameters.supplier.set_use_versioned_semantics(enabled)


def matching_ancestor(node: GraphNode, matches: Callable[[GraphNode], bool]) -> GraphNode | None:
    """Return the node itself or the first ancestor that matches, searching as Kafka does; None when none does."""
    if matches(node):
        return node
    for parent in node.parents:
        if (found := matching_ancestor(parent, matches)) is not None:
            return found
    return None
