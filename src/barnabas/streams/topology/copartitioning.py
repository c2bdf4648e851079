"""Which topics must have as many partitions as each other: those that one task reads together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.streams.errors import TopologyError
from barnabas.streams.topology.nodes import SourceNode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from barnabas.streams.topology.nodes import InternalTopicProperties, Node


class Copartitioning:
    """Groups of source nodes whose topics are partitioned alike.

    `nodes` and `internal_topics` are the topology's, and grow with it; `real_name(topic)` is the name on the cluster.
    """

    def __init__(
        self,
        nodes: Mapping[str, Node],
        internal_topics: Mapping[str, InternalTopicProperties],
        real_name: Callable[[str], str],
    ) -> None:
        self._nodes = nodes
        self._internal_topics = internal_topics
        self._real_name = real_name
        self._groups: list[set[str]] = []

    def add(self, source_nodes: Iterable[str]) -> None:
        """Demand that the topics of these sources have the same number of partitions."""
        self._groups.append(set(source_nodes))

    def replace(self, replaced: str, by: str) -> None:
        """Put another source in the place of one that the optimizer took away."""
        for group in self._groups:
            if replaced in group:
                group.remove(replaced)
                group.add(by)

    def validate(self) -> None:
        """Raise `TopologyError` when repartition topics of one group were given different numbers of partitions."""
        for topics in self._topics():
            numbers = {
                topic: number
                for topic in topics
                if (properties := self._internal_topics.get(topic)) is not None
                and (number := properties.number_of_partitions) is not None
            }
            if numbers and set(numbers) == topics and len(set(numbers.values())) > 1:
                listed = ", ".join(f"{topic}={number}" for topic, number in sorted(numbers.items()))
                raise TopologyError(f"Following topics do not have the same number of partitions: [{{{listed}}}]")

    def groups(self) -> list[set[str]]:
        """Return the topics that belong together, under their names on the cluster."""
        merged: list[set[str]] = []
        for topics in self._topics():
            group = {self._real_name(topic) for topic in topics}
            for other in [known for known in merged if known & group]:
                merged.remove(other)
                group |= other
            if group:
                merged.append(group)
        return merged

    def _topics(self) -> list[set[str]]:
        groups = [[self._nodes.get(name) for name in group] for group in self._groups]
        return [
            {topic for node in group if isinstance(node, SourceNode) for topic in node.read_topics} for group in groups
        ]
