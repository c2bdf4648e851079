"""Magic 0 and 1, written here byte by byte from the documentation of the format."""

from __future__ import annotations

import struct
import zlib

import pytest

from barnabas.errors import CorruptRecordError
from barnabas.records import RecordBatchBuilder, compress, decode_arrow, decode_records, read_batches, scan_batches
from barnabas.records.compressed_frames import xxhash32

CODEC_IDS = {"gzip": 1, "snappy": 2, "lz4": 3}
LOG_APPEND_TIME_BIT = 0x08


def sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(
    magic: int, offset: int, key: bytes | None, value: bytes | None, timestamp: int = 0, attributes: int = 0
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", timestamp)
    body += sized(key) + sized(value)
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(magic: int, offset: int, codec: str, inner: bytes, timestamp: int = 0, attributes: int = 0) -> bytes:
    return message(magic, offset, None, compress(codec, inner), timestamp, attributes | CODEC_IDS[codec])


def seen(data: bytes) -> list[tuple[int, int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp, record.timestamp_type, record.key, record.value)
        for record in decode_records(data, "t", 0)
    ]


def test_magic_0_has_no_timestamps() -> None:
    data = message(0, 5, b"k", b"v") + message(0, 9, None, None) + message(0, 10, b"", b"")

    assert seen(data) == [(5, -1, -1, b"k", b"v"), (9, -1, -1, None, None), (10, -1, -1, b"", b"")]


def test_magic_1_has_timestamps_of_both_types() -> None:
    data = message(1, 5, b"k", b"v", 1234) + message(1, 6, b"k", b"v", 5678, LOG_APPEND_TIME_BIT)

    assert seen(data) == [(5, 1234, 0, b"k", b"v"), (6, 5678, 1, b"k", b"v")]


@pytest.mark.parametrize("codec", list(CODEC_IDS))
def test_wrappers_of_magic_1_hold_relative_offsets(codec: str) -> None:
    inner = message(1, 0, b"a", b"1", 50) + message(1, 1, b"b", b"2", 40) + message(1, 3, b"c", None, 60)

    assert seen(wrapper(1, 103, codec, inner, 60)) == [
        (100, 50, 0, b"a", b"1"),
        (101, 40, 0, b"b", b"2"),
        (103, 60, 0, b"c", None),
    ]


def test_wrappers_of_log_append_time_stamp_every_message() -> None:
    inner = message(1, 0, b"a", b"1", 50) + message(1, 1, b"b", b"2", 40)

    assert [(record[1], record[2]) for record in seen(wrapper(1, 7, "gzip", inner, 999, LOG_APPEND_TIME_BIT))] == [
        (999, 1),
        (999, 1),
    ]


def test_wrappers_of_offset_0_from_old_librdkafka_are_read_as_they_are() -> None:
    inner = message(1, 0, None, b"1") + message(1, 1, None, b"2")

    assert [record[0] for record in seen(wrapper(1, 0, "gzip", inner))] == [0, 1]


@pytest.mark.parametrize("codec", list(CODEC_IDS))
def test_wrappers_of_magic_0_hold_absolute_offsets(codec: str) -> None:
    inner = message(0, 100, b"a", b"1") + message(0, 102, b"b", b"2")

    assert seen(wrapper(0, 102, codec, inner)) == [(100, -1, -1, b"a", b"1"), (102, -1, -1, b"b", b"2")]


def test_lz4_with_the_broken_header_checksum_of_kafka_0_9_is_read() -> None:
    frame = bytearray(compress("lz4", message(0, 0, b"a", b"1")))
    end = 6 + (8 if frame[4] & 0x08 else 0)
    frame[end] = xxhash32(frame[:end]) >> 8 & 0xFF

    assert seen(message(0, 0, None, bytes(frame), attributes=3)) == [(0, -1, -1, b"a", b"1")]


def test_all_formats_can_follow_each_other() -> None:
    builder = RecordBatchBuilder(1000)
    builder.try_append(7, None, b"2")
    data = (
        message(0, 0, None, b"0")
        + wrapper(1, 2, "gzip", message(1, 0, None, b"1a") + message(1, 1, None, b"1b"))
        + builder.close(3)
    )

    assert [batch.magic for batch in read_batches(data)] == [0, 1, 2]
    assert [(record.offset, record.value) for record in decode_records(data, "t", 0)] == [
        (0, b"0"),
        (1, b"1a"),
        (2, b"1b"),
        (3, b"2"),
    ]
    assert [record.offset for record in decode_records(data, "t", 0, 2)] == [2, 3]
    assert decode_arrow(data, "t", 0, 1).column("value").to_pylist() == [b"1a", b"1b", b"2"]


def test_batches_of_old_messages_know_their_offsets() -> None:
    inner = message(1, 0, b"a", b"1", 50) + message(1, 1, b"b", b"2", 40)

    (batch,) = read_batches(wrapper(1, 11, "snappy", inner, 50))

    batch.check()
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.record_count) == (10, 11, 12, 2)
    assert (batch.compression, batch.max_timestamp, batch.producer_id, batch.is_control) == ("snappy", 50, -1, False)


def test_scanning_does_not_look_inside() -> None:
    data = wrapper(1, 11, "gzip", message(1, 0, None, b"1") + message(1, 1, None, b"2"))

    (header,) = scan_batches(data)

    assert (header.last_offset, header.next_offset, header.size_in_bytes) == (11, 12, len(data))


def test_the_crc_of_the_wrapper_is_checked() -> None:
    data = bytearray(message(1, 0, b"key", b"value"))
    data[-1] ^= 1

    with pytest.raises(CorruptRecordError, match="damaged"):
        decode_records(data, "t", 0)


def test_an_incomplete_message_at_the_end_is_left_out() -> None:
    data = message(0, 0, None, b"0") + message(0, 1, None, b"1")

    for size in range(len(data) // 2, len(data)):
        assert len(decode_records(data[:size], "t", 0)) == 1


@pytest.mark.parametrize(
    "data",
    [
        message(1, 0, None, None, attributes=1),
        message(1, 0, None, compress("zstd", message(1, 0, None, b"1")), attributes=4),
        wrapper(1, 5, "gzip", message(0, 0, None, b"1")),
        wrapper(1, 5, "gzip", wrapper(1, 0, "gzip", message(1, 0, None, b"1"))),
        wrapper(1, 5, "gzip", b""),
        wrapper(1, 5, "gzip", message(1, 0, None, b"1")[:-1]),
        wrapper(1, 5, "gzip", message(1, 9, None, b"1")),
        wrapper(0, 5, "gzip", message(0, 3, None, b"1") + message(0, 3, None, b"1")),
        message(1, -1, None, b"v"),
        message(1, 0, None, b"v", attributes=7),
        struct.pack(">qi", 0, 16) + message(1, 0, None, b"")[12:28],
    ],
    ids=[
        "no value",
        "zstd",
        "other magic inside",
        "wrapper in wrapper",
        "nothing inside",
        "half a message inside",
        "offset past the wrapper's",
        "offsets out of order",
        "negative offset",
        "codec 7",
        "too short",
    ],
)
def test_what_no_writer_could_have_written_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptRecordError):
        decode_records(data, "t", 0)


@pytest.mark.parametrize("size", [-2, 3, 0x7FFFFFFF])
def test_a_key_size_that_does_not_fit_is_corrupt(size: int) -> None:
    data = bytearray(message(0, 0, None, None))
    data[18:22] = struct.pack(">i", size)

    with pytest.raises(CorruptRecordError, match="offset 0"):
        decode_records(data, "t", 0, check_crcs=False)
