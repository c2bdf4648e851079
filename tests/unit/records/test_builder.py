from __future__ import annotations

import pytest

from barnabas.errors import IllegalArgumentError, IllegalStateError, IllegalTypeError
from barnabas.records import RecordBatchBuilder, crc32c, read_batches, scan_batches, set_producer_state


def test_offset_deltas_count_from_zero() -> None:
    builder = RecordBatchBuilder(1000)

    assert [builder.try_append(5, b"k", b"v"), builder.try_append(6, None, None), builder.try_append(7, b"", b"")] == [
        0,
        1,
        2,
    ]
    assert builder.record_count == 3
    assert builder.max_timestamp == 7


@pytest.mark.shows("S3.34", breaks="barnabas.records.builder:RecordBatchBuilder.try_append")
def test_keeps_null_and_empty_apart_in_keys_values_and_headers() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, b"", [("empty", b""), ("null", None), ("", b"x"), ("empty", b"again")])
    builder.try_append(2, b"", None)

    first, second = next(read_batches(builder.close()))

    assert (first.key, first.value) == (None, b"")
    assert first.headers == [("empty", b""), ("null", None), ("", b"x"), ("empty", b"again")]
    assert (second.key, second.value, second.headers) == (b"", None, [])


def test_a_record_without_room_leaves_no_trace() -> None:
    builder = RecordBatchBuilder(200)
    builder.try_append(1, b"k", bytes(50))
    before = builder.estimated_size

    assert builder.try_append(99, b"k", bytes(100), [("h", b"v")]) == -1

    assert (builder.estimated_size, builder.record_count, builder.max_timestamp) == (before, 1, 1)
    assert builder.try_append(1, b"k", bytes(50)) == 1


def test_the_first_record_always_fits() -> None:
    builder = RecordBatchBuilder(16)

    assert builder.try_append(1, b"k", bytes(100_000)) == 0
    assert builder.is_full
    assert builder.try_append(1, None, None) == -1
    assert next(iter(next(read_batches(builder.close())))).value == bytes(100_000)


def test_fills_the_capacity_exactly_and_no_further() -> None:
    builder = RecordBatchBuilder(1 << 16)
    while builder.try_append(1, b"key", bytes(100)) >= 0:
        pass

    batch = builder.close()

    assert (1 << 16) - 120 < len(batch) <= 1 << 16


def test_estimated_size_is_exact_without_compression() -> None:
    builder = RecordBatchBuilder(10_000)
    for number in range(70):
        builder.try_append(number * 1_000_000, b"k" * number, b"v", [("name", b"x")])
    size = builder.estimated_size

    assert len(builder.close()) == size


def test_a_compression_ratio_makes_more_room() -> None:
    plain, compressed = RecordBatchBuilder(10_000), RecordBatchBuilder(10_000, "gzip", compression_ratio=0.25)
    for builder in (plain, compressed):
        while builder.try_append(1, None, b"all the same " * 8) >= 0:
            pass

    assert 3.9 < compressed.record_count / plain.record_count < 4.1
    assert compressed.estimated_size <= 10_000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_of_any_codec_reads_back(codec: str) -> None:
    builder = RecordBatchBuilder(1 << 20, codec)
    for number in range(1000):
        builder.try_append(number, str(number).encode(), b"value " * (number % 30), [("n", bytes([number % 256]))])

    (batch,) = read_batches(builder.close(40, 3))

    batch.check()
    records = list(batch)
    assert batch.compression == codec
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (40, 1039, 3)
    assert [record.key for record in records] == [str(number).encode() for number in range(1000)]
    assert records[29].value == b"value " * 29
    assert records[999].headers == [("n", bytes([999 % 256]))]


@pytest.mark.parametrize("buffer", [bytearray(b"abc"), memoryview(b"abc"), memoryview(bytearray(b"xabcx"))[1:4]])
def test_takes_any_buffer(buffer: bytearray | memoryview) -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, buffer, buffer, [("h", buffer)])

    (record,) = next(read_batches(builder.close()))

    assert (record.key, record.value, record.headers) == (b"abc", b"abc", [("h", b"abc")])


@pytest.mark.parametrize(
    ("key", "value", "headers", "message"),
    [
        ("text", b"", [], "key must be bytes or None, not str"),
        (b"", 5, [], "value must be bytes or None, not int"),
        (b"", b"", [("h", "text")], "header value must be bytes or None, not str"),
        (b"", b"", [(b"h", b"v")], "header must be a pair of a str and bytes"),
        (b"", b"", ["hv"], "header must be a pair"),
        (b"", b"", [("h", b"v", 1)], "header must be a pair"),
    ],
)
def test_refuses_what_is_not_serialized_and_stores_nothing(
    key: object, value: object, headers: list[object], message: str
) -> None:
    builder = RecordBatchBuilder(1000)
    empty = builder.estimated_size

    with pytest.raises(IllegalTypeError, match=message):
        builder.try_append(1, key, value, headers)  # type: ignore[arg-type]  # the wrong types are the point

    assert (builder.record_count, builder.estimated_size) == (0, empty)


def test_refuses_negative_timestamps_but_for_none() -> None:
    builder = RecordBatchBuilder(1000)

    with pytest.raises(IllegalArgumentError, match="-2 is negative"):
        builder.try_append(-2, None, None)

    assert builder.try_append(-1, None, None) == 0
    assert builder.max_timestamp == -1


def test_timestamps_may_fall_and_be_far_apart() -> None:
    times = [1_700_000_000_000, 0, 1_699_999_999_999, 2**62, -1]
    builder = RecordBatchBuilder(1000)
    for time in times:
        builder.try_append(time, None, None)

    (batch,) = read_batches(builder.close())

    assert [record.timestamp for record in batch] == times
    assert (batch.base_timestamp, batch.max_timestamp) == (times[0], 2**62)


def test_producer_state_stands_in_the_header() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, b"a")
    builder.try_append(1, None, b"b")
    builder.set_producer_state(2**40, 7, 2**31 - 1, transactional=True)

    (batch,) = read_batches(builder.close())

    batch.check()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 7, 2**31 - 1)
    assert batch.is_transactional
    assert not batch.is_control
    assert batch.last_sequence == 0  # it wraps


def test_producer_state_can_be_rewritten_in_a_closed_batch() -> None:
    builder = RecordBatchBuilder(1000, "gzip")
    builder.try_append(1, b"k", b"v")
    builder.set_producer_state(5, 0, 10)
    data = bytearray(b"....") + builder.close(3)

    set_producer_state(data, 4, 6, 1, 0)

    (batch,) = read_batches(memoryview(data)[4:])
    batch.check()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.base_offset) == (6, 1, 0, 3)


def test_a_closed_builder_takes_nothing_more() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, None)
    builder.close()

    with pytest.raises(IllegalStateError, match="closed"):
        builder.try_append(1, None, None)
    with pytest.raises(IllegalStateError, match="closed"):
        builder.close()


def test_an_empty_batch_cannot_be_closed() -> None:
    with pytest.raises(IllegalStateError, match="at least one record"):
        RecordBatchBuilder(1000).close()


def test_an_unknown_codec_is_named_with_the_known_ones() -> None:
    with pytest.raises(IllegalArgumentError, match=r"'brotli'.*none, gzip, snappy, lz4, zstd"):
        RecordBatchBuilder(1000, "brotli")


def test_the_checksum_is_crc32c_over_all_after_it() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(1, None, b"v")
    batch = builder.close()

    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
    assert scan_batches(batch)[0].crc == crc32c(memoryview(batch)[21:])
