"""What the leader is about to append (BatchAccumulator)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from barnabas.broker.raft.control_records import build_control_batch, build_data_batch
from barnabas.broker.raft.errors import BufferAllocationError, NotLeaderError
from barnabas.errors import RecordBatchTooLargeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.protocol.message import Message

MAX_BATCH_SIZE_BYTES = 8 << 20
MAX_PENDING_BYTES = 10 * MAX_BATCH_SIZE_BYTES
#: What a record takes beside its value, at most.
_RECORD_OVERHEAD = 24


class BatchAccumulator:
    """Gathers records of one epoch into batches, from `next_offset` on.

    What one call appends is in one batch. Batches are drained `linger` seconds after the first record, at once when
    there is a whole batch or a control record; what is only prepared holds everything back until it is scheduled.
    """

    __slots__ = ("_deadline", "_is_scheduled", "_open", "_parts", "epoch", "linger", "next_offset", "pending_bytes")

    def __init__(self, epoch: int, next_offset: int, linger: float) -> None:
        self.epoch = epoch
        self.next_offset = next_offset
        self.linger = linger
        self.pending_bytes = 0
        #: Values of a data batch, or messages of a control batch, in order.
        self._parts: list[tuple[list[bytes], Sequence[Message]]] = []
        self._open = 0
        self._deadline = inf
        self._is_scheduled = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._parts

    def append(self, epoch: int, values: Sequence[bytes], now: float) -> int:
        """Take records; the offset of the last. Raises as `RaftClient.prepare_append` does."""
        if epoch != self.epoch:
            raise NotLeaderError(f"records of epoch {epoch} cannot be appended: this node leads in epoch {self.epoch}")
        size = sum(map(len, values)) + _RECORD_OVERHEAD * len(values)
        if size > MAX_BATCH_SIZE_BYTES:
            raise RecordBatchTooLargeError(
                f"{len(values)} metadata records take {size} bytes; at most {MAX_BATCH_SIZE_BYTES} are appended at once"
            )
        if self.pending_bytes + size > MAX_PENDING_BYTES:
            raise BufferAllocationError(
                f"{self.pending_bytes} bytes of metadata records wait to be written; {size} more are not taken now"
            )
        if not self._parts or self._parts[-1][1] or self._open + size > MAX_BATCH_SIZE_BYTES:
            if self._parts and not self._parts[-1][1]:
                self._deadline = now
            self._parts.append(([], ()))
            self._open = 0
        self._parts[-1][0].extend(values)
        self._open += size
        self.pending_bytes += size
        self._deadline = min(self._deadline, now + self.linger)
        self.next_offset += len(values)
        return self.next_offset - 1

    def append_control(self, messages: Sequence[Message], now: float) -> int:
        """Take control records as a batch of their own, to be drained at once; the offset of the last."""
        self._parts.append(([], messages))
        self._deadline, self._is_scheduled = now, True
        self.next_offset += len(messages)
        return self.next_offset - 1

    def schedule(self) -> None:
        """Let what was appended be drained."""
        self._is_scheduled = True

    @property
    def deadline(self) -> float:
        """When there is something to drain."""
        return self._deadline if self._is_scheduled else inf

    def drain(self, timestamp_ms: int) -> bytes:
        """Return all batches, with their offsets and epoch."""
        offset = self.next_offset - sum(len(values) + len(messages) for values, messages in self._parts)
        batches = []
        for values, messages in self._parts:
            if messages:
                batches.append(
                    build_control_batch(messages, base_offset=offset, epoch=self.epoch, timestamp_ms=timestamp_ms)
                )
            else:
                batches.append(
                    build_data_batch(values, base_offset=offset, epoch=self.epoch, timestamp_ms=timestamp_ms)
                )
            offset += len(values) + len(messages)
        self._parts.clear()
        self._open = self.pending_bytes = 0
        self._deadline, self._is_scheduled = inf, False
        return b"".join(batches)
