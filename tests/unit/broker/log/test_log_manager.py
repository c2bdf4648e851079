"""A data directory: who may use it, what is opened, what goes and when."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.errors import IllegalStateError, KafkaStorageError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder
from tests.support.sole_replica import append

NOW = 1_700_000_000_000
NAME = TopicPartition("t", 0)


def batch(timestamp: int = NOW, size: int = 10) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(timestamp, None, bytes(size), [])
    return builder.close()


def started(disk: MemoryFileSystem, **settings: object) -> LogManager:
    config = {name.replace("_", "."): value for name, value in settings.items()}
    manager = LogManager("/data", disk, config, random_bytes=disk.random.randbytes)
    manager.start()
    return manager


def run(manager: LogManager, now_ms: int) -> None:
    while manager.step(3, now_ms):
        pass


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem(Random(0))


def test_two_brokers_cannot_use_one_directory(tmp_path: Path) -> None:
    program = (
        "import sys; from barnabas.broker.log.log_manager import LogManager\n"
        f"manager = LogManager({str(tmp_path)!r})\n"
        "try: manager.start()\n"
        "except Exception as error: sys.exit(str(error))\n"
    )
    manager = LogManager(str(tmp_path))
    manager.start()

    with pytest.raises(KafkaStorageError, match=r"in use .*\.lock is held by another broker in this process"):
        LogManager(str(tmp_path)).start()
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert other.returncode == 1
    assert "held by another process" in other.stderr
    manager.close()
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")

    with pytest.raises(KafkaStorageError, match="cannot be used"):
        LogManager(str(file)).start()


def test_a_manager_makes_each_log_once(disk: MemoryFileSystem) -> None:
    manager = LogManager("/data", disk)
    with pytest.raises(IllegalStateError, match="not started"):
        manager.create_log(NAME)
    manager.start()
    log = manager.create_log(NAME, bytes(16), {"segment.bytes": 5000})

    assert manager.get_log(NAME) is log
    assert (log.topic_id, log.config.segment_bytes) == (bytes(16), 5000)
    with pytest.raises(IllegalStateError, match="already"):
        manager.create_log(NAME)


def test_logs_open_with_their_topics_settings_and_ids(disk: MemoryFileSystem) -> None:
    started(disk).create_log(NAME, b"\x07" * 16)
    disk.crash()

    manager = LogManager("/data", disk, {"retention.ms": 5, "segment.bytes": 5000})
    manager.start(lambda topic: {"segment.bytes": 6000} if topic == "t" else {})

    log = manager.get_log(NAME)
    assert log is not None
    assert (log.config.segment_bytes, log.config.retention_ms, log.topic_id) == (6000, 5, b"\x07" * 16)


def test_a_new_logs_topic_id_is_not_read_again_that_was_just_written(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    asked: list[str] = []

    def note(operation: str, path: str) -> None:
        asked.append(f"{operation} {path}")

    disk.fail = note
    log = manager.create_log(NAME, bytes(range(16)))

    assert log.topic_id == bytes(range(16))
    assert [entry for entry in asked if "partition.metadata" in entry and entry.startswith("read")] == []
    assert [entry for entry in asked if "partition.metadata" in entry]


def test_a_clean_shutdown_is_said_once(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    assert not manager.had_clean_shutdown
    manager.close()
    manager.close()
    assert started(disk).had_clean_shutdown
    disk.crash()
    assert not started(disk).had_clean_shutdown


def test_a_deleted_log_goes_after_the_delay(disk: MemoryFileSystem) -> None:
    manager = started(disk, file_delete_delay_ms=1000)
    log = manager.create_log(NAME)
    append(log, batch(), now_ms=NOW)

    manager.delete_log(NAME)

    assert manager.get_log(NAME) is None
    with pytest.raises(KafkaStorageError, match="deleted"):
        append(log, batch(), now_ms=NOW)
    assert manager.create_log(NAME).log_end_offset == 0
    run(manager, NOW)
    assert len([entry for entry in disk.list_directory("/data") if entry.name.endswith("-delete")]) == 1
    run(manager, NOW + 1000)
    assert [entry.name for entry in disk.list_directory("/data") if entry.is_directory] == ["t-0"]


def test_a_deletion_that_was_cut_short_is_finished_after_a_restart(disk: MemoryFileSystem) -> None:
    manager = started(disk, file_delete_delay_ms=0)
    manager.create_log(NAME)
    manager.delete_log(NAME)
    manager.step(2, NOW)
    disk.crash()

    manager = started(disk, file_delete_delay_ms=0)
    run(manager, NOW)

    assert list(manager) == []
    assert not any(entry.is_directory for entry in disk.list_directory("/data"))


def test_retention_runs_in_steps_and_files_go_after_the_delay(disk: MemoryFileSystem) -> None:
    manager = started(disk, segment_bytes=200, retention_ms=1000, file_delete_delay_ms=60_000)
    log = manager.create_log(NAME)
    for at in range(10):
        append(log, batch(NOW + at, 100), now_ms=NOW)
    run(manager, NOW)
    run(manager, NOW + 20_000)
    assert log.log_start_offset == 0

    run(manager, NOW + 31_000)
    assert log.log_start_offset == 10
    names = {entry.name for entry in disk.list_directory("/data/t-0")}
    assert sum(name.endswith(".log.deleted") for name in names) == 10
    run(manager, NOW + 31_000 + 60_000)
    left = {entry.name for entry in disk.list_directory("/data/t-0")}
    assert not any(name.endswith(".deleted") for name in left)
    assert sum(name.endswith(".log") for name in left) == 1


def test_a_rolled_segment_is_flushed_in_the_background(disk: MemoryFileSystem) -> None:
    manager = started(disk, segment_bytes=200)
    log = manager.create_log(NAME)
    for _ in range(3):
        append(log, batch(size=100), now_ms=NOW)
    assert log.recovery_point == 0

    run(manager, NOW)

    assert log.recovery_point == 2
    run(manager, NOW + 60_000)
    assert disk.read("/data/recovery-point-offset-checkpoint") == b"0\n1\nt 0 2\n"


@pytest.mark.parametrize("seed", range(5))
def test_a_power_loss_after_a_clean_shutdown_and_a_start_is_no_clean_shutdown(seed: int) -> None:
    disk = MemoryFileSystem(Random(seed))
    manager = started(disk)
    manager.create_log(NAME)
    manager.close()
    manager = started(disk)
    assert manager.had_clean_shutdown
    next(iter(manager)).append(batch(), now_ms=NOW)

    disk.power_loss()

    assert not started(disk).had_clean_shutdown


@pytest.mark.parametrize("seed", range(5))
def test_a_new_data_directory_is_on_the_disk_before_anything_is_acknowledged(seed: int) -> None:
    disk = MemoryFileSystem(Random(seed))
    disk.has_journal = False
    manager = LogManager("/data", disk, {}, random_bytes=disk.random.randbytes)
    manager.start(identify=lambda cluster_id: (cluster_id or "cluster", 1))
    log = manager.create_log(NAME)
    log.append(batch(), now_ms=NOW)
    log.flush()

    disk.power_loss()

    found = started(disk).get_log(NAME)
    assert found is not None
    assert found.log_end_offset == log.log_end_offset


def test_flush_ms_bounds_what_a_power_loss_takes(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME, config={"flush.ms": 5000})
    run(manager, NOW)
    append(log, batch(), now_ms=NOW)
    for later in (2000, 4000):
        run(manager, NOW + later)
    assert log.recovery_point == 0
    run(manager, NOW + 6000)
    run(manager, NOW + 12_000)
    assert log.recovery_point == 1


def test_a_flush_on_the_real_disk_runs_beside_the_traffic(tmp_path: Path) -> None:
    manager = LogManager(str(tmp_path), config={"segment.bytes": 200})
    manager.start()
    log = manager.create_log(NAME)
    for _ in range(3):
        append(log, batch(size=100), now_ms=NOW)

    deadline = time.monotonic() + 30
    while log.recovery_point < 2 and time.monotonic() < deadline:
        manager.step(1, NOW)
        time.sleep(0.001)

    assert log.recovery_point == 2
    manager.close()


def test_the_start_of_a_log_survives_a_restart(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    for _ in range(5):
        append(log, batch(), now_ms=NOW)
    log.increment_log_start_offset(3, "a client asked for it")
    manager.close()

    manager = started(disk)
    log = next(iter(manager))
    assert (log.log_start_offset, log.log_end_offset) == (3, 5)
    log.increment_log_start_offset(4, "a client asked for it")
    run(manager, NOW)
    run(manager, NOW + 60_000)
    disk.crash()
    log = next(iter(started(disk)))
    assert (log.log_start_offset, log.log_end_offset) == (4, 5)


def test_a_log_whose_files_were_deleted_starts_again_behind_its_old_start(
    disk: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    for _ in range(5):
        append(log, batch(), now_ms=NOW)
    log.increment_log_start_offset(3, "a client asked for it")
    manager.close()
    for suffix in ("log", "index", "timeindex"):
        disk.remove(f"/data/t-0/{0:020d}.{suffix}")
    disk.create(f"/data/t-0/{0:020d}.log")

    with caplog.at_level(logging.ERROR):
        log = next(iter(started(disk)))

    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert "ends at offset 0, before its start at 3" in caplog.text


def test_what_is_not_a_partition_is_left_alone(disk: MemoryFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("notes", "__cluster_metadata-0", f"t-1.{'0' * 32}-stray", "remote-log-index-cache"):
        disk.make_directory(f"/data/{name}")
    disk.create("/data/metadata.sqlite")

    with caplog.at_level(logging.WARNING):
        manager = started(disk)

    assert list(manager) == []
    # Nothing is said of the quorum's log, which a controller in this process, or an earlier one, keeps there.
    said = sorted(record.getMessage().split()[0] for record in caplog.records)
    assert said == ["/data/notes", "/data/remote-log-index-cache", f"/data/t-1.{'0' * 32}-stray"]
    assert len(disk.list_directory("/data")) == 6


def test_a_damaged_middle_is_reported_with_file_position_and_size(
    disk: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log = started(disk, segment_bytes=400).create_log(NAME)
    for _ in range(9):
        append(log, batch(size=50), now_ms=NOW)
    size = len(batch(size=50))
    path = f"/data/t-0/{0:020d}.log"
    disk.inode(path).data[size + 70] ^= 1
    disk.crash()

    with caplog.at_level(logging.WARNING):
        manager = started(disk, segment_bytes=400)

    assert next(iter(manager)).log_end_offset == 1
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert f"{path} at byte {size} of {3 * size}" in errors[0]
    assert f"sound batches follow from byte {2 * size} on" in errors[0]
    assert f"cutting {2 * size} bytes, the log ends at offset 1" in errors[0]
    assert "deleting the 2 segments" in errors[1]


def test_interrupted_compaction_is_completed_or_undone(disk: MemoryFileSystem) -> None:
    manager = started(disk, segment_bytes=200, retention_ms=-1)
    log = manager.create_log(NAME)
    for _ in range(4):
        append(log, batch(size=100), now_ms=NOW)
    manager.close()
    directory = "/data/t-0"
    # The first two segments were written anew as one; the second's files are still there.
    whole = disk.read(f"{directory}/{0:020d}.log") + disk.read(f"{directory}/{1:020d}.log")
    disk.replace(f"{directory}/{0:020d}.log.swap", whole, sync=True)
    for suffix in ("index", "timeindex"):
        disk.replace(f"{directory}/{0:020d}.{suffix}.swap", b"", sync=True)
    # The third was only begun.
    disk.replace(f"{directory}/{2:020d}.log.cleaned", b"half", sync=True)
    disk.crash()

    log = next(iter(started(disk, segment_bytes=200, retention_ms=-1)))

    assert log.local_log.segments.base_offsets == [0, 2, 3]
    assert len(log.read(0, 10_000).records) == len(whole)
    assert not [e.name for e in disk.list_directory(directory) if e.name.endswith((".swap", ".cleaned"))]


def test_producers_are_forgotten_in_the_background(disk: MemoryFileSystem) -> None:
    manager = started(disk)
    log = manager.create_log(NAME)
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(NOW, None, b"", [])
    builder.set_producer_state(5, 0, 0)
    append(log, builder.close(), now_ms=NOW)
    run(manager, NOW)

    run(manager, NOW + 600_000)
    assert 5 in log.producer_state.producers
    run(manager, NOW + 86_400_000)
    assert 5 not in log.producer_state.producers


def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    filesystem = OsFileSystem(max_open_files=4)
    manager = LogManager(str(tmp_path), filesystem)
    manager.start()
    logs = [manager.create_log(TopicPartition("t", at)) for at in range(12)]

    for _ in range(3):
        for at, log in enumerate(logs):
            append(log, batch(size=at), now_ms=NOW)
            assert len(log.read(0, 10_000).records) == log.size
    assert len(filesystem.opened) <= 4
    manager.close()
    manager = LogManager(str(tmp_path), OsFileSystem())
    manager.start()
    assert [log.log_end_offset for log in manager] == [3] * 12
    manager.close()


def test_a_damaged_segment_does_not_keep_the_other_logs_from_retention(disk: MemoryFileSystem) -> None:
    manager = started(disk, segment_bytes=200, retention_ms=1000, file_delete_delay_ms=0)
    for topic in ("a", "b"):
        log = manager.create_log(TopicPartition(topic, 0))
        for _ in range(6):
            append(log, batch(size=60), now_ms=NOW)
    manager.close()
    first = "/data/a-0/00000000000000000000"
    disk.replace(f"{first}.log", disk.read(f"{first}.log")[:-9], sync=True)
    disk.remove(f"{first}.timeindex")
    manager = started(disk, segment_bytes=200, retention_ms=1000, file_delete_delay_ms=0)
    run(manager, NOW + 1)

    run(manager, NOW + 400_000)

    healthy = manager.get_log(TopicPartition("b", 0))
    assert healthy is not None
    assert healthy.log_start_offset > 0


class SlowStorage:
    """Flushes that are never over."""

    def __init__(self) -> None:
        self.submitted = 0

    def submit(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        self.submitted += 1

    def drain(self) -> None: ...


def test_retention_goes_on_where_segments_are_begun_faster_than_the_disk_flushes(disk: MemoryFileSystem) -> None:
    storage = SlowStorage()
    settings = {"log.retention.check.interval.ms": 1000, "retention.ms": 5000, "log.initial.task.delay.ms": 0}
    manager = LogManager("/data", disk, settings, random_bytes=disk.random.randbytes, storage=storage)
    manager.start()
    log = manager.create_log(NAME)
    for second in range(20):
        now_ms = NOW + second * 1000
        append(log, batch(now_ms), now_ms=now_ms)
        log.roll()
        manager.step(10, now_ms)

    assert log.log_start_offset > 10
    assert storage.submitted > 1


def test_a_wall_clock_that_is_set_back_keeps_no_task_from_its_turn(disk: MemoryFileSystem) -> None:
    manager = started(disk, log_retention_check_interval_ms=1000, retention_ms=5000, log_initial_task_delay_ms=0)
    log = manager.create_log(NAME)
    run(manager, NOW + 3_600_000)
    append(log, batch(NOW - 60_000), now_ms=NOW)
    log.roll()

    run(manager, NOW)
    run(manager, NOW + 3000)

    assert log.log_start_offset == log.log_end_offset


def test_damage_in_what_was_flushed_keeps_no_log_from_being_opened(disk: MemoryFileSystem) -> None:
    """A crash has the end of the segment before the recovery point looked at, for its largest timestamp."""
    manager = started(disk)
    log = manager.create_log(NAME)
    for _ in range(3):
        append(log, batch(), now_ms=NOW)
    log.flush()
    log.roll()
    manager.checkpoint_soon()
    manager.step(5, NOW)
    disk.crash()
    data = disk.inode(f"/data/t-0/{0:020}.log").data
    data[8:12] = (1 << 30).to_bytes(4, "big")

    found = started(disk).get_log(NAME)

    assert found is not None
    assert found.log_end_offset == 3
