"""A batch of records for one partition, from its first record to its result."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from barnabas import anatomy
from barnabas.client.producer.append import AppendableBatch, DeliveryCallbacks
from barnabas.client.producer.produce_request_result import ProduceRequestResult
from barnabas.errors import IllegalStateError, KafkaError, RecordBatchTooLargeError
from barnabas.protocol.producer_identity import NO_SEQUENCE, increment_sequence
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records.batch_header import set_producer_state as rewrite_producer_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.client.producer.buffer_pool import Allocation
    from barnabas.records.builder import RecordBatchBuilder


class FinalState(Enum):
    """How a batch ended."""

    ABORTED = "aborted"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class ProducerBatch(AppendableBatch):
    """A batch in flight: its builder, its records' result and callbacks, its attempts and its sequence.

    Application threads append under the accumulator's lock until the batch is full or drained; from then on the
    Sender thread owns it. Times are monotonic seconds.
    """

    # Thousands of batches of 16 KB wait for a broker that is away: what a batch costs beside its bytes counts.
    __slots__ = (
        "_attempts_when_leader_last_changed",
        "_leader_epoch",
        "_records",
        "attempts",
        "base_sequence",
        "created_at",
        "drained_at",
        "final_state",
        "is_split",
        "is_transactional",
        "last_attempt_at",
        "last_error",
        "memory",
        "producer_epoch",
        "producer_id",
        "retry_at",
        "sent_over",
        "sequence_has_been_reset",
        "topic_partition",
        "uncompressed_size",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: RecordBatchBuilder,
        created_at: float,
        memory: Allocation | None = None,
        is_split: bool = False,
    ) -> None:
        super().__init__(builder, ProduceRequestResult(topic_partition))
        self.topic_partition = topic_partition
        #: Why the last attempt to send it failed, if one did.
        self.last_error: KafkaError | None = None
        self.created_at = created_at
        self.memory = memory
        self.is_split = is_split
        self.attempts = 0
        self.last_attempt_at = created_at
        self.retry_at = created_at
        self.drained_at = created_at
        #: The number of the connection that it was sent over last.
        self.sent_over = 0
        self.final_state: FinalState | None = None
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.is_transactional = False
        self.sequence_has_been_reset = False
        self.uncompressed_size = 0
        self._leader_epoch: int | None = None
        self._attempts_when_leader_last_changed = 0
        self._records: bytes | None = None

    @property
    def estimated_size(self) -> int:
        """The batch's size in bytes; before it is closed, as large as it may become."""
        return self.builder.estimated_size if self._records is None else len(self._records)

    def is_full(self, batch_size: int) -> bool:
        """Whether the batch takes no more records, or has reached its size."""
        return not self.is_open or self.estimated_size >= batch_size

    @property
    def is_done(self) -> bool:
        """Whether the batch has its result."""
        return self.final_state is not None

    @property
    def in_retry(self) -> bool:
        """Whether the batch went out before."""
        return self.attempts > 0

    @property
    def has_sequence(self) -> bool:
        """Whether the batch has its sequence numbers."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        return increment_sequence(self.base_sequence, self.record_count - 1)

    def close_for_record_appends(self) -> None:
        """Take no more records."""
        self.is_open = False

    def set_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the batch its sequence numbers; a closed batch is closed anew with them."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if self._records is None:
            self.builder.set_producer_state(producer_id, producer_epoch, base_sequence, self.is_transactional)
        else:
            # The old bytes may be on their way to a socket, so the new ones are a copy.
            rewritten = bytearray(self._records)
            rewrite_producer_state(rewritten, 0, producer_id, producer_epoch, base_sequence)
            self._records = bytes(rewritten)

    def reset_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Renumber a batch that had sequence numbers already (KIP-360)."""
        self.sequence_has_been_reset = True
        self.set_producer_state(producer_id, producer_epoch, base_sequence)

    def records(self) -> bytes:
        """Return the batch as it goes over the wire; compresses and checksums it on the first call."""
        if self._records is None:
            self.is_open = False
            self.uncompressed_size = self.builder.uncompressed_size
            self._records = self.builder.close()
        return self._records

    @property
    def compression_ratio(self) -> float:
        """What part of the bytes compression left."""
        return len(self.records()) / self.uncompressed_size

    def reenqueued(self, now: float, backoff: float) -> None:
        """Count a failed attempt; the next one waits `backoff` seconds."""
        self.attempts += 1
        self.last_attempt_at = max(self.last_attempt_at, now)
        self.retry_at = now + backoff

    def drained(self, now: float) -> None:
        """Note when the batch left the accumulator."""
        self.drained_at = max(self.drained_at, now)
        self.sequence_has_been_reset = False

    def has_reached_delivery_timeout(self, delivery_timeout: float, now: float) -> bool:
        """Whether the batch is too old to be sent."""
        return now - self.created_at >= delivery_timeout

    def maybe_update_leader_epoch(self, leader_epoch: int | None) -> None:
        """Note a newer leader: a retry to a new leader need not wait (KIP-951)."""
        if leader_epoch is not None and (self._leader_epoch is None or self._leader_epoch < leader_epoch):
            self._attempts_when_leader_last_changed = self.attempts
            self._leader_epoch = leader_epoch

    def is_backing_off(self, now: float) -> bool:
        """Whether the batch must wait before it is tried again."""
        if self.attempts == 0 or now >= self.retry_at:
            return False
        return self.attempts != self._attempts_when_leader_last_changed

    def complete(self, base_offset: int, log_append_time: int) -> bool:
        """Note that the broker has stored the batch; return False when it had ended before (it expired in flight)."""
        return self._done(FinalState.SUCCEEDED, base_offset, log_append_time, None, None)

    def complete_exceptionally(self, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> bool:
        """Note that the batch has failed; return False when it had ended before.

        `record_errors` are those of single records, by their place.
        """
        return self._done(FinalState.FAILED, -1, -1, error, record_errors)

    def abort(self, error: KafkaError) -> None:
        """Give the batch up. Raises `IllegalStateError` when it has ended."""
        if not self._done(FinalState.ABORTED, -1, -1, error, None):
            raise IllegalStateError(f"{self!r} has ended already: {self.final_state}")

    def _done(
        self,
        state: FinalState,
        base_offset: int,
        log_append_time: int,
        error: KafkaError | None,
        record_errors: dict[int, KafkaError] | None,
    ) -> bool:
        self.is_open = False
        if self.final_state is not None:
            if self.final_state is FinalState.SUCCEEDED:
                raise IllegalStateError(f"{self!r} has succeeded and cannot become {state.value}")
            return False
        self.final_state = state
        if anatomy.active is not None:
            name = "" if error is None else error.name
            number = anatomy.active.forget(self)
            anatomy.active.record(anatomy.events.BatchEnded(number, state.value, base_offset, name))
        try:
            self.request_result.set(base_offset, log_append_time, error, record_errors)
            callbacks, self.callbacks = self.callbacks, None
            if callbacks is not None:
                callbacks.run(self.request_result, self.request_result.on_callback_error)
        finally:
            self.request_result.complete()
        return True

    def split(self, new_batch: Callable[[], ProducerBatch]) -> list[ProducerBatch]:
        """Spread the records over smaller batches; futures and callbacks follow their records.

        `new_batch()` makes an empty batch. If this one has sequence numbers, the parts get the same ones.
        """
        from barnabas.records import read_batches

        parts: list[ProducerBatch] = []
        firsts: list[int] = []
        for encoded in read_batches(self.records()):
            for index, record in enumerate(encoded):
                content = (record.timestamp, record.key, record.value, tuple(record.headers))
                if not parts or parts[-1].try_append(*content) is None:
                    parts.append(new_batch())
                    firsts.append(index)
                    parts[-1].try_append(*content)
        sequence = self.base_sequence
        for part in parts:
            part.close_for_record_appends()
            part.created_at = self.created_at
            part.is_transactional = self.is_transactional
            if self.has_sequence:
                part.set_producer_state(self.producer_id, self.producer_epoch, sequence)
                sequence = increment_sequence(sequence, part.record_count)
        self._hand_callbacks_on(parts, firsts)
        self.final_state = FinalState.FAILED
        self.request_result.error = RecordBatchTooLargeError("The batch was split into smaller ones")
        self.request_result.split([(first, part.request_result) for first, part in zip(firsts, parts, strict=True)])
        return parts

    def _hand_callbacks_on(self, parts: list[ProducerBatch], firsts: list[int]) -> None:
        callbacks, self.callbacks = self.callbacks, None
        if callbacks is None:
            return
        entries = callbacks.entries()
        for first, part in zip(firsts, parts, strict=True):
            begin = max(0, callbacks.first - first)
            count = part.record_count - begin
            if count <= 0:
                continue
            part.callbacks = DeliveryCallbacks(begin)
            at = first + begin - callbacks.first
            for entry in entries[at : at + count]:
                part.callbacks.add(*entry)

    def __repr__(self) -> str:
        return f"ProducerBatch(topicPartition={self.topic_partition}, recordCount={self.record_count})"
