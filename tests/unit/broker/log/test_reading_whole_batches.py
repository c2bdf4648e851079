"""A read gives whole batches, as bytes or as a region of the file, and says how much there was."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.log import file_records
from barnabas.broker.log.file_records import CorruptSegmentError, FileRecords
from barnabas.broker.log.filesystem import FileRegion
from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.broker.log.os_filesystem import WORTH_SENDING, OsFileSystem
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import CorruptRecordError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.sole_replica import append

NOW = 1_700_000_000_000


def batch(size: int, records: int = 1) -> bytes:
    builder = RecordBatchBuilder(1 << 24)
    for _ in range(records):
        builder.try_append(NOW, None, bytes(size), [])
    return builder.close()


def log_of(manager: LogManager, batches: list[bytes], **settings: int) -> UnifiedLog:
    manager.start()
    config = {name.replace("_", "."): value for name, value in settings.items()}
    log = manager.create_log(TopicPartition("t", 0), config=config)
    for data in batches:
        append(log, data, now_ms=NOW)
    return log


@given(
    st.lists(st.tuples(st.sampled_from([0, 10, 300, 2000, 9000]), st.integers(1, 3)), min_size=1, max_size=40),
    st.sampled_from([0, 100, 4096, 1 << 20]),
    st.lists(st.tuples(st.integers(0, 120), st.sampled_from([0, 1, 70, 500, 2500, 20_000])), min_size=1, max_size=10),
    st.booleans(),
)
def test_a_read_ends_with_the_last_batch_within_the_limit(
    sizes: list[tuple[int, int]], interval: int, reads: list[tuple[int, int]], min_one_message: bool
) -> None:
    batches = [batch(size, records) for size, records in sizes]
    log = log_of(LogManager("/data", MemoryFileSystem(random.Random(0))), batches, index_interval_bytes=interval)
    for wanted, limit in reads:
        offset = wanted % log.log_end_offset
        found = log.read(offset, limit, min_one_message=min_one_message)

        first, at = 0, 0
        while at + sizes[first][1] <= offset:
            at += sizes[first][1]
            first += 1
        lengths = [len(data) for data in batches[first:]]
        fitting = max(number for number in range(len(lengths) + 1) if sum(lengths[:number]) <= limit)
        came = max(fitting, 1) if min_one_message else fitting
        assert [(one.base_offset, one.record_count) for one in read_batches(found.records)] == [
            (at + sum(records for _, records in sizes[first : first + number]), sizes[first + number][1])
            for number in range(came)
        ]
        assert len(found.records) == sum(lengths[:came])
        assert found.available == (max(min(limit, sum(lengths)), len(found.records)) if came else 0)


def test_much_that_is_to_be_sent_stays_in_the_file(tmp_path: Path) -> None:
    manager = LogManager(str(tmp_path), OsFileSystem())
    log = log_of(manager, [batch(30_000) for _ in range(10)])
    for limit in (100, WORTH_SENDING - 1, WORTH_SENDING * 2, 200_000, 1 << 20):
        expected = log.read(2, limit)
        found = log.read(2, limit, to_send=True)
        assert isinstance(expected.records, bytes)
        if len(expected.records) < WORTH_SENDING:
            assert found == expected
        else:
            assert isinstance(found.records, FileRegion)
            assert found.records.read() == expected.records
            assert found.available == expected.available
    manager.close()


@contextmanager
def region(path: Path, size: int, at: int, length: int) -> Iterator[tuple[FileRegion, bytes]]:
    """A region of a new file, and what is in it."""
    content = random.Random(1).randbytes(size)
    path.write_bytes(content)
    file = OsFileSystem().open(str(path))
    found = file.region(length, at)
    assert isinstance(found, FileRegion)
    yield found, content[at : at + length]
    file.close()


def test_a_socket_gets_as_much_of_a_region_as_it_has_room_for(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    with region(tmp_path / "f", 9_000_000, 1000, 8_000_000) as (found, content), here, there:
        here.setblocking(False)
        sent = found.send(here.fileno())
        assert 0 < sent < len(content)
        assert found.send(here.fileno()) == 0
        here.close()
        taken = b"".join(iter(lambda: there.recv(1 << 20), b""))
        assert taken + found.read(sent) == content


def test_a_region_of_a_file_that_was_cut_is_an_error(tmp_path: Path) -> None:
    with region(tmp_path / "f", 200_000, 0, 200_000) as (found, _):
        (tmp_path / "f").write_bytes(bytes(1000))
        with pytest.raises(OSError, match="shorter than 200000 bytes"):
            found.read()


def offsets_before_damage(records: bytes | FileRegion) -> list[int]:
    """What a consumer hands out before it finds the damage."""
    found = []
    with contextlib.suppress(CorruptRecordError):
        for one in read_batches(records):
            found.append(one.base_offset)
    return found


@pytest.mark.parametrize("claim", [0, 13, 1 << 20, 0x80000000, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [300, 30_000])
class TestADamagedSizeField:
    """The size in a batch's head is too small for any batch, or larger than what is left of the segment.

    A size below the smallest is CORRUPT_MESSAGE in Apache Kafka too; of one that is too large it takes the segment to
    end there, and goes on with the next one, without a word on the records in between.
    """

    @staticmethod
    @contextmanager
    def damaged_log(directory: Path, size: int, claim: int) -> Iterator[tuple[UnifiedLog, str]]:
        """Twenty batches, an index entry for every second, the size of the one at offset 10 replaced; its place."""
        data = batch(size)
        manager = LogManager(str(directory), OsFileSystem())
        log = log_of(manager, [data] * 20, index_interval_bytes=len(data))
        log.local_log.segments.active.records.file.pwrite(claim.to_bytes(4, "big"), 10 * len(data) + 8)
        try:
            yield log, f"at byte {10 * len(data)} of {20 * len(data)}:"
        finally:
            manager.close()

    @pytest.mark.parametrize("batches", [0.1, 2.5, 100])
    def test_is_an_error_to_a_read_that_begins_there(
        self, tmp_path: Path, size: int, claim: int, batches: float
    ) -> None:
        with self.damaged_log(tmp_path, size, claim) as (log, place):
            limit = int(batches * size)
            with pytest.raises(CorruptRecordError, match=place):  # whose position is remembered from the append
                log.read(10, limit, to_send=True)
            log.local_log.segments.active.release()
            with pytest.raises(CorruptRecordError, match=place):
                log.read(10, limit, to_send=True)

    def test_is_an_error_to_a_reader_that_comes_to_it(self, tmp_path: Path, size: int, claim: int) -> None:
        with self.damaged_log(tmp_path, size, claim) as (log, place):
            log.local_log.segments.active.release()
            offset = 0
            while offset < 10:
                found = offsets_before_damage(log.read(offset, 3 * size + 300).records)
                assert found == [*range(offset, min(offset + 3, 10))]
                offset = found[-1] + 1
            with pytest.raises(CorruptRecordError, match=place):
                log.read(offset, 3 * size + 300)

    def test_does_not_hide_what_stands_behind_it(self, tmp_path: Path, size: int, claim: int) -> None:
        with self.damaged_log(tmp_path, size, claim) as (log, _):
            for _ in range(2):
                found = [one.base_offset for one in read_batches(log.read(14, 100 * size).records)]
                assert found == [*range(14, 20)]
                log.local_log.segments.active.release()


@pytest.mark.parametrize("claim", [0, 13, 1 << 20, 0x80000000, 0xFFFFFFFF])
def test_a_damaged_size_field_ends_a_scan_of_more_than_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, claim: int
) -> None:
    monkeypatch.setattr(file_records, "SCAN_CHUNK", 700)
    data = batch(300)
    disk = MemoryFileSystem(random.Random(0))
    disk.create("/log")
    records = FileRecords(disk, "/log", 0)
    records.append(data[:8] + claim.to_bytes(4, "big") + data[12:] + data)
    with pytest.raises(CorruptSegmentError, match="at byte 0 of 740"):
        list(records.batches(0, check=True))
    assert records.next_sound_batch(0) == len(data)
