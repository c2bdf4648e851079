"""Idempotent producers: what is in sequence, what is a repetition, what is refused."""

from __future__ import annotations

from random import Random

import pytest

from barnabas.broker.log.append_origin import CLIENT, COORDINATOR, REPLICATION
from barnabas.broker.log.log_append_info import LogAppendInfo
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.producer_append_info import BatchMetadata, ProducerAppendInfo, ProducerStateEntry
from barnabas.broker.log.transaction_index import AbortedTxn
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import (
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from barnabas.protocol.kinds import ControlRecordType, IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from tests.support.sole_replica import append

ABORT, COMMIT = ControlRecordType

NOW = 1_700_000_000_000
NAME = TopicPartition("t", 0)
DAY = 86_400_000


def started(disk: MemoryFileSystem, now_ms: int = NOW) -> LogManager:
    manager = LogManager("/data", disk, {"segment.bytes": 2000})
    manager.start(now_ms=now_ms)
    return manager


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(Random(0))


@pytest.fixture
def log(disk: MemoryFileSystem) -> UnifiedLog:
    return started(disk).create_log(NAME)


def send(
    log: UnifiedLog, sequence: int, count: int = 2, *, epoch: int = 0, producer: int = 9, transactional: bool = False
) -> LogAppendInfo:
    builder = RecordBatchBuilder(1 << 20)
    for at in range(count):
        builder.try_append(NOW, None, str(sequence + at).encode(), [])
    builder.set_producer_state(producer, epoch, sequence, transactional=transactional)
    return append(log, builder.close(), now_ms=NOW)


def end(log: UnifiedLog, control_type: int, *, epoch: int = 0, producer: int = 9, coordinator_epoch: int = 0) -> int:
    marker = build_end_txn_marker(
        EndTxnMarker(control_type, coordinator_epoch), producer_id=producer, producer_epoch=epoch, timestamp_ms=NOW
    )
    return append(log, marker, now_ms=NOW, origin=COORDINATOR).first_offset


def test_the_last_five_batches_are_recognised_when_they_are_repeated(log: UnifiedLog) -> None:
    first = [send(log, 2 * at) for at in range(6)]

    again = [send(log, 2 * at) for at in range(1, 6)]

    assert [(info.first_offset, info.last_offset) for info in again] == [
        (info.first_offset, info.last_offset) for info in first[1:]
    ]
    assert all(info.duplicate for info in again)
    assert log.log_end_offset == 12
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 0)


@pytest.mark.parametrize("sequence", [1, 3, 7])
def test_a_gap_or_an_overlap_is_refused_and_nothing_is_written(log: UnifiedLog, sequence: int) -> None:
    send(log, 0)

    with pytest.raises(OutOfOrderSequenceError, match=f"sequence number {sequence} .* the last one was 1"):
        send(log, sequence)
    assert log.log_end_offset == 2
    assert send(log, 2).first_offset == 2


def test_sequence_numbers_wrap_after_the_largest(log: UnifiedLog) -> None:
    send(log, 2**31 - 2, 2)
    assert send(log, 0).first_offset == 2
    assert send(log, 2**31 - 2, 2).duplicate

    crossing = started(MemoryFileSystem(Random(0))).create_log(NAME)
    send(crossing, 2**31 - 1, 3)
    assert send(crossing, 2, 1).first_offset == 3
    assert send(crossing, 2**31 - 1, 3).duplicate


def test_a_new_epoch_begins_at_zero_and_fences_the_old(log: UnifiedLog) -> None:
    send(log, 0)

    with pytest.raises(OutOfOrderSequenceError, match="begins epoch 1"):
        send(log, 2, epoch=1)
    send(log, 0, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        send(log, 2, epoch=0)


def test_an_unknown_producer_may_begin_anywhere(log: UnifiedLog) -> None:
    assert send(log, 1000).first_offset == 0


def test_a_batch_of_a_producer_without_sequence_number_is_refused(log: UnifiedLog) -> None:
    with pytest.raises(InvalidRecordError):
        send(log, -1)


@pytest.mark.parametrize("clean", [True, False])
def test_repetitions_are_recognised_after_a_restart(disk: MemoryFileSystem, clean: bool) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    send(log, 0, producer=8)
    for at in range(30):
        send(log, 2 * at)
    if clean:
        manager.close()
    disk.crash()

    log = next(iter(started(disk)))

    repeated = send(log, 58)
    assert (repeated.duplicate, repeated.last_offset) == (True, 61)
    assert send(log, 0, producer=8).duplicate
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 70)
    assert send(log, 60).first_offset == 62


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_all_batches_that_may_be_under_way_are_recognised_after_a_restart(
    disk: MemoryFileSystem, clean: bool, rolls: bool
) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    first = []
    for at in range(9):
        first.append(send(log, 2 * at))
        send(log, 2 * at, producer=8)
        if rolls and at == 6:
            log.roll()
    manager.close() if clean else None
    disk.crash()

    log = next(iter(started(disk)))
    again = [send(log, 2 * at) for at in (6, 4, 5, 8, 7)]

    assert [info.first_offset for info in again] == [first[at].first_offset for at in (6, 4, 5, 8, 7)]
    assert all(info.duplicate for info in again)
    with pytest.raises(OutOfOrderSequenceError):
        send(log, 2, count=1)
    assert send(log, 18).first_offset == 36
    assert send(log, 10).duplicate


def test_batches_of_another_epoch_are_not_taken_for_repeated_after_a_restart(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    send(log, 0)
    send(log, 2)
    send(log, 0, epoch=1)
    send(log, 2, epoch=1)
    manager.close()
    disk.crash()

    log = next(iter(started(disk)))

    assert send(log, 0, epoch=1).first_offset == 4
    with pytest.raises(InvalidProducerEpochError):
        send(log, 0)


def test_a_damaged_snapshot_costs_nothing_but_reading(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    for at in range(30):
        send(log, 2 * at)
    manager.close()
    for entry in disk.list_directory("/data/t-0"):
        if entry.name.endswith(".snapshot"):
            disk.inode(f"/data/t-0/{entry.name}").data[4] ^= 1
    disk.crash()

    assert send(next(iter(started(disk))), 58).duplicate


def test_a_producer_that_is_silent_for_a_day_is_forgotten(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    send(log, 0, producer=8)
    send(log, 0, producer=9, transactional=True)

    log.producer_state.remove_expired(NOW + DAY - 1)
    assert set(log.producer_state.producers) == {8, 9}
    log.producer_state.remove_expired(NOW + DAY)
    assert set(log.producer_state.producers) == {9}

    manager.close()
    reopened = next(iter(started(disk, NOW + DAY)))
    assert set(reopened.producer_state.producers) == {9}


def test_read_committed_ends_at_the_oldest_open_transaction(log: UnifiedLog) -> None:
    send(log, 0, producer=7)
    send(log, 0, transactional=True)
    send(log, 0, producer=8, transactional=True)

    assert (log.high_watermark, log.last_stable_offset) == (6, 2)
    end(log, COMMIT, producer=8)
    assert log.last_stable_offset == 2
    assert [
        batch.base_offset for batch in read_batches(log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED).records)
    ] == [0]
    end(log, ABORT)
    assert log.last_stable_offset == log.log_end_offset == 8
    info = log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED)
    assert info.aborted_transactions == [AbortedTxn(9, 2, 7, 8)]
    assert log.read(0, 1000).aborted_transactions is None


@pytest.mark.parametrize("clean", [True, False])
def test_transactions_survive_a_restart(disk: MemoryFileSystem, clean: bool) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    send(log, 0, transactional=True)
    end(log, ABORT)
    for at in range(40):
        send(log, 2 * at, producer=5)
    send(log, 2, transactional=True)
    before = log.last_stable_offset
    if clean:
        manager.close()
    disk.crash()

    log = next(iter(started(disk)))

    assert log.number_of_segments > 1
    assert log.last_stable_offset == before == log.log_end_offset - 2
    assert log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED).aborted_transactions == [AbortedTxn(9, 0, 2, 3)]
    end(log, COMMIT)
    assert log.last_stable_offset == log.log_end_offset


def test_transactions_hold_producers_and_coordinators_to_their_epochs(log: UnifiedLog) -> None:
    send(log, 0, epoch=1, transactional=True)

    with pytest.raises(InvalidTxnStateError):
        send(log, 2, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        end(log, COMMIT, epoch=0)
    end(log, COMMIT, epoch=1, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(log, COMMIT, epoch=1, coordinator_epoch=4)
    assert log.log_end_offset == 3


def test_what_a_leader_has_accepted_is_not_checked_again() -> None:
    known = ProducerStateEntry(9, 3, -1, NOW, -1, [BatchMetadata(1, 1, 1, NOW)])
    follower = ProducerAppendInfo("t-0", known, REPLICATION)
    leader = ProducerAppendInfo("t-0", known, CLIENT)

    follower.append_data_batch(2, 77, 2, 3, NOW, transactional=False)
    with pytest.raises(InvalidProducerEpochError):
        leader.append_data_batch(2, 77, 2, 3, NOW, transactional=False)
