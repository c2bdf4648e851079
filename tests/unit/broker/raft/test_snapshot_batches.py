"""Snapshots are read piece by piece, however large they are; what is torn is told."""

from __future__ import annotations

import pytest

from barnabas.broker.log.disk_steps import done_at_once
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.snapshot_batches import READ_BYTES, snapshot_batches
from barnabas.broker.raft.snapshots import RecordsSnapshotReader, RecordsSnapshotWriter
from barnabas.errors import CorruptRecordError
from tests.support.raft_log import MemoryLog

_ID = OffsetAndEpoch(50, 3)


class _CountedLog(MemoryLog):
    """Notes how much is read at once."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[int] = []

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, size: int) -> bytes:
        found = super().read_snapshot(snapshot_id, position, size)
        self.reads.append(len(found))
        return found


def _log(values: list[bytes]) -> _CountedLog:
    log = _CountedLog()
    raw = log.create_snapshot(_ID)
    assert raw is not None
    writer = RecordsSnapshotWriter(raw, 77, 0, None)
    writer.append_values(values)
    done_at_once(writer.freeze())
    return log


def _values(log: MemoryLog) -> list[bytes]:
    return [value for batch in RecordsSnapshotReader(log, _ID).batches() for value in batch.values]


def test_a_large_snapshot_is_read_in_pieces_and_whole() -> None:
    values = [b"%07d" % number * 100 for number in range(12_000)]
    log = _log(values)
    assert _values(log) == values
    assert sum(log.reads) > 5 * READ_BYTES
    assert max(log.reads) < 1.1 * READ_BYTES


def test_a_batch_that_is_larger_than_a_piece_is_read_as_a_whole() -> None:
    values = [b"first", bytes(3 * READ_BYTES), b"last"]
    assert _values(_log(values)) == values


def test_its_header_is_read_without_the_rest() -> None:
    log = _log([bytes(1000)] * 5000)
    assert RecordsSnapshotReader(log, _ID).last_contained_log_timestamp == 77
    assert sum(log.reads) <= READ_BYTES


@pytest.mark.parametrize("size", [3, 30, 200])
def test_a_torn_snapshot_is_told(size: int) -> None:
    log = _log([b"value"] * 20)
    log.snapshots[_ID] = log.snapshots[_ID][:size]
    with pytest.raises(CorruptRecordError, match="no whole batch at byte"):
        list(snapshot_batches(log, _ID))


def test_a_length_that_cannot_be_is_told() -> None:
    log = _log([b"value"])
    log.snapshots[_ID] = bytes(8) + b"\x7f\xff\xff\xff" + log.snapshots[_ID][12:]
    with pytest.raises(CorruptRecordError):
        list(snapshot_batches(log, _ID))


def test_a_snapshot_that_was_dropped_is_told() -> None:
    with pytest.raises(CorruptRecordError, match="not there any more"):
        list(snapshot_batches(MemoryLog(), _ID))
