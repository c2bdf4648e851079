"""Steps that send records through a topic, so that equal keys meet in one partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from barnabas.streams.dsl.graph.graph_node import GraphNode, ProcessorParameters
from barnabas.streams.engine.timestamp_extractors import FailOnInvalidTimestamp
from barnabas.streams.serdes.changed_serde import ChangedSerde
from barnabas.streams.topology.internal_topology_builder import TopologyBuilder
from barnabas.streams.topology.nodes import InternalTopicProperties


@dataclass(frozen=True)
class Repartition:
    """A repartition topic with the nodes around it; `parameters` drop records that need not go through, or are None."""

    source_name: str
    sink_name: str
    topic: str
    key_serde: Any
    value_serde: Any
    parameters: ProcessorParameters | None = None
    partitioner: Any = None
    properties: InternalTopicProperties = field(default_factory=InternalTopicProperties)


class RepartitionNode(GraphNode):
    """Filter, sink, topic and source of a repartition; it is known by the name of its source."""

    def __init__(self, repartition: Repartition) -> None:
        super().__init__(repartition.source_name)
        self.repartition = repartition
        self.parameters = repartition.parameters

    def write_to_topology(self, builder: TopologyBuilder) -> None:
        """Add the topic and the nodes around it."""
        repartition, parents = self.repartition, self.parent_names
        builder.add_internal_topic(repartition.topic, repartition.properties)
        if self.parameters is not None:
            self.parameters.add_processor_to(builder, parents)
            parents = [self.parameters.name]
        serdes = (repartition.key_serde, self._value_serde())
        builder.add_sink(repartition.sink_name, repartition.topic, serdes, repartition.partitioner, parents)
        builder.add_source(repartition.source_name, [repartition.topic], *serdes, FailOnInvalidTimestamp())

    def _value_serde(self) -> Any:
        return self.repartition.value_serde


class OptimizableRepartitionNode(RepartitionNode):
    """A repartition that an operator needs; several after one key change can be one."""


class UnoptimizableRepartitionNode(RepartitionNode):
    """A repartition that the user asked for."""


class GroupedTableOperationRepartitionNode(RepartitionNode):
    """The repartition of a grouped table, whose records carry old and new values."""

    def _value_serde(self) -> Any:
        return ChangedSerde(self.repartition.value_serde)
