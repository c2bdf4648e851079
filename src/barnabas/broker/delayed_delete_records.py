"""DeleteRecords that waits until all replicas that are alive have moved their start (DelayedDeleteRecords, KIP-107)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas import errors
from barnabas.broker.purgatory import DelayedOperation
from barnabas.protocol.messages.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.broker.partition import Partition


class DeletedRecords:
    """One partition of a request: where it shall start, where its replicas start by now, and the error, 0 for none."""

    __slots__ = ("_leaderships", "_partition", "_wanted", "error_code", "low_watermark")

    def __init__(self, partition: Partition, wanted: int):
        self._partition = partition
        self._wanted = wanted
        self._leaderships = partition.leaderships
        self.error_code = errors.NONE
        self.low_watermark = partition.low_watermark

    @property
    def partition(self) -> Partition:
        """What the replicas are of."""
        return self._partition

    def is_settled(self) -> bool:
        """Whether there is nothing to wait for any more: all have moved, or this broker cannot tell."""
        partition = self._partition
        if partition.deleted or not partition.is_leader or partition.leaderships != self._leaderships:
            self.error_code, self.low_watermark = errors.NotLeaderOrFollowerError.code, -1
            return True
        self.low_watermark = partition.low_watermark
        return self.low_watermark >= self._wanted

    def expire(self) -> None:
        """Note that a replica has not moved in time; it will when it fetches."""
        self.error_code = errors.KafkaTimeoutError.code


class DelayedDeleteRecords(DelayedOperation):
    """Is over when all partitions are settled, at the latest at the deadline."""

    __slots__ = ("_waiting",)

    def __init__(self, waiting: Sequence[DeletedRecords], deadline: float):
        super().__init__(deadline, tuple({found.partition: None for found in waiting}))
        self._waiting = waiting

    def try_complete(self, now: float) -> NoOpRecord | None:
        """See `DelayedOperation`."""
        self._waiting = [found for found in self._waiting if not found.is_settled()]
        return None if self._waiting else NoOpRecord()

    def on_expiration(self, now: float) -> NoOpRecord:
        """See `DelayedOperation`."""
        for found in self._waiting:
            found.expire()
        return NoOpRecord()
