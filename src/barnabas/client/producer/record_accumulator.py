"""Where records gather in batches, partition by partition, until the Sender takes them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas import anatomy
from barnabas.client.producer.accumulator_view import AccumulatorView
from barnabas.client.producer.append import RecordAppender, TopicInfo
from barnabas.client.producer.append_results import RecordAppendResult, RowsAppendResult
from barnabas.client.producer.batch_drainer import BatchDrainer
from barnabas.client.producer.batch_queues import BatchQueues
from barnabas.client.producer.compression_ratio_estimator import CompressionRatioEstimator
from barnabas.client.producer.incomplete_batches import IncompleteBatches
from barnabas.client.producer.partition_load import PartitionLoad
from barnabas.client.producer.partitioner import BuiltInPartitioner
from barnabas.client.producer.producer_batch import ProducerBatch
from barnabas.errors import IllegalStateError, KafkaError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import HEADER_SIZE

if TYPE_CHECKING:
    import random

    from barnabas.client.cluster import Cluster
    from barnabas.client.producer.accumulator_settings import AccumulatorSettings
    from barnabas.client.producer.append import FutureRecordMetadata
    from barnabas.client.producer.buffer_pool import Allocation, BufferPool
    from barnabas.client.producer.in_flight_batches import InFlightBatches
    from barnabas.client.producer.produce_request_result import ProduceRequestResult
    from barnabas.client.producer.slow_append import EncodedRecord
    from barnabas.client.producer.transactions.txn_partition_map import BatchNumbering
    from barnabas.network.node import Node
    from barnabas.records.builder import RecordBatchBuilder
    from barnabas.records.rows import ArrowRows


class ReadyCheckResult(NamedTuple):
    """Which nodes can be sent to, in how many seconds to look again, which topics have batches but no leader."""

    ready_nodes: dict[int, Node]
    next_ready_check_delay: float
    unknown_leader_topics: set[str]


class RecordAccumulator(RecordAppender):
    """A deque of batches per partition: application threads append at its tail, the Sender drains at its head.

    One lock guards the deques, the batches without a result, and whether records are taken (`refusal`). Times are
    monotonic seconds.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        buffer_pool: BufferPool,
        new_builder: Callable[[int, float], RecordBatchBuilder],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        numbering: BatchNumbering | None = None,
    ) -> None:
        self._lock = threading.Lock()
        super().__init__(self._lock)
        self.closed = False
        self.free = buffer_pool
        self.batch_size = max(1, settings.batch_size)
        self.delivery_timeout = settings.delivery_timeout
        self._client_id = settings.client_id
        self._view = AccumulatorView(settings.client_id, self.batch_size, settings.before_append)
        self._linger = settings.linger
        self._retry_backoff = settings.retry_backoff
        self._new_builder = new_builder
        self._clock = clock
        self._rng = rng
        self._numbering = numbering
        self._load = PartitionLoad(settings.adaptive_partitioning, settings.availability_timeout)
        self._ratios = CompressionRatioEstimator()
        self._compresses = settings.compresses
        self._queues = BatchQueues(self._lock, self.topics)
        self._drainer = BatchDrainer(self._queues, numbering, self._note_ratio)
        self._incomplete = IncompleteBatches()
        self._flushes_in_progress = 0
        self._next_expiry = inf

    # Appending: application threads

    def topic_info(self, topic: str) -> TopicInfo:
        """Return what is kept for the topic, made when it is new."""
        info: TopicInfo | None = self.topics.get(topic)
        if info is None:
            with self._lock:
                made = TopicInfo(BuiltInPartitioner(topic, self.batch_size, self._rng, self._client_id))
                info = self.topics.setdefault(topic, made)
        return info

    def on_metadata_changed(self, cluster: Cluster) -> None:
        """Make every topic look at the metadata again before its next record; called with each new snapshot."""
        self.metadata_version += 1

    def append_nowait(
        self,
        topic: str,
        partition: int,
        record: EncodedRecord,
        cluster: Cluster,
        *,
        abort_on_new_batch: bool = False,
        memory: Allocation | None = None,
    ) -> RecordAppendResult:
        """Append a record, in a new batch where the last one has no room; partition -1 lets the built-in logic choose.

        A new batch takes `memory`, or what is free of the pool; where that does not suffice nothing is appended, and
        the result says how much is needed. `memory` that is not needed is given back.
        """
        info = self.topic_info(topic)
        needed = max(self._batch_memory(topic), record.size + HEADER_SIZE)
        if memory is None and not abort_on_new_batch:
            # The last batch had no room a moment ago, so there will be a new one.
            memory = self.free.allocate_nowait(needed)
        is_new = False
        try:
            with self._lock:
                chosen = self._settle_partition(info, partition, cluster)
                queue = self._queues.get_or_create(info, chosen)
                future = self.try_append(queue, *record)
                if future is None and memory is not None:
                    future, is_new = self._append_new_batch(queue, TopicPartition(topic, chosen), record, memory), True
                if future is None:
                    return RecordAppendResult(None, chosen, 0 if abort_on_new_batch else needed)
                self._count_for_sticky(info, partition < 0, record.size, queue, cluster)
                # Without the lock the Sender may drain the batch at any moment.
                is_full = (is_new and len(queue) > 1) or queue[-1].is_full(self.batch_size)
                return RecordAppendResult(future, chosen, batch_is_full=is_full, new_batch_created=is_new)
        finally:
            if memory is not None and not is_new:
                memory.release()

    def _settle_partition(self, info: TopicInfo, partition: int, cluster: Cluster) -> int:
        """Return the record's partition.

        The sticky one moves on when enough bytes went there and its last batch is full.
        """
        if partition >= 0:
            return partition
        sticky: Any = info.sticky
        chosen = int(sticky.peek_current_partition(cluster))
        queue = info.batches.get(chosen)
        if not queue or queue[-1].is_full(self.batch_size):
            sticky.update_partition_info(0, cluster, True)
        return int(sticky.peek_current_partition(cluster))

    def _append_new_batch(
        self, queue: deque[ProducerBatch], tp: TopicPartition, record: EncodedRecord, memory: Allocation
    ) -> FutureRecordMetadata | None:
        builder = self._new_builder(self.batch_size, self._expected_ratio(tp.topic))
        batch = ProducerBatch(tp, builder, self._clock(), memory)
        future = batch.try_append(*record)
        self._append_batch(queue, batch)
        return future

    def _append_batch(self, queue: deque[ProducerBatch], batch: ProducerBatch) -> None:
        try:
            self._incomplete.add(batch)
            queue.append(batch)
            self._queues.filled[batch.topic_partition] = queue
        except BaseException:
            # Interrupted: nothing may wait for a batch that is not drained.
            self._queues.look_again(without=batch)
            self._incomplete.remove(batch)
            raise
        expiry = batch.created_at + self.delivery_timeout
        if expiry < self._next_expiry:
            self._next_expiry = expiry
        if anatomy.active is not None:
            self._tell_opened(anatomy.active, batch)

    def _tell_opened(self, recorder: anatomy.Recorder, batch: ProducerBatch) -> None:
        number, tp = recorder.number_of(batch), batch.topic_partition
        recorder.record(anatomy.events.BatchOpened(self._client_id, number, tp.topic, tp.partition))

    def append_rows_nowait(
        self,
        topic: str,
        partition: int,
        rows: ArrowRows,
        row: int,
        cluster: Cluster,
        memory: Allocation | None = None,
    ) -> RowsAppendResult:
        """Append rows of a table from `row` on: as many as the last batch has room for, or else a new one.

        Partition -1 lets the sticky partition take them. Takes `memory`, and asks for it, like `append_nowait`.
        """
        info = self.topic_info(topic)
        is_taken = False
        try:
            with self._lock:
                appended = self._append_rows_to_last(info, partition, rows, row, cluster)
            if appended is not None:
                return appended
            needed = self._batch_memory(topic)
            memory = memory or self.free.allocate_nowait(needed)
            if memory is None:
                return RowsAppendResult(None, memory_needed=needed)
            builder = self._new_builder(self.batch_size, self._expected_ratio(topic))
            next_row = builder.append_rows(rows, row)
            if builder.uncompressed_size > memory.size:
                # A single row that is larger than a batch. What there is goes back: two of them would wait for ever.
                return RowsAppendResult(None, memory_needed=builder.uncompressed_size)
            with self._lock:
                if self.refusal is not None:
                    raise self.refusal()
                chosen = self._settle_partition(info, partition, cluster)
                batch = ProducerBatch(TopicPartition(topic, chosen), builder, self._clock(), memory)
                batch.record_count = builder.record_count
                batch.is_open = next_row == rows.count
                queue = self._queues.get_or_create(info, chosen)
                is_taken = True
                self._append_batch(queue, batch)
                self._count_for_sticky(info, partition < 0, builder.uncompressed_size, queue, cluster)
                last = batch.record_count - 1
                return RowsAppendResult(batch.request_result, 0, last, next_row, new_batch_created=True)
        finally:
            if memory is not None and not is_taken:
                memory.release()

    def _append_rows_to_last(
        self, info: TopicInfo, partition: int, rows: ArrowRows, row: int, cluster: Cluster
    ) -> RowsAppendResult | None:
        if self.refusal is not None:
            raise self.refusal()
        queue = info.batches.get(self._settle_partition(info, partition, cluster))
        # Where a record has a callback, all after it have an entry beside it, which rows do not.
        if not queue or not queue[-1].is_open or queue[-1].callbacks is not None:
            return None
        batch: ProducerBatch = queue[-1]
        first, size = batch.record_count, batch.builder.uncompressed_size
        try:
            next_row = batch.builder.append_rows(rows, row)
        finally:
            batch.record_count = batch.builder.record_count
        batch.is_open = next_row == rows.count
        self._count_for_sticky(info, partition < 0, batch.builder.uncompressed_size - size, queue, cluster)
        if next_row == row:
            # Now that this batch is full the sticky partition may be another one.
            return self._append_rows_to_last(info, partition, rows, row, cluster) if partition < 0 else None
        return RowsAppendResult(
            batch.request_result, first, batch.record_count - 1, next_row, batch.is_full(self.batch_size)
        )

    def _count_for_sticky(
        self, info: TopicInfo, sticky: bool, size: int, queue: deque[ProducerBatch], cluster: Cluster
    ) -> None:
        if sticky:
            partitioner: Any = info.sticky
            partitioner.update_partition_info(size, cluster, queue[-1].is_full(self.batch_size))

    # Sending: the Sender thread

    def ready(self, cluster: Cluster, now: float) -> ReadyCheckResult:
        """Which nodes have sendable batches.

        A batch is sendable when it is full, has lingered, memory is short, the producer flushes or closes, and it is
        not backing off after a failure. Partitions without a leader are reported by topic.
        """
        ready_nodes: dict[int, Node] = {}
        unknown: set[str] = set()
        delay = inf
        rushed = self.free.queued > 0 or self.closed or self._flushes_in_progress > 0 or self._is_completing()
        with self._lock:
            if anatomy.active is not None:
                self._view.tell(anatomy.active, self._queues, self.free, now)
            for tp, queue in self._queues.filled.items():
                leader, leader_epoch = cluster.leader_and_epoch(tp)
                if leader is None:
                    unknown.add(tp.topic)
                    continue
                if leader.id in ready_nodes or tp in self._queues.muted:
                    continue
                batch = queue[0]
                batch.maybe_update_leader_epoch(leader_epoch)
                if not self._may_send(batch, leader.id):
                    # The answer to what is in flight will wake the Sender.
                    continue
                wait = self._time_until_sendable(batch, len(queue), rushed, now)
                if wait <= 0:
                    ready_nodes[leader.id] = leader
                else:
                    delay = min(delay, wait)
            self._load.maybe_update(self._queues.filled, self.topics, now)
        return ReadyCheckResult(ready_nodes, delay, unknown)

    def _is_completing(self) -> bool:
        return self._numbering is not None and self._numbering.is_completing

    def _may_send(self, batch: ProducerBatch, leader_id: int) -> bool:
        return self._numbering is None or self._numbering.may_send(batch, leader_id)

    def _time_until_sendable(self, batch: ProducerBatch, queued: int, rushed: bool, now: float) -> float:
        if batch.is_backing_off(now):
            return batch.retry_at - now
        if rushed or batch.in_retry or queued > 1 or batch.is_full(self.batch_size):
            return 0.0
        return batch.created_at + self._linger - now

    def update_node_latency_stats(self, node_id: int, now: float, can_drain: bool) -> None:
        """Note that a node had batches ready at `now`, and whether it could take them (KIP-794)."""
        self._load.update_node_latency(node_id, now, can_drain)

    def drain(
        self, cluster: Cluster, nodes: Collection[Node], max_size: int, now: float
    ) -> dict[int, list[ProducerBatch]]:
        """Take up to `max_size` bytes of batches for each of the nodes, ready to be sent, by node id.

        One batch of each partition that the node leads, beginning where the last drain left off; the first batch goes
        even if it is larger than `max_size`.
        """
        drained = self._drainer.drain(cluster, nodes, max_size, now)
        if anatomy.active is not None:
            for node_id, batches in drained.items():
                for batch in batches:
                    self._tell_drained(anatomy.active, batch, node_id, now)
        return drained

    def _tell_drained(self, recorder: anatomy.Recorder, batch: ProducerBatch, node_id: int, now: float) -> None:
        recorder.record(
            anatomy.events.BatchDrained(
                self._client_id,
                recorder.number_of(batch),
                *batch.topic_partition,
                node_id,
                batch.record_count,
                batch.estimated_size,
                (now - batch.created_at) * 1000,
                batch.attempts,
                batch.base_sequence,
                self._reason(batch, now),
            )
        )

    def _reason(self, batch: ProducerBatch, now: float) -> str:
        """Return why a batch was drained, as `ready` decides; its deque is what is left behind it."""
        left = self._queues.get(batch.topic_partition)
        reasons = {
            "retry": batch.attempts > 0 or batch.in_retry,
            "full": bool(left) or batch.estimated_size >= self.batch_size,
            "closing": self.closed,
            "flush": self._flushes_in_progress > 0,
            "transaction": self._is_completing(),
            "memory": self.free.queued > 0,
            "linger": now - batch.created_at >= self._linger,
        }
        return next((reason for reason, is_so in reasons.items() if is_so), "along")

    def _note_ratio(self, batch: ProducerBatch) -> None:
        if self._compresses:
            self._ratios.update_estimation(batch.topic_partition.topic, batch.compression_ratio)

    def _expected_ratio(self, topic: str) -> float:
        # A batch that will be compressed takes more records than fit uncompressed; but no batch takes more than a
        # quarter of the memory, so that others find some.
        if not self._compresses:
            return 1.0
        return max(self._ratios.estimation(topic), min(1.0, 4 * self.batch_size / self.free.total_memory))

    def _batch_memory(self, topic: str) -> int:
        return min(int(self.batch_size / self._expected_ratio(topic)), self.free.total_memory)

    def get_deque(self, tp: TopicPartition) -> deque[ProducerBatch] | None:
        """Return the partition's deque of batches, None while there is none."""
        return self._queues.get(tp)

    def reenqueue(self, batch: ProducerBatch, now: float) -> None:
        """Put a batch that failed back in line: at the head, or in the order of the sequence numbers."""
        batch.reenqueued(now, self._retry_backoff.backoff(batch.attempts))
        if anatomy.active is not None:
            error = "" if batch.last_error is None else batch.last_error.name
            number, backoff_ms = anatomy.active.number_of(batch), (batch.retry_at - now) * 1000
            anatomy.active.record(anatomy.events.BatchRequeued(self._client_id, number, error, backoff_ms))
        with self._lock:
            self._insert(batch)

    def split_and_reenqueue(self, big_batch: ProducerBatch) -> int:
        """Put a batch that was too large for the broker back as smaller ones; returns how many.

        They are at most half as large, also when batch.size allows more than the broker: it always comes to an end.
        """
        tp = big_batch.topic_partition
        self._ratios.reset_estimation(tp.topic, big_batch.compression_ratio)
        ratio = self._ratios.estimation(tp.topic)
        capacity = min(self.batch_size, big_batch.uncompressed_size // 2)
        parts = big_batch.split(
            lambda: ProducerBatch(tp, self._new_builder(capacity, ratio), big_batch.created_at, is_split=True)
        )
        if anatomy.active is not None:
            number = anatomy.active.forget(big_batch)
            anatomy.active.record(anatomy.events.BatchSplit(self._client_id, number, len(parts)))
            for part in parts:
                self._tell_opened(anatomy.active, part)
        with self._lock:
            for part in reversed(parts):
                self._incomplete.add(part)
                if self._numbering is not None:
                    self._numbering.sequences.add_in_flight_batch(part)
                self._insert(part)
        return len(parts)

    def _insert(self, batch: ProducerBatch) -> None:
        if self._numbering is not None and not batch.has_sequence:
            raise IllegalStateError(f"{batch!r} was sent without a sequence number although idempotence is on")
        self._queues.insert(batch, by_sequence=self._numbering is not None)
        self._next_expiry = min(self._next_expiry, batch.created_at + self.delivery_timeout)

    def expired_batches(self, now: float) -> list[ProducerBatch]:
        """Take out the batches that waited longer than delivery.timeout.ms."""
        if now < self._next_expiry:
            return []
        expired = []
        with self._lock:
            self._next_expiry = inf
            for tp, queue in list(self._queues.filled.items()):
                while queue and queue[0].has_reached_delivery_timeout(self.delivery_timeout, now):
                    queue[0].close_for_record_appends()
                    expired.append(self._queues.pop_first(tp, queue))
                if queue:
                    self._next_expiry = min(self._next_expiry, queue[0].created_at + self.delivery_timeout)
        return expired

    @property
    def next_expiry(self) -> float:
        """No batch expires before this time."""
        return self._next_expiry

    def has_undrained(self) -> bool:
        """Whether batches wait to be drained."""
        return bool(self._queues.filled)

    def undrained_partitions(self) -> list[TopicPartition]:
        """Return the partitions with batches that wait to be drained."""
        with self._lock:
            return list(self._queues.filled)

    def mute_partition(self, tp: TopicPartition) -> None:
        """Drain nothing from the partition until it is unmuted."""
        self._queues.muted.add(tp)

    def unmute_partition(self, tp: TopicPartition) -> None:
        """Drain from the partition again."""
        self._queues.muted.discard(tp)

    def has_incomplete(self) -> bool:
        """Whether any batch has no result yet, drained or not."""
        return bool(self._incomplete)

    def deallocate(self, batch: ProducerBatch) -> None:
        """Forget a batch that has its result, and give its memory back."""
        # The batch is found again if this is interrupted, as long as it counts as incomplete.
        if batch.memory is not None:
            batch.memory.release()
        with self._lock:
            self._incomplete.remove(batch)

    def lost_batches(self, in_flight: InFlightBatches) -> list[ProducerBatch]:
        """Return the batches without a result that are neither in a deque nor in flight, after an unexpected error."""
        with self._lock:
            self._queues.look_again()
            waiting = self._incomplete.copy_all()
            return [batch for batch in waiting if batch not in in_flight and batch not in self._queues]

    # Flushing and closing

    def begin_flush(self) -> None:
        """Make every batch sendable at once, until `end_flush`."""
        with self._lock:
            self._flushes_in_progress += 1

    def end_flush(self) -> None:
        """Let batches linger again, if no other flush is in progress."""
        with self._lock:
            self._flushes_in_progress -= 1

    def incomplete_results(self) -> list[ProduceRequestResult]:
        """Return the results that are still to come."""
        with self._lock:
            return self._incomplete.results()

    def incomplete_record_count(self) -> int:
        """How many records have no result yet."""
        with self._lock:
            return self._incomplete.record_count()

    def refuse(self, why: Callable[[], KafkaError] | None) -> None:
        """Raise `why()` for every record from now on; None takes records again. A closed producer stays closed."""
        with self._lock:
            if not self.closed:
                self.refusal = why

    def close(self) -> None:
        """Take no more records; threads that wait for memory get an error."""
        with self._lock:
            self.closed = True
            self.refusal = _closed
        self.free.close()

    def abort_incomplete_batches(self, reason: KafkaError) -> int:
        """Fail every batch without a result; returns how many records that were. A closed accumulator gets no more."""
        return self.abort_batches(reason)

    def abort_batches(self, reason: KafkaError, only: Callable[[ProducerBatch], bool] | None = None) -> int:
        """Fail the batches without a result (those that `only` names); returns how many records that were."""
        with self._lock:
            batches = [batch for batch in self._incomplete.copy_all() if only is None or only(batch)]
            for batch in batches:
                batch.close_for_record_appends()
                self._queues.remove(batch)
        for batch in sorted(batches, key=lambda batch: batch.created_at):
            if batch.is_done:
                # Its callbacks were interrupted.
                batch.request_result.complete()
            else:
                batch.abort(reason)
            self.deallocate(batch)
        return sum(batch.record_count for batch in batches)


def _closed() -> KafkaError:
    return IllegalStateError("The producer was closed while a record was being sent; the record was not taken")
