"""The tail of the metadata log that an observer has fetched: where it ends, in which epochs, what is not committed."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from barnabas.records import read_batches

if TYPE_CHECKING:
    from barnabas.protocol.message import Buffer


class CommittedBatch(NamedTuple):
    """The values of one committed batch; none for a control batch."""

    last_offset: int
    epoch: int
    values: list[bytes]


class ObservedLog:
    """Offsets and epochs of what was fetched. Batches stay until the high watermark has passed them."""

    __slots__ = ("_pending", "_starts", "committed_end", "end_offset", "last_epoch")

    def __init__(self, end_offset: int = 0, last_epoch: int = 0) -> None:
        self.end_offset = self.committed_end = end_offset
        self.last_epoch = last_epoch
        self._pending: deque[CommittedBatch] = deque()
        #: Epoch and first offset, ascending.
        self._starts: list[tuple[int, int]] = [(last_epoch, 0)] if end_offset else []

    def append(self, records: Buffer) -> None:
        """Take in fetched batches; what the log has already is left out. Raises `CorruptRecordError`."""
        for batch in read_batches(records):
            if batch.base_offset < self.end_offset:
                continue
            epoch = batch.partition_leader_epoch
            if not self._starts or self._starts[-1][0] != epoch:
                self._starts.append((epoch, batch.base_offset))
            values = [] if batch.is_control else [bytes(record.value or b"") for record in batch]
            self._pending.append(CommittedBatch(batch.last_offset, epoch, values))
            self.end_offset, self.last_epoch = batch.last_offset + 1, epoch

    def commit(self, high_watermark: int) -> list[CommittedBatch]:
        """Return what the high watermark has passed since, in order."""
        found = []
        while self._pending and self._pending[0].last_offset < high_watermark:
            batch = self._pending.popleft()
            self.committed_end = batch.last_offset + 1
            found.append(batch)
        return found

    def truncate(self, epoch: int, end_offset: int) -> bool:
        """Cut to where this log and the leader's agree (KIP-595); False where that is below what was committed.

        The leader says that the largest epoch not above ours that it has is `epoch`, which ends with it at
        `end_offset`.
        """
        cut = end_offset
        later = [start for known, start in self._starts if known > epoch]
        if later:
            cut = min(cut, later[0])
        if cut < self.committed_end:
            return False
        while self._pending and self._pending[-1].last_offset >= cut:
            self._pending.pop()
        self.end_offset = self._pending[-1].last_offset + 1 if self._pending else self.committed_end
        self._starts = [(known, start) for known, start in self._starts if start < self.end_offset]
        self.last_epoch = self._starts[-1][0] if self._starts else 0
        return True
