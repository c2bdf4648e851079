"""Background work for logs in which nothing happens: it costs nothing, and what time asks for is done."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.broker.log import background_work
from barnabas.broker.log.due_logs import DueLogs
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.sole_replica import append
from tests.unit.broker.log.test_log_manager import NAME, NOW, batch, run, started

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(Random(0))


def settled(disk: MemoryFileSystem, **settings: object) -> tuple[LogManager, int]:
    """A directory with two logs of a record each, which every task has looked at."""
    manager = started(disk, **settings)
    for name in (NAME, TopicPartition("t", 1)):
        append(manager.create_log(name), batch(), now_ms=NOW)
    now = NOW
    for _ in range(12):
        now += 60_000
        run(manager, now)
    return manager, now


def test_a_log_in_which_nothing_happens_is_not_looked_at(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, now = settled(disk)
    seen: list[Any] = []
    real = background_work.delete_old_segments
    monkeypatch.setattr(background_work, "delete_old_segments", lambda log, at: seen.append(log) or real(log, at))
    for later in range(1, 120):
        run(manager, now + later * 60_000)
    assert seen == []
    append(manager.logs[NAME], batch(now), now_ms=now)
    for later in range(120, 240):
        run(manager, now + later * 60_000)
    assert seen == [manager.logs[NAME]]


def test_records_go_by_age_although_nothing_happens(disk: MemoryFileSystem) -> None:
    manager, _ = settled(disk, retention_ms=DAY)
    run(manager, NOW + DAY - HOUR)
    assert [log.log_start_offset for log in manager] == [0, 0]
    run(manager, NOW + DAY + HOUR)
    assert [log.log_start_offset for log in manager] == [1, 1]


def test_a_shorter_retention_reaches_logs_in_which_nothing_happens(disk: MemoryFileSystem) -> None:
    manager, _ = settled(disk, retention_ms=DAY)
    manager.update_topic_config("t", {"retention.ms": str(HOUR)})
    run(manager, NOW + 2 * HOUR)
    assert [log.log_start_offset for log in manager] == [1, 1]


def test_producers_expire_although_nothing_happens(disk: MemoryFileSystem) -> None:
    manager = started(disk, producer_id_expiration_ms=HOUR, retention_ms=-1)
    log = manager.create_log(NAME)
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(NOW, None, b"v", [])
    builder.set_producer_state(7, 0, 0)
    append(log, builder.close(), now_ms=NOW)
    for minutes in (1, 20, 40):
        run(manager, NOW + minutes * 60_000)
    assert 7 in log.producer_state.producers
    run(manager, NOW + 2 * HOUR)
    assert 7 not in log.producer_state.producers


def test_the_time_of_a_flush_counts_from_the_first_record_after_a_pause(disk: MemoryFileSystem) -> None:
    manager, now = settled(disk, flush_ms=5000)
    log = manager.logs[NAME]
    assert log.recovery_point == 1
    append(log, batch(now), now_ms=now)
    run(manager, now + 1000)
    assert log.recovery_point == 1, "it waits its five seconds, however long nothing came before"
    run(manager, now + 7000)
    run(manager, now + 8000)
    assert log.recovery_point == 2


def test_checkpoints_follow_single_logs_and_forget_those_that_were_deleted(disk: MemoryFileSystem) -> None:
    manager, now = settled(disk)
    manager.note_replicated(lambda name: True)
    for log in manager:
        log.touch()
    run(manager, now + 60_000)
    append(manager.logs[NAME], batch(now), now_ms=now)
    manager.logs[NAME].flush()
    run(manager, now + 120_000)
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 0\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 1\n"
    manager.delete_log(TopicPartition("t", 1))
    run(manager, now + 180_000)
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 2\n"
    assert disk.read("/data/replication-offset-checkpoint") == b"0\n1\nt 0 2\n"


def test_a_checkpoint_that_the_disk_refused_is_written_when_it_works_although_nothing_happens(
    disk: MemoryFileSystem,
) -> None:
    manager, now = settled(disk)
    append(manager.logs[NAME], batch(now), now_ms=now)
    manager.logs[NAME].flush()
    disk.fail = lambda operation, path: OSError(5, "no") if "checkpoint" in path else None
    run(manager, now + 60_000)
    disk.fail = None
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 0\nt 1 0\n"
    run(manager, now + 120_000)
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n2\nt 0 2\nt 1 0\n"


def test_what_is_due_comes_once_and_by_its_first_time() -> None:
    due = DueLogs()
    for at in (30, 10, 20):
        due.put(NAME, at)
    due.put(TopicPartition("t", 1), 15)
    assert due.take(9) == []
    assert due.take(100) == [NAME, TopicPartition("t", 1)]
    assert due.take(100) == []
    due.put(NAME, float("inf"))
    assert len(due) == 0
