"""What a client knows of the cluster at one moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.network.node import Node
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.protocol.messages.metadata_response import MetadataResponsePartition


class PartitionInfo(NamedTuple):
    """A partition's state as the last metadata response had it; node ids, and -1 for "none" or "not known"."""

    topic: str
    partition: int
    leader: int = -1
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    error_code: int = 0

    @classmethod
    def of(cls, topic: str, partition: MetadataResponsePartition) -> PartitionInfo:
        """Return what a metadata response says of a partition of the topic."""
        return cls(
            topic,
            partition.partition_index,
            partition.leader_id,
            partition.leader_epoch,
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
            partition.error_code,
        )


class TopicInfo(NamedTuple):
    """A topic's partitions, `partitions[n]` is number n; `topic_id` is None when the broker knows no ids."""

    name: str
    topic_id: bytes | None
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class Cluster:
    """An immutable snapshot; every look-up takes the same time however many topics there are."""

    __slots__ = (
        "_names_by_id",
        "_nodes_by_id",
        "cluster_id",
        "controller",
        "invalid_topics",
        "is_bootstrap_configured",
        "nodes",
        "topics",
        "unauthorized_topics",
    )

    def __init__(
        self,
        nodes: Iterable[Node] = (),
        topics: Mapping[str, TopicInfo] | None = None,
        *,
        cluster_id: str | None = None,
        controller_id: int = -1,
        unauthorized_topics: Collection[str] = (),
        invalid_topics: Collection[str] = (),
        is_bootstrap_configured: bool = False,
    ) -> None:
        self.nodes: list[Node] = list(nodes)
        self.topics: Mapping[str, TopicInfo] = {} if topics is None else topics
        self.cluster_id = cluster_id
        self.unauthorized_topics = frozenset(unauthorized_topics)
        self.invalid_topics = frozenset(invalid_topics)
        self.is_bootstrap_configured = is_bootstrap_configured
        self._nodes_by_id = {node.id: node for node in self.nodes}
        self.controller = self._nodes_by_id.get(controller_id)
        self._names_by_id: dict[bytes, str] | None = None

    @classmethod
    def bootstrap(cls, nodes: Iterable[Node]) -> Cluster:
        """Return what is known before the first metadata response: where to ask."""
        return cls(nodes, is_bootstrap_configured=True)

    def node(self, node_id: int) -> Node | None:
        """Return the broker with this id."""
        return self._nodes_by_id.get(node_id)

    def partition(self, topic_partition: TopicPartition) -> PartitionInfo | None:
        """Return a partition's state; None when it is not known."""
        topic = self.topics.get(topic_partition[0])
        if topic is None or not 0 <= topic_partition[1] < len(topic.partitions):
            return None
        return topic.partitions[topic_partition[1]]

    def leader_for(self, topic_partition: TopicPartition) -> Node | None:
        """Return the broker that leads a partition; None when there is none or it is not known."""
        partition = self.partition(topic_partition)
        return None if partition is None else self._nodes_by_id.get(partition.leader)

    def leader_and_epoch(self, topic_partition: TopicPartition) -> tuple[Node | None, int | None]:
        """Return the broker that leads a partition, and its epoch as such; None for what is not known."""
        partition = self.partition(topic_partition)
        if partition is None:
            return None, None
        epoch = partition.leader_epoch
        return self._nodes_by_id.get(partition.leader), epoch if epoch >= 0 else None

    def partition_count_for_topic(self, topic: str) -> int | None:
        """How many partitions a topic has; None when the topic is not known."""
        info = self.topics.get(topic)
        return None if info is None else len(info.partitions)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Return the partitions of a topic, by number; none when the topic is not known."""
        info = self.topics.get(topic)
        return () if info is None else info.partitions

    def available_partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Return the partitions of a topic that have a leader."""
        return [partition for partition in self.partitions_for_topic(topic) if partition.leader in self._nodes_by_id]

    def topic_id(self, topic: str) -> bytes | None:
        """Return the id of a topic; None when the topic is not known, or the broker knows no ids."""
        info = self.topics.get(topic)
        return None if info is None else info.topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id."""
        if self._names_by_id is None:
            self._names_by_id = {info.topic_id: name for name, info in self.topics.items() if info.topic_id is not None}
        return self._names_by_id.get(topic_id)

    @property
    def internal_topics(self) -> frozenset[str]:
        """The known topics that the cluster keeps for itself, such as `__consumer_offsets`."""
        return frozenset(name for name, info in self.topics.items() if info.is_internal)

    def __repr__(self) -> str:
        return f"Cluster(id={self.cluster_id}, nodes={self.nodes}, topics={len(self.topics)})"
