"""The topology of a streams group as its members tell it and the log keeps it (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from barnabas.protocol.messages import streams_group_heartbeat_request as told
    from barnabas.protocol.messages import streams_group_topology_value as kept


class InternalTopic(NamedTuple):
    """A topic that the application has made; 0 partitions: as many as it needs, 0 replicas: the broker's default."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class Subtopology(NamedTuple):
    """A part of the topology whose tasks are independent of those of other parts.

    The topics of each of `copartition_groups` need as many partitions as each other: the indexes of source topics, and
    of repartition topics that are read.
    """

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    changelogs: tuple[InternalTopic, ...] = ()
    repartition_sinks: tuple[str, ...] = ()
    repartition_sources: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of all topics that tasks read."""
        return *self.source_topics, *(topic.name for topic in self.repartition_sources)

    @property
    def is_stateful(self) -> bool:
        """Whether tasks have a state that a copy could be kept of."""
        return bool(self.changelogs)

    def copartitioned(self) -> Iterator[frozenset[str]]:
        """Give the names of the topics that need as many partitions as each other."""
        for sources, repartitions in self.copartition_groups:
            yield frozenset(
                [self.source_topics[index] for index in sources]
                + [self.repartition_sources[index].name for index in repartitions]
            )


class StreamsTopology:
    """All sub-topologies; it does not change."""

    __slots__ = ("_by_input", "epoch", "required_topics", "subtopologies")

    def __init__(self, epoch: int, subtopologies: dict[str, Subtopology]) -> None:
        self.epoch = epoch
        #: Id → sub-topology, by id.
        self.subtopologies = {name: subtopologies[name] for name in sorted(subtopologies)}
        self._by_input = {topic: part.subtopology_id for part in subtopologies.values() for topic in part.inputs}
        #: What has to be there before tasks can run.
        self.required_topics = frozenset(self._by_input) | {
            topic.name for part in subtopologies.values() for topic in part.changelogs
        }

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, StreamsTopology)
            and self.epoch == other.epoch
            and self.subtopologies == other.subtopologies
        )

    __hash__ = None  # type: ignore[assignment]  # nothing asks for it

    def reads(self, topic: str) -> bool:
        """Whether a task reads the topic."""
        return topic in self._by_input

    def subtopology_of(self, topic: str) -> str | None:
        """Return the id of the sub-topology that reads a topic."""
        return self._by_input.get(topic)


def from_message(topology: told.Topology | kept.StreamsGroupTopologyValue) -> StreamsTopology:
    """Return the topology that a heartbeat, or a record, tells."""
    return StreamsTopology(topology.epoch, {part.subtopology_id: _part(part) for part in topology.subtopologies})


def _part(part: told.Subtopology | kept.Subtopology) -> Subtopology:
    return Subtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(map(_topic, part.state_changelog_topics)),
        tuple(part.repartition_sink_topics),
        tuple(map(_topic, part.repartition_source_topics)),
        tuple((tuple(one.source_topics), tuple(one.repartition_source_topics)) for one in part.copartition_groups),
    )


def _topic(topic: told.TopicInfo | kept.TopicInfo) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in topic.topic_configs or ())
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)
