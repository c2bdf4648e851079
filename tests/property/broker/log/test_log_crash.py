"""Whatever ends the process or the power, the log comes back with every record that it promised to keep."""

from __future__ import annotations

import random
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem, ProcessDiedError
from barnabas.broker.log.unified_log import UnifiedLog
from barnabas.errors import CorruptRecordError, KafkaStorageError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.sole_replica import append

NAME = TopicPartition("topic", 0)
SETTINGS = {"segment.bytes": 1500, "index.interval.bytes": 100}
NOW = 1_700_000_000_000

appends = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 300)), min_size=1, max_size=25)


class Producers:
    """Three producers that number their records, and what the log has acknowledged of them."""

    def __init__(self) -> None:
        self.sequences = [0, 0, 0]
        self.acknowledged: list[bytes] = []

    def append(self, log: UnifiedLog, producer: int, count: int, size: int) -> None:
        values = [f"{producer}/{self.sequences[producer] + at}/".encode().ljust(size, b".") for at in range(count)]
        builder = RecordBatchBuilder(1 << 20)
        for at, value in enumerate(values):
            builder.try_append(NOW + len(self.acknowledged) + at, None, value, [])
        builder.set_producer_state(producer, 0, self.sequences[producer])
        info = append(log, builder.close(), now_ms=NOW)
        assert not info.duplicate
        self.sequences[producer] += count
        self.acknowledged += values


def values_of(log: UnifiedLog) -> list[bytes]:
    found: list[bytes] = []
    offset = log.log_start_offset
    while data := log.read(offset, 700).records:
        for batch in read_batches(data):
            found += [record.value for record in batch if record.offset >= offset]
        offset = log.log_start_offset + len(found)
    assert offset == log.log_end_offset
    return found


def started(disk: MemoryFileSystem) -> LogManager:
    manager = LogManager("/data", disk, SETTINGS, random_bytes=disk.random.randbytes)
    manager.start(now_ms=NOW)
    return manager


def log_of(manager: LogManager) -> UnifiedLog:
    return manager.get_log(NAME) or manager.create_log(NAME, bytes(16))


def check_survivors(log: UnifiedLog, producers: Producers, least: int) -> None:
    """At least so many acknowledged records are there, in order; at most one append more than was acknowledged."""
    survivors = values_of(log)
    known = producers.acknowledged[: len(survivors)]
    assert survivors[: len(known)] == known
    assert len(survivors) >= least
    assert len(survivors) <= len(producers.acknowledged) + 4


@settings(max_examples=150, deadline=None)
@given(appends, st.integers(0, 200), st.integers(0, 2**32))
def test_a_process_killed_at_any_operation_loses_nothing_acknowledged(
    plan: list[tuple[int, int, int]], die_after: int, seed: int
) -> None:
    disk = MemoryFileSystem(Random(seed))
    producers = Producers()
    disk.die_after = die_after
    try:
        manager = started(disk)
        log = log_of(manager)
        for step in plan:
            producers.append(log, *step)
            manager.step(1, NOW)
        manager.close()
    except ProcessDiedError:
        pass
    disk.crash()

    manager = started(disk)
    log = log_of(manager)

    check_survivors(log, producers, len(producers.acknowledged))
    written = len(values_of(log))
    more = Producers()
    more.sequences = [log.producer_state.producers[at].last_sequence + 1 if at in log.producer_state.producers else 0
                      for at in range(3)]  # fmt: skip
    more.append(log, 0, 1, 10)
    manager.close()
    assert len(values_of(log_of(started(disk)))) == written + 1


@settings(max_examples=100, deadline=None)
@given(appends, appends, st.integers(0, 2**32))
def test_a_power_loss_takes_nothing_that_was_flushed(
    flushed: list[tuple[int, int, int]], unflushed: list[tuple[int, int, int]], seed: int
) -> None:
    disk = MemoryFileSystem(Random(seed))
    producers = Producers()
    manager = started(disk)
    log = log_of(manager)
    for step in flushed:
        producers.append(log, *step)
    log.flush()
    safe = len(producers.acknowledged)
    for step in unflushed:
        producers.append(log, *step)
        manager.step(1, NOW)
    disk.power_loss()

    check_survivors(log_of(started(disk)), producers, safe)


@settings(max_examples=100, deadline=None)
@given(appends, st.integers(0, 2**32), st.sampled_from(["cut", "garbage", "zeros", "flip"]), st.data())
def test_a_damaged_tail_is_cut_and_the_rest_served(
    plan: list[tuple[int, int, int]], seed: int, damage: str, data: st.DataObject
) -> None:
    disk = MemoryFileSystem(Random(seed))
    producers = Producers()
    log = log_of(started(disk))
    for step in plan[:-1]:
        producers.append(log, *step)
    safe = len(producers.acknowledged)
    active = log.local_log.segments.active
    before = active.size
    producers.append(log, *plan[-1])
    if log.local_log.segments.active is not active:
        active, before = log.local_log.segments.active, 0
    content = disk.inode(active.records.path).data
    at = data.draw(st.integers(before, len(content) - 1))
    if damage == "cut":
        del content[at:]
    elif damage == "flip":
        # The checksum does not cover a batch's offset (8 bytes): as in Apache Kafka a damaged one reads as a gap.
        at = max(at, before + 8)
        content[at] ^= data.draw(st.integers(1, 255))
    else:
        content += bytes(100) if damage == "zeros" else random.Random(seed).randbytes(100)
        safe = len(producers.acknowledged)
    disk.crash()

    check_survivors(log_of(started(disk)), producers, safe)


@settings(max_examples=60, deadline=None)
@given(appends, st.integers(0, 2**32), st.booleans(), st.sampled_from(["missing", "garbage", "short", "empty", "long"]))
def test_indexes_that_are_missing_or_damaged_are_made_anew(
    plan: list[tuple[int, int, int]], seed: int, clean: bool, damage: str
) -> None:
    disk = MemoryFileSystem(Random(seed))
    producers = Producers()
    manager = started(disk)
    log = log_of(manager)
    for step in plan:
        producers.append(log, *step)
    expected = [log.offset_for_timestamp(NOW + at) for at in range(0, len(producers.acknowledged), 3)]
    if clean:
        manager.close()
    disk.crash()
    for entry in disk.list_directory("/data/topic-0"):
        if entry.name.endswith(("index", "timeindex")):
            path = f"/data/topic-0/{entry.name}"
            content = disk.inode(path).data
            if damage == "missing":
                disk.remove(path)
            elif damage == "garbage":
                content[:] = disk.random.randbytes(len(content))
            elif damage == "short":
                del content[len(content) // 2 + 1 :]
            elif damage == "empty":
                content.clear()
            else:
                content += bytes(24)

    log = log_of(started(disk))

    assert values_of(log) == producers.acknowledged
    if damage != "short" or not clean:
        assert [log.offset_for_timestamp(NOW + at) for at in range(0, len(producers.acknowledged), 3)] == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(appends, st.integers(500, 6000), st.integers(0, 2**32))
def test_a_full_disk_refuses_appends_and_nothing_else(
    plan: list[tuple[int, int, int]], capacity: int, seed: int
) -> None:
    disk = MemoryFileSystem(Random(seed))
    manager = started(disk)
    log = log_of(manager)
    producers = Producers()
    disk.capacity = capacity
    for step in plan:
        try:
            producers.append(log, *step)
        except KafkaStorageError:
            assert values_of(log) == producers.acknowledged
    disk.capacity = None
    producers.append(log, 0, 2, 100)
    assert values_of(log) == producers.acknowledged
    disk.crash()

    assert values_of(log_of(started(disk))) == producers.acknowledged


def test_a_write_that_cannot_be_taken_back_puts_the_log_offline() -> None:
    disk = MemoryFileSystem(Random(1))
    manager = started(disk)
    log = log_of(manager)
    producers = Producers()
    producers.append(log, 0, 1, 10)
    disk.capacity = log.size + 150
    disk.fail = lambda operation, _path: OSError(5, "broken") if operation == "truncate" else None
    with pytest.raises(KafkaStorageError, match="taking it back"):
        producers.append(log, 0, 1, 100)
    disk.fail = disk.capacity = None

    with pytest.raises(KafkaStorageError, match="offline"):
        producers.append(log, 0, 1, 10)
    manager.close()
    manager = started(disk)
    assert not manager.had_clean_shutdown
    assert values_of(log_of(manager)) == producers.acknowledged


def test_a_damaged_batch_in_a_flushed_segment_is_reported_to_its_reader() -> None:
    disk = MemoryFileSystem(Random(1))
    manager = started(disk)
    log = log_of(manager)
    producers = Producers()
    for _ in range(30):
        producers.append(log, 0, 1, 200)
    manager.close()
    disk.inode("/data/topic-0/00000000000000000000.log").data[300:400] = b"\xff" * 100

    log = log_of(started(disk))

    assert log.log_end_offset == 30
    with pytest.raises(CorruptRecordError):
        values_of(log)
    assert log.read(25, 100).records
