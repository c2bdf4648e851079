"""Takes batches out of the accumulator's deques, node by node."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.batch_queues import BatchQueues
    from barnabas.client.producer.transactions.txn_partition_map import BatchNumbering
    from barnabas.network.node import Node


class Leader(NamedTuple):
    """The broker that leads a partition, and since which epoch."""

    node_id: int
    epoch: int | None


class BatchDrainer:
    """Drains ready batches in turn, so that no partition starves; the Sender thread's.

    `on_closed(batch)` learns of each batch when it has its final bytes.
    """

    def __init__(
        self, queues: BatchQueues, numbering: BatchNumbering | None, on_closed: Callable[[ProducerBatch], object]
    ) -> None:
        self._queues = queues
        self._numbering = numbering
        self._on_closed = on_closed
        self._next_drain: dict[int, TopicPartition] = {}

    def drain(
        self, cluster: Cluster, nodes: Collection[Node], max_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """See `RecordAccumulator.drain`."""
        if not nodes:
            return {}
        led: dict[int, dict[TopicPartition, int | None]] = {node.id: {} for node in nodes}
        with self._queues.lock:
            for tp in self._queues.filled:
                leader, leader_epoch = cluster.leader_and_epoch(tp)
                if leader is not None and leader.id in led:
                    led[leader.id][tp] = leader_epoch
        return {
            node_id: self._drain_batches_for_one_node(node_id, leader_epochs, max_size, now)
            for node_id, leader_epochs in led.items()
        }

    def _drain_batches_for_one_node(
        self, node_id: int, leader_epochs: dict[TopicPartition, int | None], max_size: int, now: float
    ) -> list[ProducerBatch]:
        partitions = sorted(leader_epochs)
        ready: list[ProducerBatch] = []
        size = 0
        start = bisect_left(partitions, self._next_drain.get(node_id, ("", 0)))
        # Where all of them fit, the next drain begins one further on, so that none is always last.
        for tp in partitions[start:] + partitions[:start]:
            batch = self._poll_first(tp, Leader(node_id, leader_epochs[tp]), max_size - size if ready else None, now)
            if batch is _DOES_NOT_FIT:
                self._next_drain[node_id] = tp
                return ready
            if isinstance(batch, ProducerBatch):
                size += len(batch.records())
                self._on_closed(batch)
                batch.drained(now)
                ready.append(batch)
        if ready:
            first = ready[0].topic_partition
            self._next_drain[node_id] = TopicPartition(first.topic, first.partition + 1)
        return ready

    def _poll_first(self, tp: TopicPartition, leader: Leader, room: int | None, now: float) -> ProducerBatch | object:
        """Take the partition's first batch if it may go and fits into `room` (None: its size does not matter)."""
        queues, numbering = self._queues, self._numbering
        with queues.lock:
            queue = queues.get(tp)
            if not queue or tp in queues.muted:
                return None
            first = queue[0]
            first.maybe_update_leader_epoch(leader.epoch)
            if first.is_backing_off(now):
                return None
            if room is not None and first.estimated_size > room:
                return _DOES_NOT_FIT
            if numbering is not None and not numbering.may_send(first, leader.node_id):
                return None
            queues.pop_first(tp, queue)
            first.is_open = False
            if numbering is not None:
                if not first.has_sequence:
                    numbering.assign_sequence(first)
                numbering.sequences.leaves(first, leader.node_id)
            return first


_DOES_NOT_FIT = object()
