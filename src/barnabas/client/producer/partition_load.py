"""What adaptive partitioning knows: how long the queues are, and which brokers do not take their batches (KIP-794)."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

from barnabas.client.producer.append import TopicInfo
from barnabas.protocol.topic_partition import TopicPartition

# Seconds between two looks at the lengths of all queues of a topic; the partitioner needs no more.
INTERVAL = 0.02


class PartitionLoad:
    """Tells the built-in partitioners about load. The Sender thread calls it; `availability_timeout` is in seconds."""

    def __init__(self, is_adaptive: bool, availability_timeout: float) -> None:
        self._is_adaptive = is_adaptive
        self._availability_timeout = availability_timeout
        self._node_latency: dict[int, tuple[float, float]] = {}
        self._next_update = 0.0

    def update_node_latency(self, node_id: int, now: float, can_drain: bool) -> None:
        """Note that a node had batches ready at `now`, and whether it could take them."""
        if self._availability_timeout > 0:
            _, drained_at = self._node_latency.get(node_id, (now, now))
            self._node_latency[node_id] = (now, now if can_drain else drained_at)

    def maybe_update(self, filled: Mapping[TopicPartition, Sized], infos: Mapping[str, TopicInfo], now: float) -> None:
        """Pass the queue lengths of topics with batches on to their partitioners, now and then.

        `filled` are the queues that are not empty: of all partitions, only these are looked at.
        """
        if not self._is_adaptive or now < self._next_update:
            return
        self._next_update = now + INTERVAL
        sizes: dict[str, dict[int, int]] = {}
        for (topic, partition), queue in filled.items():
            sizes.setdefault(topic, {})[partition] = len(queue)
        slow = frozenset(node_id for node_id in self._node_latency if self._is_slow(node_id))
        for topic, queue_sizes in sizes.items():
            sticky: Any = infos[topic].sticky
            if sticky.partition >= 0:
                sticky.update_partition_load_stats(queue_sizes, slow)

    def _is_slow(self, node_id: int) -> bool:
        ready_at, drained_at = self._node_latency[node_id]
        return ready_at - drained_at > self._availability_timeout
