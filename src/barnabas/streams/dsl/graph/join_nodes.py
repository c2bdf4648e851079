"""Steps that join."""

from __future__ import annotations

from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorGraphNode, ProcessorParameters
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder


class StreamStreamJoinNode(GraphNode):
    """The two sides of a stream-stream join and what merges them, or one side that joins a stream with itself."""

    def __init__(
        self,
        this: ProcessorParameters,
        other: ProcessorParameters,
        merge: ProcessorParameters,
        self_join: ProcessorParameters,
        windowed_names: tuple[str, str],
    ) -> None:
        super().__init__(merge.name)
        self._sides = (this, other)
        self._merge = merge
        self._self_join = self_join
        self.windowed_names = windowed_names
        self.is_self_join = False

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the processors of the join."""
        if self.is_self_join:
            self._self_join.add_processor_to(builder, [self.windowed_names[0]])
            return
        for side, windowed in zip(self._sides, self.windowed_names, strict=True):
            side.add_processor_to(builder, [windowed])
        self._merge.add_processor_to(builder, [side.name for side in self._sides])


class WindowedStreamProcessorNode(ProcessorGraphNode):
    """Keeps the records of one side of a stream-stream join."""


class StreamTableJoinNode(ProcessorGraphNode):
    """A stream-table join; with `grace_period_ms` the table must keep at least so much history."""

    def __init__(
        self,
        name: str,
        parameters: ProcessorParameters,
        store_names: list[str] | None = None,
        grace_period_ms: int | None = None,
    ) -> None:
        super().__init__(name, parameters)
        self._store_names = store_names
        self._grace_period_ms = grace_period_ms

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the processor and connect it to the table. Raises ValueError when grace asks for too much."""
        super().write_to_topology(builder)
        if self._store_names is None:
            return
        builder.connect_processor_and_state_stores(self.name, self._store_names)
        if self._grace_period_ms is not None:
            for name in self._store_names:
                store = builder.stores[name]
                if not store.is_versioned_store:
                    raise ValueError("KTable must be versioned to use a grace period in a stream table join.")
                if self._grace_period_ms > (store.history_retention_ms or 0):
                    raise ValueError("History retention must be at least grace period.")


class KTableKTableJoinNode(GraphNode):
    """The two sides of a table-table join and what merges them; each side reads the other's store."""

    def __init__(
        self,
        sides: tuple[ProcessorParameters, ProcessorParameters],
        merge: ProcessorParameters,
        parent_names: tuple[str, str],
        store_names: tuple[list[str], list[str]],
    ) -> None:
        super().__init__(merge.name)
        self._sides = sides
        self._merge = merge
        self._side_parents = parent_names
        self._store_names = store_names

    def enable_versioned_semantics(self, enabled: bool, parent_name: str) -> None:
        """Tell the side that reads this parent whether it is versioned."""
        for side, name in zip(self._sides, self._side_parents, strict=True):
            if name == parent_name:
                side.supplier.set_use_versioned_semantics(enabled)

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the processors, and connect each side to the other's stores."""
        this, other = self._sides
        this.add_processor_to(builder, [self._side_parents[0]])
        other.add_processor_to(builder, [self._side_parents[1]])
        self._merge.add_processor_to(builder, [this.name, other.name])
        builder.connect_processor_and_state_stores(this.name, self._store_names[1])
        builder.connect_processor_and_state_stores(other.name, self._store_names[0])
