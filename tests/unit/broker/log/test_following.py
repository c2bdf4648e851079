"""A follower's log: it takes its leader's offsets and epochs, and cuts off what the leader does not have."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log import truncation
from barnabas.broker.log.follower_records import OffsetsOutOfOrderError, UnexpectedAppendOffsetError
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import CorruptRecordError, KafkaStorageError
from barnabas.protocol.kinds import ControlRecordType, IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.batch_header import assign_offsets
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker

NAME = TopicPartition("t", 0)
NOW = 1_700_000_000_000
EPOCH = 3


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(Random(0))


def started(disk: MemoryFileSystem, **settings: object) -> LogManager:
    manager = LogManager("/data", disk, {name.replace("_", "."): value for name, value in settings.items()})
    manager.checkpoints.is_replicated = lambda _name: True
    manager.start(now_ms=NOW)
    return manager


def new_log(disk: MemoryFileSystem, **settings: object) -> UnifiedLog:
    return started(disk, **settings).create_log(NAME)


def batch(offset: int, count: int = 1, epoch: int = EPOCH, producer: int = -1, sequence: int = -1) -> bytes:
    """What a leader has at an offset."""
    builder = RecordBatchBuilder(1 << 20)
    for at in range(count):
        builder.try_append(NOW + offset + at, b"k", b"%d" % (offset + at), [])
    if producer >= 0:
        builder.set_producer_state(producer, 0, sequence, transactional=True)
    return at_offset(builder.close(), offset, epoch)


def at_offset(data: bytes, offset: int, epoch: int = EPOCH) -> bytes:
    buffer = bytearray(data)
    assign_offsets(buffer, 0, offset, epoch)
    return bytes(buffer)


def marker(offset: int, producer: int, kind: int = ControlRecordType.ABORT) -> bytes:
    data = build_end_txn_marker(EndTxnMarker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=NOW)
    return at_offset(data, offset)


def follow(log: UnifiedLog, *batches: bytes, epoch: int = EPOCH) -> None:
    log.append_as_follower(b"".join(batches), now_ms=NOW, leader_epoch=epoch)


def offsets(log: UnifiedLog) -> list[int]:
    log.update_high_watermark(log.log_end_offset)
    found: list[int] = []
    at = log.log_start_offset
    while data := log.read(at, 1 << 20).records:
        batches = list(read_batches(data))
        found += [one.base_offset for one in batches]
        at = batches[-1].last_offset + 1
    return found


# -- appending ---------------------------------------------------------------------------------------------------------


def test_offsets_epochs_and_gaps_are_the_leaders(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    info = log.append_as_follower(batch(5, 3, 1) + batch(20, 2, 2) + batch(22, 1, 4), now_ms=NOW, leader_epoch=4)

    assert info is not None
    assert (info.first_offset, info.last_offset, info.last_leader_epoch) == (5, 22, 4)
    assert (log.log_end_offset, log.high_watermark) == (23, 0)
    assert log.leader_epochs.entries == ((1, 5), (2, 20), (4, 22))
    assert log.local_log.segments.active.size == len(batch(5, 3) + batch(20, 2) + batch(22))


def test_what_a_leader_sent_after_it_had_lost_the_leadership_is_left_out(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0, 1, 3), batch(1, 1, 4), batch(2, 1, 3), epoch=3)

    assert log.log_end_offset == 1
    assert log.append_as_follower(batch(1, 1, 4), now_ms=NOW, leader_epoch=3) is None


def test_a_batch_that_is_cut_is_left_for_the_next_fetch(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0), batch(1)[:-3])

    assert log.log_end_offset == 1
    assert log.append_as_follower(batch(1)[:30], now_ms=NOW, leader_epoch=EPOCH) is None


BAD = {
    "offsets that fall": (batch(5) + batch(4), OffsetsOutOfOrderError),
    "offsets that overlap": (batch(5, 3) + batch(7), OffsetsOutOfOrderError),
    "offsets that are there already": (batch(1, 3), UnexpectedAppendOffsetError),
    "a wrong checksum": (batch(5)[:-1] + b"\x01", CorruptRecordError),
}


@pytest.mark.parametrize("what", BAD)
def test_a_follower_refuses(disk: MemoryFileSystem, what: str) -> None:
    log = new_log(disk)
    follow(log, batch(0, 2))
    data, error = BAD[what]

    with pytest.raises(error, match=r"t-0|checksum"):
        follow(log, data)

    assert (log.log_end_offset, offsets(log)) == (2, [0])


def test_what_is_larger_than_a_segment_goes_into_several(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=200)
    follow(log, *(batch(offset) for offset in range(10)))

    assert log.number_of_segments > 2
    assert offsets(log) == list(range(10))


def test_a_gap_too_wide_for_an_index_begins_a_segment(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0), batch(1 << 33))
    follow(log, batch((1 << 33) + 1))

    assert log.local_log.segments.base_offsets == [0, 1 << 33]
    assert log.log_end_offset == (1 << 33) + 2


def test_transactions_of_the_leader_hold_back_read_committed(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0), batch(1, 2, producer=7, sequence=0), batch(3))
    log.update_high_watermark(4)
    assert log.last_stable_offset == 1

    follow(log, marker(4, 7), batch(5))
    assert log.last_stable_offset == 1
    log.update_high_watermark(6)

    assert log.last_stable_offset == 6
    aborted = log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED).aborted_transactions
    assert [(found.producer_id, found.first_offset, found.last_offset) for found in aborted or ()] == [(7, 1, 4)]


# -- truncating --------------------------------------------------------------------------------------------------------


def truncate(log: UnifiedLog, offset: int) -> None:
    truncation.truncate_to(log, offset, NOW)


def test_a_log_is_truncated_within_a_segment_between_segments_and_to_nothing(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=350)
    follow(log, *(batch(offset) for offset in range(12)))
    starts = list(log.local_log.segments.base_offsets)
    assert len(starts) > 2

    for end in (11, starts[-1], starts[-2] + 1, 1, 0):
        truncate(log, end)
        assert (log.log_end_offset, offsets(log)) == (end, list(range(end)))
    follow(log, batch(0), batch(1))
    assert offsets(log) == [0, 1]


def test_a_batch_is_never_cut(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0, 4), batch(4, 4))
    truncate(log, 6)

    assert (log.log_end_offset, offsets(log)) == (4, [0])


def test_the_end_of_a_gap_can_be_the_end_of_the_log(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0), batch(9))
    truncate(log, 5)

    assert log.log_end_offset == 5
    follow(log, batch(5))
    assert offsets(log) == [0, 5]


def test_before_its_first_segment_a_log_begins_anew(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0))
    truncation.truncate_fully_and_start_at(log, 100)
    follow(log, batch(100), batch(101))
    truncate(log, 50)

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.recovery_point) == (50, 50, 50, 50)
    assert (log.leader_epochs.entries, log.local_log.segments.base_offsets) == ((), [50])


def test_the_marks_of_a_log_go_back_with_it(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0, 1, 1), batch(1, 1, 2), batch(2, 1, 3))
    log.update_high_watermark(2)
    log.flush()
    truncate(log, 1)

    assert (log.high_watermark, log.recovery_point, log.latest_epoch) == (1, 1, 1)


def test_the_epoch_of_a_leader_that_wrote_nothing_goes_where_nothing_is_to_be_cut(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0, 1, 1))
    log.leader_epochs.assign(2, 1)
    truncate(log, 1)

    assert log.leader_epochs.entries == ((1, 0),)


def test_a_transaction_whose_marker_is_cut_is_open_again(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, batch(0, 1, producer=7, sequence=0), marker(1, 7), batch(2))
    log.update_high_watermark(3)
    assert log.last_stable_offset == 3
    truncate(log, 1)
    log.update_high_watermark(1)

    assert (log.last_stable_offset, log.producer_state.ongoing_txns) == (0, {0: 7})
    assert log.local_log.segments.active.txn_index.transactions == []


def test_a_producer_goes_on_where_the_log_was_cut(disk: MemoryFileSystem) -> None:
    log = new_log(disk, segment_bytes=250)
    for at in range(8):
        follow(log, batch(at, 1, producer=7, sequence=at))
    truncate(log, 3)

    assert log.producer_state.producers[7].last_sequence == 2
    assert all(taken <= 3 for taken in log.producer_state.snapshots)
    follow(log, batch(3, 1, producer=7, sequence=3))
    assert log.producer_state.producers[7].last_sequence == 3


def test_reads_by_offset_and_time_are_right_after_a_truncation(disk: MemoryFileSystem) -> None:
    log = new_log(disk, index_interval_bytes=1)
    follow(log, *(batch(offset) for offset in range(50)))
    truncate(log, 20)
    follow(log, *(batch(offset) for offset in range(20, 40)))
    log.update_high_watermark(40)

    for offset in range(40):
        found = log.offset_for_timestamp(NOW + offset)
        assert found is not None
        assert found.offset == offset
        assert next(iter(read_batches(log.read(offset, 1).records))).base_offset == offset
    assert log.offset_for_timestamp(NOW + 40) is None


def test_a_disk_that_fails_takes_the_log_offline_until_it_is_opened_anew(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    follow(log, batch(0), batch(1))
    disk.fail = lambda operation, path: OSError("broken") if operation == "truncate" else None

    assert isinstance(manager.truncation().truncate_to({NAME: 1}, NOW)[NAME], KafkaStorageError)

    assert (log.is_offline, log.health.can_be_reopened) == (True, True)
    disk.fail = None
    manager.step(1, NOW + 10_000)
    manager.step(1, NOW + 10_000)
    assert manager.truncation().truncate_to({NAME: 1}, NOW) == {}
    assert manager.logs[NAME].log_end_offset == 1


EPOCHS = "/data/t-0/leader-epoch-checkpoint"


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename"])
def test_epochs_that_cannot_be_written_take_the_log_offline_until_the_disk_takes_them(
    disk: MemoryFileSystem, kind: str
) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    follow(log, batch(0), batch(1))
    refused: list[str] = []

    def fail(operation: str, path: str) -> OSError | None:
        if operation != kind or not path.startswith(EPOCHS):
            return None
        refused.append(path)
        return OSError("broken")

    disk.fail = fail
    with pytest.raises(KafkaStorageError, match="leader epochs"):
        log.flush()

    assert refused
    assert (log.is_offline, log.health.can_be_reopened) == (True, True)
    disk.fail = None
    manager.step(1, NOW + 10_000)
    manager.step(1, NOW + 10_000)
    log = manager.logs[NAME]
    log.flush()
    assert (log.log_end_offset, log.recovery_point, log.latest_epoch) == (2, 2, EPOCH)
    assert disk.read(EPOCHS) == b"0\n1\n3 0\n"


def test_records_that_cannot_be_flushed_take_the_log_offline_for_good_whatever_became_of_the_epochs(
    disk: MemoryFileSystem,
) -> None:
    log = started(disk).create_log(NAME)
    follow(log, batch(0))
    disk.fail = lambda operation, path: OSError("broken") if operation in ("write", "sync") else None

    with pytest.raises(KafkaStorageError):
        log.flush()

    assert (log.is_offline, log.health.can_be_reopened) == (True, False)


def test_a_log_that_is_not_open_cannot_be_truncated(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    follow(log, batch(0))
    # As while a disk that has failed is looked at again.
    manager.logs.pop(NAME)

    assert isinstance(manager.truncation().truncate_to({NAME: 0}, NOW)[NAME], KafkaStorageError)
    with pytest.raises(KafkaStorageError):
        manager.truncation().truncate_fully_and_start_at(NAME, 5, NOW)


def test_a_flush_that_began_before_says_nothing_of_what_was_written_since(disk: MemoryFileSystem) -> None:
    log = new_log(disk)
    follow(log, *(batch(offset) for offset in range(10)))
    before = log.prepare_flush(10)
    truncate(log, 4)
    follow(log, batch(4), batch(5))
    before.run()
    log.end_flush(10, before.error, NOW)
    assert log.recovery_point <= 4
    log.flush()
    assert log.recovery_point == 6


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_the_high_watermark_of_a_replicated_log_outlives_the_broker(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    follow(log, batch(0), batch(1), batch(2))
    log.update_high_watermark(2)
    manager.close()

    assert disk.read("/data/replication-offset-checkpoint") == b"0\n1\nt 0 2\n"
    log = next(iter(started(disk)))
    assert (log.high_watermark, log.log_end_offset) == (2, 3)


def test_without_a_checkpoint_nothing_of_a_replicated_log_is_known_to_be_committed(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    follow(manager.create_log(NAME), batch(0))
    disk.crash()

    assert next(iter(started(disk))).high_watermark == 0


def test_a_recovery_point_beyond_the_end_never_outlives_a_truncation(disk: MemoryFileSystem) -> None:
    manager = started(disk, log_initial_task_delay_ms=0)
    log = manager.create_log(NAME)
    follow(log, batch(0), batch(1), batch(2))
    log.update_high_watermark(3)
    log.flush()
    manager.checkpoint_soon()
    manager.step(20, NOW)
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 3\n"

    manager.truncation().truncate_to({NAME: 1}, NOW)

    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n1\nt 0 1\n"


def test_a_transaction_that_came_with_the_marker_of_the_one_before_is_told_when_it_is_aborted(
    disk: MemoryFileSystem,
) -> None:
    log = new_log(disk, index_interval_bytes=1)
    together = [batch(0, producer=1, sequence=0), marker(1, 1), batch(2, producer=1, sequence=1)]
    follow(log, *together, batch(3, producer=2, sequence=0))
    follow(log, marker(4, 1))
    follow(log, batch(5))
    log.update_high_watermark(6)

    found = log.read(2, 1 << 20, isolation=IsolationLevel.READ_COMMITTED)

    assert [one.base_offset for one in read_batches(found.records)] == [2]
    assert [(txn.producer_id, txn.first_offset) for txn in found.aborted_transactions or ()] == [(1, 2)]
