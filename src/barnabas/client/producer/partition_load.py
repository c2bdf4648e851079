"""What adaptive partitioning knows: how long the queues are, and which brokers do not take their batches (KIP-794)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def maybe_update(
        self, filled: Iterable[TopicPartition], infos: Mapping[str, TopicInfo], cluster: Any, now: float
    ) -> None:
        """Pass the queue lengths of topics with batches on to their partitioners, now and then."""
        if not self._is_adaptive or now < self._next_update:
            return
        self._next_update = now + INTERVAL
        for topic in {tp.topic for tp in filled}:
            info = infos[topic]
            sticky: Any = info.sticky
            if sticky.partition >= 0:
                sizes = self._queue_sizes(topic, info, cluster)
                sticky.update_partition_load_stats(sizes, len(info.batches))

    def _queue_sizes(self, topic: str, info: TopicInfo, cluster: Any) -> dict[int, int] | None:
        # Before every partition has had records there is nothing to compare.
        if len(info.batches) < (cluster.partition_count_for_topic(topic) or 0):
            return None
        return {
            partition: len(queue)
            for partition, queue in info.batches.items()
            if self._is_available(cluster.leader_for(TopicPartition(topic, partition)))
        }

    def _is_available(self, leader: Any) -> bool:
        if leader is None:
            return False
        ready_at, drained_at = self._node_latency.get(leader.id, (0.0, 0.0))
        return self._availability_timeout <= 0 or ready_at - drained_at <= self._availability_timeout
