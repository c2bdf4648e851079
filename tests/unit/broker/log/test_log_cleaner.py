"""What compaction keeps, what it drops, when it begins and what it leaves behind."""

from __future__ import annotations

import logging
from random import Random
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.log.append_origin import COORDINATOR
from barnabas.broker.log.cleanable_offsets import log_to_clean
from barnabas.broker.log.filesystem import File
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.log_retention import delete_old_segments
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.offset_map import SkimpyOffsetMap
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.protocol.kinds import ControlRecordType, IsolationLevel
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from barnabas.records.batch_header import HEADER_SIZE
from barnabas.records.control_record import EndTxnMarker, build_end_txn_marker
from barnabas.records.record_batch import RecordBatch
from tests.support.sole_replica import append

ABORT, COMMIT = ControlRecordType

NOW = 1_700_000_000_000
NAME = TopicPartition("t", 0)
SETTINGS: dict[str, object] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0,
    "delete.retention.ms": 1000,
    "log.cleaner.backoff.ms": 0,
}
Pair = tuple[bytes, bytes | None]


class Bench:
    """One log, and a cleaner that is run by hand."""

    def __init__(self, **settings: object) -> None:
        self.disk = MemoryFileSystem(Random(0))
        self.settings = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        self.now_ms = NOW
        self.open()

    def open(self) -> None:
        self.manager = LogManager("/data", self.disk, self.settings, random_bytes=self.disk.random.randbytes)
        self.manager.start(now_ms=self.now_ms)
        self.log: UnifiedLog = self.manager.get_log(NAME) or self.manager.create_log(NAME, bytes(16))

    def write(
        self,
        *pairs: Pair,
        codec: str = "none",
        producer: tuple[int, int, int] | None = None,
        transactional: bool = False,
        timestamp: int = -1,
    ) -> int:
        builder = RecordBatchBuilder(1 << 20, codec)
        for key, value in pairs:
            builder.try_append(self.now_ms if timestamp < 0 else timestamp, key, value, [("h", b"1")])
        if producer is not None:
            builder.set_producer_state(*producer, transactional=transactional)
        return append(self.log, builder.close(), now_ms=self.now_ms).first_offset

    def end(self, producer_id: int, control_type: int) -> int:
        marker = EndTxnMarker(control_type, 0)
        data = build_end_txn_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=self.now_ms)
        return append(self.log, data, now_ms=self.now_ms, origin=COORDINATOR).first_offset

    def clean(self, *, roll: bool = True) -> int:
        """Clean the log once, if it is due; how often it was cleaned since it was opened."""
        if roll:
            self.log.roll()
        while self.manager.step(10, self.now_ms):
            if self.manager.cleaner.cleanings and not self.log.being_cleaned:
                break
        return self.manager.cleaner.cleanings

    def batches(self) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.log.log_start_offset
        while data := self.log.read(offset, 1 << 20).records:
            found += read_batches(data)
            offset = found[-1].next_offset
        return found

    def markers(self) -> list[int]:
        """The offsets of the transaction markers that are left."""
        return [batch.base_offset for batch in self.batches() if batch.is_control and batch.record_count]

    def names(self, suffix: str) -> list[str]:
        return [entry.name for entry in self.disk.list_directory(self.log.directory) if entry.name.endswith(suffix)]

    def records(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {record.offset: (record.key, record.value) for batch in self.batches() for record in batch}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_latest_record_of_each_key_stays_as_it_was(codec: str) -> None:
    bench = Bench()
    bench.write((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), codec=codec, timestamp=NOW - 5)
    bench.write((b"c", b"4"), (b"b", b"5"), codec=codec, timestamp=NOW - 3)
    bench.clean()
    assert bench.records() == {2: (b"a", b"3"), 3: (b"c", b"4"), 4: (b"b", b"5")}
    first = bench.batches()[0]
    assert (first.base_offset, first.last_offset, first.record_count, first.compression) == (0, 2, 1, codec)
    first.check()
    (record,) = first
    assert (record.timestamp, record.headers) == (NOW - 5, [("h", b"1")])


def test_what_was_replaced_goes_when_the_disk_has_the_new_names_and_no_step_waits_for_it() -> None:
    bench = Bench()
    bench.write((b"a", b"1"))
    bench.log.roll()
    bench.write((b"a", b"2"))
    flushes: list[Any] = []

    def begin(files: list[File], directories: list[str]) -> Any:
        flushes.append(bench.disk.prepare_sync(files, directories))
        return flushes[-1]

    bench.disk.sync_in_background = begin  # type: ignore[method-assign]
    bench.clean()
    assert (len(flushes), bench.manager.cleaner.cleanings) == (1, 0)
    flushes[0].run()
    bench.disk.sync_directory = None  # type: ignore[assignment]  # no step may wait for it
    bench.clean(roll=False)
    assert (len(flushes), bench.names(".log")) == (2, [f"{0:020}.log", f"{2:020}.log"])
    assert bench.manager.cleaner._cleaner.deletable == []
    del bench.disk.sync_directory
    flushes[1].run()
    bench.clean(roll=False)
    assert bench.manager.cleaner.cleanings == 1


def test_a_batch_of_which_all_is_kept_keeps_its_bytes() -> None:
    bench = Bench()
    bench.write((b"a", b"1"), (b"b", b"2"), codec="zstd")
    before = bench.log.read(0, 1000).records
    bench.write((b"c", b"1"))
    bench.clean()
    assert bench.log.read(0, 1000).records.startswith(before)


def test_the_active_segment_is_left_alone() -> None:
    bench = Bench()
    bench.write((b"a", b"1"))
    bench.write((b"a", b"2"))
    assert bench.clean(roll=False) == 0
    assert len(bench.records()) == 2


def test_records_without_a_key_go() -> None:
    bench = Bench(cleanup_policy="delete")
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(NOW, None, b"from before the topic was compacted")
    append(bench.log, builder.close(), now_ms=NOW)
    bench.write((b"a", b"1"))
    bench.manager.update_topic_config("t", SETTINGS)
    bench.clean()
    assert list(bench.records()) == [1]


class TestTombstones:
    def test_they_wait_for_delete_retention_and_then_go(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"), (b"a", None), (b"b", b"2"))
        bench.clean()
        assert list(bench.records()) == [1, 2]
        (batch,) = bench.batches()
        assert batch.delete_horizon_ms == NOW + 1000
        assert [record.timestamp for record in batch] == [NOW, NOW]
        for now_ms, kept in ((NOW + 999, [1, 2, 3]), (NOW + 1000, [2, 4])):
            bench.now_ms = now_ms
            bench.write((b"c", b"3"))
            bench.manager.cleaner.cleanings = 0
            bench.clean()
            assert list(bench.records()) == kept

    def test_with_log_append_time_the_horizon_hides_no_timestamp(self) -> None:
        bench = Bench(message_timestamp_type="LogAppendTime")
        bench.write((b"a", None), (b"b", b"2"))
        bench.clean()
        (batch,) = bench.batches()
        assert batch.delete_horizon_ms == NOW + 1000
        assert [record.timestamp for record in batch] == [NOW, NOW]


class TestProducers:
    def test_the_last_batch_of_each_is_kept_though_empty(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"), producer=(7, 0, 0))
        bench.write((b"a", b"2"), producer=(7, 0, 1))
        bench.write((b"a", b"3"), producer=(8, 0, 0))
        bench.write((b"a", b"4"))
        bench.clean()
        assert list(bench.records()) == [3]
        assert [(b.base_offset, b.producer_id, b.last_sequence, b.record_count) for b in bench.batches()] == [
            (1, 7, 1, 0),
            (2, 8, 0, 0),
            (3, -1, -1, 1),
        ]
        assert bench.batches()[0].size_in_bytes == HEADER_SIZE

    def test_so_repetitions_are_known_after_a_recovery(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"), (b"b", b"1"), producer=(7, 0, 0))
        bench.write((b"a", b"2"), (b"b", b"2"))
        bench.clean()
        for entry in bench.disk.list_directory(bench.log.directory):
            if entry.name.endswith(".snapshot"):
                bench.disk.remove(f"{bench.log.directory}/{entry.name}")
        bench.disk.remove("/data/recovery-point-offset-checkpoint")
        bench.disk.crash()
        bench.open()
        assert bench.write((b"a", b"1"), (b"b", b"1"), producer=(7, 0, 0)) == 0
        assert bench.log.log_end_offset == 4
        assert bench.write((b"a", b"3"), producer=(7, 0, 2)) == 4


class TestTransactions:
    def test_aborted_records_go_and_neither_replace_nor_delete(self) -> None:
        bench = Bench()
        bench.write((b"a", b"kept"))
        bench.write((b"a", b"aborted"), (b"b", b"aborted"), producer=(7, 0, 0), transactional=True)
        bench.end(7, ABORT)
        bench.write((b"c", b"1"))
        bench.clean()
        data = [record.value for batch in bench.batches() if not batch.is_control for record in batch]
        assert data == [b"kept", b"1"]

    def test_a_marker_stays_until_its_records_are_gone_and_the_horizon_has_passed(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"), producer=(7, 0, 0), transactional=True)
        bench.end(7, COMMIT)
        bench.write((b"a", b"2"), producer=(7, 0, 1), transactional=True)
        bench.end(7, COMMIT)
        bench.write((b"b", b"1"))
        bench.clean()
        assert bench.markers() == [1, 3]
        for now_ms, expected in ((NOW, [1, 3]), (NOW + 999, [1, 3]), (NOW + 1001, [3])):
            bench.now_ms = now_ms
            bench.write((b"b", b"2"))
            bench.manager.cleaner.cleanings = 0
            bench.clean()
            assert bench.markers() == expected

    def test_nothing_beyond_the_last_stable_offset_is_touched(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"))
        bench.write((b"a", b"2"))
        bench.log.roll()
        bench.write((b"a", b"3"), producer=(7, 0, 0), transactional=True)
        bench.write((b"a", b"4"))
        bench.write((b"a", b"5"))
        bench.clean()
        assert list(bench.records()) == [1, 2, 3, 4]
        bench.end(7, COMMIT)
        bench.manager.cleaner.cleanings = 0
        bench.clean()
        assert [value for _, value in bench.records().values()][:-1] == [b"5"]

    def test_readers_of_committed_records_see_none_of_what_was_aborted(self) -> None:
        bench = Bench()
        bench.write((b"a", b"x"), producer=(7, 0, 0), transactional=True)
        bench.end(7, ABORT)
        bench.write((b"a", b"1"), producer=(7, 0, 1), transactional=True)
        bench.end(7, COMMIT)
        bench.clean()
        info = bench.log.read(0, 1000, isolation=IsolationLevel.READ_COMMITTED)
        assert [(one.producer_id, one.first_offset) for one in info.aborted_transactions or []] == [(7, 0)]
        assert [r.value for b in read_batches(info.records) if not b.is_control for r in b] == [b"1"]


class TestWhenToClean:
    def test_the_dirty_part_must_be_large_enough(self) -> None:
        bench = Bench(min_cleanable_dirty_ratio=0.5)
        for at in range(20):
            bench.write((b"%d" % at, b"1"))
        assert bench.clean() == 1
        bench.write((b"0", b"2"))
        bench.log.roll()
        target = log_to_clean(bench.log, bench.manager.cleaner.manager.first_dirty_offset(bench.log), NOW)
        assert 0 < target.cleanable_ratio < 0.1
        assert not target.is_due

    def test_young_records_are_left_alone(self) -> None:
        bench = Bench(min_compaction_lag_ms=1000)
        bench.write((b"a", b"1"))
        bench.write((b"a", b"2"))
        assert bench.clean() == 0
        bench.now_ms += 1000
        assert bench.clean() == 1

    def test_records_that_wait_for_too_long_are_cleaned_however_few(self) -> None:
        bench = Bench(min_cleanable_dirty_ratio=1, max_compaction_lag_ms=1000)
        bench.write((b"a", b"1"))
        bench.write((b"a", b"2"))
        bench.log.roll()
        assert not log_to_clean(bench.log, 0, NOW + 1000).is_due
        assert log_to_clean(bench.log, 0, NOW + 1001).is_due

    def test_the_dirtiest_log_comes_first(self) -> None:
        bench = Bench()
        other = bench.manager.create_log(TopicPartition("u", 0))
        for log in (bench.log, other):
            for at in range(10):
                bench.log = log
                bench.write((b"%d" % at, b"1"))
            log.roll()
        bench.manager.cleaner.manager.done(bench.manager.logs[NAME], 10)
        target = bench.manager.cleaner.manager.grab_filthiest_compacted_log(NOW)
        assert target is not None
        assert target.log is other

    def test_what_is_clean_is_remembered(self) -> None:
        bench = Bench()
        bench.write((b"a", b"1"))
        bench.clean()
        assert bench.disk.read("/data/cleaner-offset-checkpoint") == b"0\n1\nt 0 1\n"
        bench.manager.close()
        bench.open()
        assert bench.clean(roll=False) == 0

    def test_a_start_that_has_moved_on_is_where_cleaning_begins(self) -> None:
        bench = Bench(cleanup_policy="compact,delete")
        bench.write((b"a", b"1"))
        bench.clean()
        for at in range(3):
            bench.write((b"a", b"%d" % at))
        bench.log.increment_log_start_offset(3, "a test")
        assert bench.manager.cleaner.manager.first_dirty_offset(bench.log) == 3


class TestSegments:
    def test_small_ones_become_one(self) -> None:
        bench = Bench(segment_bytes=2000)
        for at in range(100):
            bench.write((b"%d" % (at % 5), bytes(50)))
        bench.clean()
        before = bench.log.number_of_segments
        bench.write((b"0", bytes(50)))
        bench.manager.cleaner.cleanings = 0
        bench.clean()
        # Their size before a cleaning decides, so it takes a second one.
        assert before > 5
        assert bench.log.number_of_segments == 2
        assert list(bench.records()) == [96, 97, 98, 99, 100]
        assert [bench.log.read(at, 1).records[:8] for at in (0, 50, 96)] == [(96).to_bytes(8, "big")] * 3

    def test_none_becomes_larger_than_segment_bytes(self) -> None:
        bench = Bench(segment_bytes=2000)
        for at in range(100):
            bench.write((b"%d" % at, bytes(50)))
        bench.clean()
        assert all(segment.size <= 2000 for segment in bench.log.local_log.segments)
        assert len(bench.records()) == 100

    def test_a_map_that_runs_full_leaves_the_rest_for_the_next_cleaning(self) -> None:
        bench = Bench(log_cleaner_dedupe_buffer_size=400)
        for at in range(100):
            bench.write((b"%d" % (at % 30), b"%d" % at))
        bench.log.roll()
        for _ in range(20):
            bench.manager.cleaner.cleanings = 0
            bench.clean(roll=False)
        assert list(bench.records()) == list(range(70, 100))

    def test_replaced_files_are_deleted_after_a_delay(self) -> None:
        bench = Bench(file_delete_delay_ms=5000)
        bench.write((b"a", b"1"))
        bench.write((b"a", b"2"))
        bench.clean()
        assert len(bench.names(".deleted")) == 3
        bench.now_ms += 5000
        while bench.manager.step(10, bench.now_ms):
            pass
        assert bench.names(".deleted") == []


class TestTrouble:
    def test_a_damaged_log_is_named_and_not_tried_again(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench()
        bench.write((b"a", b"1"))
        bench.write((b"a", b"2"))
        bench.log.roll()
        bench.disk.inode(f"{bench.log.directory}/{0:020d}.log").data[70] ^= 1
        with caplog.at_level(logging.ERROR):
            bench.clean()
            bench.clean()
        assert [record.message for record in caplog.records if "cannot be cleaned" in record.message] == [
            f"/data/t-0 cannot be cleaned and grows until the broker is restarted: /data/t-0/{0:020d}.log at byte 0 of "
            f"{bench.log.local_log.segments.first.size}: batch at offset 0 is damaged: its checksum says "
            + caplog.records[0].message.partition("checksum says ")[2]
        ]
        assert bench.manager.cleaner.uncleanable == [NAME]

    def test_a_full_disk_harms_nothing_and_is_tried_again_later(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench()
        for at in range(20):
            bench.write((b"%d" % at, bytes(100)))
        bench.log.roll()
        used = sum(entry.size for entry in bench.disk.list_directory(bench.log.directory))
        bench.disk.capacity = used + 500
        bench.clean()
        assert bench.manager.cleaner.cleanings == 0
        assert len(bench.records()) == 20
        assert not [e for e in bench.disk.list_directory(bench.log.directory) if e.name.endswith(".cleaned")]
        assert "the next try is in ten minutes" in caplog.text
        bench.disk.capacity = None
        bench.now_ms += 600_000
        assert bench.clean() == 1

    def test_a_log_that_is_deleted_meanwhile_is_forgotten(self, caplog: pytest.LogCaptureFixture) -> None:
        bench = Bench(log_cleaner_io_buffer_size=100)
        for at in range(20):
            bench.write((b"%d" % at, b"1"))
        bench.log.roll()
        for _ in range(25):
            bench.manager.step(10, NOW)
        assert bench.log.being_cleaned
        bench.manager.delete_log(NAME)
        bench.manager.create_log(NAME, bytes(16))
        while bench.manager.step(10, NOW):
            pass
        assert bench.manager.cleaner.uncleanable == []
        assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    def test_closing_breaks_a_cleaning_off(self) -> None:
        bench = Bench(log_cleaner_io_buffer_size=100)
        for at in range(20):
            bench.write((b"%d" % (at % 2), b"1"))
        bench.log.roll()
        for _ in range(30):
            bench.manager.step(10, NOW)
        assert bench.names(".cleaned")
        bench.manager.close()
        assert not bench.names(".cleaned")
        bench.open()
        bench.clean(roll=False)
        assert list(bench.records()) == [18, 19]

    def test_retention_waits_while_a_log_is_cleaned(self) -> None:
        bench = Bench(cleanup_policy="compact,delete", retention_ms=0, log_cleaner_io_buffer_size=100)
        for at in range(20):
            bench.write((b"%d" % at, b"1"))
        bench.log.roll()
        for _ in range(10):
            bench.manager.step(10, NOW)
        assert bench.log.being_cleaned
        assert delete_old_segments(bench.log, NOW + 10) == []
        bench.clean(roll=False)
        assert delete_old_segments(bench.log, NOW + 10)

    def test_no_more_is_read_in_a_second_than_allowed(self) -> None:
        bench = Bench(log_cleaner_io_buffer_size=200, log_cleaner_io_max_bytes_per_second=1000)
        for at in range(100):
            bench.write((b"%d" % at, b"1"))
        bench.log.roll()
        seconds = 0
        while not bench.manager.cleaner.cleanings:
            while bench.manager.step(10, bench.now_ms):
                pass
            bench.now_ms += 1000
            seconds += 1
        # Each of the two passes reads it all.
        assert seconds >= 2 * bench.log.size / 1200


def message(offset: int, key: bytes, value: bytes | None) -> bytes:
    """A message of magic 1."""
    body = b"\x01\x00" + NOW.to_bytes(8, "big") + len(key).to_bytes(4, "big") + key
    body += b"\xff\xff\xff\xff" if value is None else len(value).to_bytes(4, "big") + value
    body = crc32(body).to_bytes(4, "big") + body
    return offset.to_bytes(8, "big") + len(body).to_bytes(4, "big") + body


def test_messages_of_old_formats_become_batches_where_they_change() -> None:
    bench = Bench()
    bench.manager.close()
    data = message(0, b"a", b"1") + message(1, b"b", b"2") + message(2, b"a", None)
    bench.disk.replace(f"/data/t-0/{0:020d}.log", data, sync=True)
    for suffix in (".index", ".timeindex"):
        bench.disk.remove(f"/data/t-0/{0:020d}{suffix}")
    bench.open()
    bench.write((b"c", b"3"))
    bench.clean()
    assert bench.records() == {1: (b"b", b"2"), 2: (b"a", None), 3: (b"c", b"3")}
    assert [(batch.magic, batch.delete_horizon_ms) for batch in bench.batches()] == [
        (1, None),
        (2, NOW + 1000),
        (2, None),
    ]


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 1 << 60)), max_size=60))
def test_the_offset_map_is_a_dictionary(entries: list[tuple[bytes, int]]) -> None:
    offset_map = SkimpyOffsetMap(24 * 128, 100, b"salt")
    expected: dict[bytes, int] = {}
    for key, offset in entries:
        assert offset_map.put(key, offset)
        expected[key] = offset
    assert offset_map.size == len(expected)
    assert {key: offset_map.get(key) for key in expected} == expected
    assert offset_map.get(b"none of them") == -1


def test_the_offset_map_takes_no_more_keys_than_fit_in_its_memory() -> None:
    offset_map = SkimpyOffsetMap(24 * 64, 1 << 40, b"salt", 0.75)
    keys = [b"%d" % at for at in range(100)]
    assert [offset_map.put(key, 1) for key in keys] == [True] * 48 + [False] * 52
    assert offset_map.put(b"0", 2)
    assert (offset_map.memory, offset_map.size, offset_map.get(b"0")) == (24 * 64, 48, 2)
