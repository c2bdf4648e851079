"""Which partition a record goes to, when it does not say itself."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from barnabas import anatomy
from barnabas.client.producer.append import StickyPartition
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.partitioner import murmur2, partition_for_key

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.network.node import Node

__all__ = [
    "BuiltInPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "UniformStickyPartitioner",
    "murmur2",
    "partition_for_key",
]


# Tries to draw a partition; after so many all queues are about as long, or all brokers slow, and the last one will do.
_DRAWS = 100


class _AvailablePartitions:
    """The numbers of the partitions with a leader, worked out once per metadata snapshot and topic."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Cluster, list[int]]] = {}

    def __call__(self, cluster: Cluster, topic: str) -> list[int]:
        known = self._known.get(topic)
        if known is None or known[0] is not cluster:
            numbers = [info.partition for info in cluster.available_partitions_for_topic(topic)]
            known = self._known[topic] = (
                cluster,
                numbers or list(range(cluster.partition_count_for_topic(topic) or 0)),
            )
        return known[1]


class Partitioner(Protocol):
    """What a custom partitioner offers; set `partitioner_class` to such a class or object.

    `configure(settings)`, `on_new_batch(topic, cluster, previous_partition)` and `close()` are called if they exist.
    All run on the thread that calls `send()`.
    """

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        """Return the partition for the record; `cluster` is the metadata as it is known now."""
        ...


class BuiltInPartitioner(StickyPartition):
    """The default for records without a key: stay with a partition until `batch.size` bytes went there.

    Then the next one is drawn at random, weighted so that partitions with short queues (fast brokers) are drawn more
    often (KIP-794). One per topic; the accumulator's lock guards it.
    """

    def __init__(self, topic: str, sticky_batch_size: int, rng: random.Random, client_id: str = "") -> None:
        super().__init__(max(1, sticky_batch_size))
        self.topic = topic
        self._client_id = client_id
        self._rng = rng
        self._available = _AvailablePartitions()
        self._queue_sizes: Mapping[int, int] = {}
        self._longest = self._shortest = 0
        self._slow_nodes: frozenset[int] = frozenset()

    def peek_current_partition(self, cluster: Cluster) -> int:
        """Return the partition that records without a key go to now."""
        if self.partition < 0:
            self._switch(cluster)
        return self.partition

    def _switch(self, cluster: Cluster) -> None:
        self.partition = self.next_partition(cluster)
        if anatomy.active is not None:
            names = self._client_id, self.topic, self.partition
            anatomy.active.record(anatomy.events.StickyPartition(*names, self.produced_bytes))
        self.produced_bytes = 0

    def next_partition(self, cluster: Cluster) -> int:
        """Draw a partition."""
        available = self._available(cluster, self.topic)
        shortest = self._shortest if len(self._queue_sizes) >= len(available) else 0
        # Weighted without a table of all partitions: one drawn evenly is taken with a probability of its weight.
        for _ in range(_DRAWS):
            drawn = self._rng.choice(available)
            longer = self._queue_sizes.get(drawn, 0) - shortest
            if longer and self._rng.randrange(self._longest + 1 - shortest) < longer:
                continue
            if not self._slow_nodes or not self._is_slow(cluster.leader_for(TopicPartition(self.topic, drawn))):
                break
        return drawn

    def _is_slow(self, leader: Node | None) -> bool:
        return leader is not None and leader.id in self._slow_nodes

    def update_partition_info(self, appended_bytes: int, cluster: Cluster, enable_switch: bool) -> None:
        """Count bytes; switch after `batch.size` of them when the batch is full, after twice as many in any case."""
        self.produced_bytes += appended_bytes
        enough = self.produced_bytes >= self.sticky_batch_size
        if (enough and enable_switch) or self.produced_bytes >= 2 * self.sticky_batch_size:
            self._switch(cluster)

    def update_partition_load_stats(
        self, queue_sizes: Mapping[int, int], slow_nodes: frozenset[int] = frozenset()
    ) -> None:
        """Learn how many batches wait for partitions, 0 where it is not said, and which brokers do not take theirs.

        A partition's weight is the longest queue plus one, minus its own; of slow brokers none is drawn.
        """
        self._queue_sizes = queue_sizes
        self._longest = max(queue_sizes.values(), default=0)
        self._shortest = min(queue_sizes.values(), default=0)
        self._slow_nodes = slow_nodes


class RoundRobinPartitioner:
    """Each record to the next available partition, with any key."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}
        self._available = _AvailablePartitions()
        self._lock = threading.Lock()

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        """Return the next partition in turn."""
        with self._lock:
            turn = self._counters.get(topic, 0)
            self._counters[topic] = turn + 1
        available = self._available(cluster, topic)
        return available[turn % len(available)]


class UniformStickyPartitioner:
    """One partition until its batch is full, then another at random, with any key.

    Apache Kafka removed it in 4.0; the built-in partitioner with `partitioner.ignore.keys=true` is its successor.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._sticky: dict[str, int] = {}
        self._available = _AvailablePartitions()
        self._rng = rng or random.Random()
        self._lock = threading.Lock()

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        """Return the topic's partition of the moment."""
        current = self._sticky.get(topic)
        return self._switch(topic, cluster, -1) if current is None else current

    def on_new_batch(self, topic: str, cluster: Cluster, previous_partition: int) -> None:
        """Note that the batch of `previous_partition` is full: move on, unless another thread has."""
        self._switch(topic, cluster, previous_partition)

    def _switch(self, topic: str, cluster: Cluster, previous: int) -> int:
        with self._lock:
            current = self._sticky.get(topic)
            if current is not None and current != previous:
                return current
            available = self._available(cluster, topic)
            others = [partition for partition in available if partition != current] or available
            self._sticky[topic] = self._rng.choice(others)
            return self._sticky[topic]


BY_NAME = {found.__name__: found for found in (RoundRobinPartitioner, UniformStickyPartitioner)}
