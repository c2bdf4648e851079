"""The metadata log in Kafka's files: what a start finds, what a power loss leaves."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from barnabas.broker.log.disk_steps import done_at_once
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.os_filesystem import OsFileSystem
from barnabas.broker.raft.control_records import build_data_batch
from barnabas.broker.raft.kafka_metadata_log import (
    FileQuorumStateStore,
    KafkaMetadataLog,
    log_directory_of,
    snapshot_file_name,
)
from barnabas.broker.raft.offset_and_epoch import OffsetAndEpoch
from barnabas.broker.raft.replicated_log import validate_offset_and_epoch
from barnabas.broker.raft.snapshots import RecordsSnapshotReader, RecordsSnapshotWriter
from barnabas.errors import CorruptRecordError, KafkaStorageError
from barnabas.records import scan_batches

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.broker.log.filesystem import FileSystem

_DIRECTORY = log_directory_of("/data")


def _filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem(Random(1))
    filesystem.make_directory("/data")
    return filesystem


def _open(filesystem: MemoryFileSystem, **settings: int) -> KafkaMetadataLog:
    return KafkaMetadataLog(filesystem, "/data", {key.replace("_", "."): val for key, val in settings.items()}, 0)


def _append(log: KafkaMetadataLog, epoch: int, *values: bytes) -> None:
    log.append(build_data_batch(values, base_offset=log.end_offset, epoch=epoch, timestamp_ms=7), epoch, 0)


def _snapshot(log: KafkaMetadataLog, snapshot_id: OffsetAndEpoch, timestamp_ms: int = 0) -> None:
    raw = log.create_snapshot(snapshot_id)
    assert raw is not None
    writer = RecordsSnapshotWriter(raw, timestamp_ms, 0, None)
    writer.append_values([b"everything"])
    done_at_once(writer.freeze())


def _names(filesystem: MemoryFileSystem) -> set[str]:
    return {entry.name for entry in filesystem.list_directory(_DIRECTORY)}


def test_what_was_flushed_is_there_after_a_power_loss() -> None:
    filesystem = _filesystem()
    log = _open(filesystem)
    _append(log, 1, b"a", b"b")
    _append(log, 2, b"c")
    done_at_once(log.flush())
    filesystem.power_loss()
    found = _open(filesystem)
    assert (found.end_offset, found.last_fetched_epoch) == (3, 2)
    assert found.end_offset_for_epoch(1) == (2, 1)
    assert found.high_watermark == 0


def test_the_files_have_kafkas_names() -> None:
    filesystem = _filesystem()
    log = _open(filesystem)
    _append(log, 1, b"a", b"b")
    log.update_high_watermark(2)
    _snapshot(log, OffsetAndEpoch(2, 1))
    done_at_once(FileQuorumStateStore(filesystem, "/data").write(b"{}"))
    assert _names(filesystem) >= {
        "00000000000000000000.log",
        "00000000000000000002-0000000001.checkpoint",
        "partition.metadata",
        "quorum-state",
    }


def test_a_snapshot_that_was_not_ended_is_not_there() -> None:
    filesystem = _filesystem()
    log = _open(filesystem)
    raw = log.create_snapshot(OffsetAndEpoch(0, 1))
    assert raw is not None
    raw.append(b"half of it")
    filesystem.crash()
    assert _open(filesystem).latest_snapshot_id is None
    assert not [name for name in _names(filesystem) if "checkpoint" in name and "epoch" not in name]


def test_a_snapshot_says_what_it_was_given() -> None:
    log = _open(_filesystem())
    _append(log, 1, b"a")
    log.update_high_watermark(1)
    _snapshot(log, OffsetAndEpoch(1, 1), timestamp_ms=99)
    assert log.create_snapshot(OffsetAndEpoch(1, 1)) is None
    reader = RecordsSnapshotReader(log, OffsetAndEpoch(1, 1))
    assert [value for batch in reader.batches() for value in batch.values] == [b"everything"]
    assert reader.last_contained_log_timestamp == 99


def _begin_snapshot(log: KafkaMetadataLog, value: bytes, timestamp_ms: int) -> RecordsSnapshotWriter:
    raw = log.create_snapshot(OffsetAndEpoch(2, 1))
    assert raw is not None
    writer = RecordsSnapshotWriter(raw, timestamp_ms, 0, None)
    writer.append_values([value])
    return writer


def _what_it_says(log: KafkaMetadataLog) -> tuple[list[bytes], int]:
    reader = RecordsSnapshotReader(log, OffsetAndEpoch(2, 1))
    return [value for batch in reader.batches() for value in batch.values], reader.last_contained_log_timestamp


@pytest.fixture(params=["memory", "files"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileSystem, str]:
    """A file system, and a directory on it."""
    return (_filesystem(), "/data") if request.param == "memory" else (OsFileSystem(), str(tmp_path))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_that_write_the_same_snapshot_do_not_meet(storage: tuple[FileSystem, str], order: tuple[int, int]) -> None:
    """A name says that a snapshot is whole, and who reads it in parts gets the parts of one."""
    filesystem, directory = storage
    log = KafkaMetadataLog(filesystem, directory, {}, 0)
    writers = [_begin_snapshot(log, b"first" * 50, 7), _begin_snapshot(log, b"second", 8)]
    done_at_once(writers[order[0]].freeze())
    size, said = log.snapshot_size(OffsetAndEpoch(2, 1)), _what_it_says(log)
    assert said == [([b"first" * 50], 7), ([b"second"], 8)][order[0]]
    done_at_once(writers[order[1]].freeze())
    assert (log.snapshot_size(OffsetAndEpoch(2, 1)), _what_it_says(log)) == (size, said)
    found = KafkaMetadataLog(filesystem, directory, {}, 0)
    assert (found.snapshot_size(OffsetAndEpoch(2, 1)), _what_it_says(found)) == (size, said)


def test_one_that_gives_a_snapshot_up_leaves_that_of_another_alone(storage: tuple[FileSystem, str]) -> None:
    filesystem, directory = storage
    log = KafkaMetadataLog(filesystem, directory, {}, 0)
    writer, other = _begin_snapshot(log, b"first", 7), _begin_snapshot(log, b"second", 8)
    other.close()
    done_at_once(writer.freeze())
    assert _what_it_says(log) == ([b"first"], 7)
    assert not [entry.name for entry in filesystem.list_directory(log.directory) if entry.name.endswith(".part")]


def test_a_snapshot_that_is_not_whole_is_not_read_as_one_that_says_little() -> None:
    """An empty file would be a cluster without anything in it."""
    for keep in (0, 1):
        filesystem = _filesystem()
        log = _open(filesystem)
        _snapshot(log, OffsetAndEpoch(2, 1))
        path = f"{_DIRECTORY}/{snapshot_file_name(OffsetAndEpoch(2, 1))}"
        whole = filesystem.read(path)
        filesystem.replace(path, whole[: keep * scan_batches(whole)[-1].position], sync=True)
        with pytest.raises(CorruptRecordError, match="has no end"):
            _what_it_says(_open(filesystem))


def test_the_log_begins_behind_a_snapshot_that_is_ahead_of_it() -> None:
    filesystem = _filesystem()
    log = _open(filesystem)
    _append(log, 1, b"a", b"b")
    _snapshot(log, OffsetAndEpoch(10, 3))
    assert done_at_once(log.truncate_to_latest_snapshot())
    assert (log.start_offset, log.end_offset, log.last_fetched_epoch) == (10, 10, 3)
    assert not done_at_once(log.truncate_to_latest_snapshot())
    filesystem.power_loss()
    found = _open(filesystem)
    assert (found.start_offset, found.end_offset, found.last_fetched_epoch) == (10, 10, 3)


def test_a_power_loss_between_snapshot_and_truncation_is_made_good_at_the_start() -> None:
    filesystem = _filesystem()
    log = _open(filesystem)
    _append(log, 1, b"a", b"b")
    done_at_once(log.flush())
    _snapshot(log, OffsetAndEpoch(10, 3))
    filesystem.power_loss()
    found = _open(filesystem)
    assert (found.start_offset, found.end_offset, found.last_fetched_epoch) == (10, 10, 3)


def test_an_old_snapshot_that_a_power_loss_has_brought_back_is_dropped_again() -> None:
    """With it a follower at the start of the log would be sent the newest snapshot for ever."""
    filesystem = _filesystem()
    log = _open(filesystem)
    _snapshot(log, OffsetAndEpoch(10, 3))
    done_at_once(log.truncate_to_latest_snapshot())
    done_at_once(log.flush())
    filesystem.replace(f"{_DIRECTORY}/00000000000000000005-0000000001.checkpoint", b"old", sync=True)
    found = _open(filesystem)
    assert found.earliest_snapshot_id == (10, 3)
    assert validate_offset_and_epoch(found, 10, 3).is_valid


def test_what_is_committed_is_not_truncated() -> None:
    log = _open(_filesystem())
    _append(log, 1, b"a", b"b")
    _append(log, 1, b"c")
    log.update_high_watermark(2)
    done_at_once(log.truncate_to(2))
    assert log.end_offset == 2
    with pytest.raises(ValueError, match="committed to 2"):
        done_at_once(log.truncate_to(1))


def test_old_snapshots_go_by_age_and_the_log_before_the_next_with_them() -> None:
    filesystem = _filesystem()
    log = _open(filesystem, metadata_log_segment_bytes=200)
    for number in range(20):
        _append(log, 1, b"%d" % number * 20)
    done_at_once(log.flush())
    log.update_high_watermark(20)
    _snapshot(log, OffsetAndEpoch(5, 1), timestamp_ms=1_000)
    _snapshot(log, OffsetAndEpoch(10, 1), timestamp_ms=2_000)
    log.clean(1_500 + 604_800_000)
    assert log.earliest_snapshot_id == (10, 1)
    assert log.start_offset == 10
    assert "00000000000000000000.log" not in _names(filesystem)


def test_the_last_snapshot_stays_however_large_the_log_is() -> None:
    log = _open(_filesystem(), metadata_max_retention_bytes=1)
    _append(log, 1, b"a")
    log.update_high_watermark(1)
    _snapshot(log, OffsetAndEpoch(1, 1))
    log.clean(0)
    assert log.latest_snapshot_id == (1, 1)


def test_a_disk_that_fails_raises_a_storage_error() -> None:
    filesystem = _filesystem()
    store = FileQuorumStateStore(filesystem, "/nowhere")
    assert store.read() is None
    with pytest.raises(KafkaStorageError, match="quorum-state"):
        done_at_once(store.write(b"{}"))
