"""Reads a snapshot of the quorum's log piece by piece, so that its size does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import CorruptRecordError
from barnabas.records import scan_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
    from barnabas.broker.raft.replicated_log import ReplicatedLog

#: So much is read at once, in bytes; a batch that is larger is read as a whole.
READ_BYTES = 1 << 20
_LENGTH = slice(8, 12)
_BEFORE_LENGTH = 12


def snapshot_batches(log: ReplicatedLog, snapshot_id: OffsetAndEpoch) -> Iterator[bytes]:
    """Give the bytes of a snapshot in order, some whole batches at a time.

    Raises `CorruptRecordError` where it is not there any more, and where it ends within a batch.
    """
    size = log.snapshot_size(snapshot_id)
    if size is None:
        raise CorruptRecordError(f"the snapshot {snapshot_id} is not there any more")
    position = 0
    while position < size:
        data = log.read_snapshot(snapshot_id, position, READ_BYTES)
        headers = scan_batches(data)
        if not headers:
            length = _BEFORE_LENGTH + int.from_bytes(data[_LENGTH], "big", signed=True)
            if READ_BYTES < length <= size - position:
                data = log.read_snapshot(snapshot_id, position, length)
                headers = scan_batches(data)
        if not headers:
            raise CorruptRecordError(f"the snapshot {snapshot_id} has no whole batch at byte {position} of {size}")
        end = headers[-1].position + headers[-1].size_in_bytes
        yield data[:end]
        position += end
