"""Reading and searching by time give what a plain list of records would."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.log.log_manager import LogManager
from barnabas.broker.log.memory_filesystem import MemoryFileSystem
from barnabas.errors import OffsetOutOfRangeError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.records import RecordBatchBuilder, read_batches
from tests.support.sole_replica import append

NOW = 1_700_000_000_000

batches = st.lists(
    st.tuples(
        st.lists(st.integers(-1, 300), min_size=1, max_size=5), st.integers(0, 120), st.sampled_from(["none", "gzip"])
    ),
    max_size=30,
)


@settings(max_examples=120, deadline=None)
@given(batches, st.integers(0, 300), st.integers(200, 3000), st.integers(1, 2000), st.booleans())
def test_a_log_reads_like_a_list(
    plan: list[tuple[list[int], int, str]], interval: int, segment_bytes: int, max_bytes: int, reopen: bool
) -> None:
    disk = MemoryFileSystem(Random(0))
    manager = LogManager("/data", disk, {"index.interval.bytes": interval, "segment.bytes": max(segment_bytes, 900)})
    manager.start()
    name = TopicPartition("t", 0)
    log = manager.create_log(name)
    model: list[tuple[int, bytes]] = []
    for times, size, codec in plan:
        builder = RecordBatchBuilder(1 << 20, codec)
        for at, time in enumerate(times):
            value = str(len(model) + at).encode().ljust(size, b" ")
            builder.try_append(NOW + time if time >= 0 else -1, None, value, [])
        info = append(log, builder.close(), now_ms=NOW)
        assert (info.first_offset, info.record_count) == (len(model), len(times))
        model += [(NOW + time if time >= 0 else -1, b"") for time in times]
    if reopen:
        manager.close()
        manager = LogManager(
            "/data", disk, {"index.interval.bytes": interval, "segment.bytes": max(segment_bytes, 900)}
        )
        manager.start()
        found = manager.get_log(name)
        assert found is not None
        log = found

    for offset in range(len(model)):
        info = log.read(offset, max_bytes)
        first = next(iter(read_batches(info.records)))
        assert first.base_offset <= offset <= first.last_offset
        assert len(info.records) <= max(max_bytes, first.size_in_bytes)
        for batch in read_batches(info.records):
            for record in batch:
                assert int(record.value) == record.offset
    assert log.read(len(model), max_bytes).records == b""
    with pytest.raises(OffsetOutOfRangeError):
        log.read(len(model) + 1, max_bytes)
    for time in range(NOW - 1, NOW + 302, 25):
        expected = next(((at, stamp) for at, (stamp, _) in enumerate(model) if stamp >= time), None)
        searched = log.offset_for_timestamp(time)
        assert (None if searched is None else (searched.offset, searched.timestamp)) == expected
    stamps = [stamp for stamp, _ in model]
    largest = log.offset_of_max_timestamp()
    if stamps and max(stamps) >= 0:
        assert largest is not None
        assert (largest.offset, largest.timestamp) == (stamps.index(max(stamps)), max(stamps))
    else:
        assert largest is None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.integers(0, 80), st.integers(1, 400))
def test_nothing_at_or_beyond_the_bound_is_read(appends: int, bound: int, max_bytes: int) -> None:
    manager = LogManager("/data", MemoryFileSystem(Random(0)), {"segment.bytes": 500, "index.interval.bytes": 100})
    manager.start()
    log = manager.create_log(TopicPartition("t", 0))
    for _ in range(appends):
        builder = RecordBatchBuilder(1 << 20)
        builder.try_append(NOW, None, b"value", [])
        append(log, builder.close(), now_ms=NOW)

    seen = []
    offset = 0
    while records := log.read(offset, max_bytes, max_offset=bound).records:
        seen += [batch.base_offset for batch in read_batches(records)]
        offset = seen[-1] + 1

    assert seen == list(range(min(appends, bound)))


def test_a_batch_larger_than_allowed_is_left_unless_one_message_must_come() -> None:
    manager = LogManager("/data", MemoryFileSystem(Random(0)))
    manager.start()
    log = manager.create_log(TopicPartition("t", 0))
    builder = RecordBatchBuilder(1 << 20)
    builder.try_append(NOW, None, bytes(1000), [])
    append(log, builder.close(), now_ms=NOW)

    left = log.read(0, 100, min_one_message=False)
    whole = log.read(0, 100, min_one_message=True)

    assert (left.records, left.available) == (b"", 0)
    assert (len(whole.records), whole.available) == (log.size, log.size)
